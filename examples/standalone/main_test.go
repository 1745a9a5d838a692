package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
)

// endpoint starts a process that runs mlp for others, and returns its URL.
func endpoint(t *testing.T, troupe string) string {
	t.Helper()
	cmd := exec.Command(troupe, "serve", "--function", "mlp", "--port", "0")
	says, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if at := regexp.MustCompile(` at (http://[0-9.:]+)`).FindStringSubmatch(lines.Text()); at != nil {
			return at[1]
		}
	}
	t.Fatal("the endpoint does not say where it is")
	return ""
}

func TestTheExampleTrains(t *testing.T) {
	if testing.Short() {
		t.Skip("builds troupe and runs its processes")
	}
	troupe := filepath.Join(t.TempDir(), "troupe")
	built, err := exec.Command("go", "build", "-o", troupe, "github.com/troupe-ml/troupe/cmd/troupe").CombinedOutput()
	require.NoError(t, err, string(built))
	node := config.DefaultNode()
	node.Store, node.Slots = "file://"+t.TempDir(), 2
	endpoints := []string{endpoint(t, troupe), endpoint(t, troupe)}
	for range 2 { // again in the same store
		var out strings.Builder
		require.NoError(t, run(node, endpoints, &out))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 5, out.String())
		require.Regexp(t, `^epoch 4: loss 0\.\d+, [89]\d\.\d % right$`, lines[3])
		require.Regexp(t, `PHASE_SUCCEEDED: file://.*/models/[a-z0-9]+\.1\.safetensors$`, lines[4])
	}
}
