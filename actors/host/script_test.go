package host_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output of testdata")

// TestDecisions runs the scripts of testdata: blocks of commands, ----, and what
// they lead to, first line by line and then as the slots and queue that are
// left. Comments begin with #.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := runScript(string(want))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(want), got)
			require.NotContains(t, got, "BROKEN")
		})
	}
}

func runScript(text string) string {
	script := host.NewScript()
	var blocks []string
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		input, _, _ := strings.Cut(block, "\n----")
		var out []string
		for line := range strings.SplitSeq(input, "\n") {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if said := script.Do(line); said != "" {
				out = append(out, said)
			}
		}
		out = append(out, "=", script.State())
		blocks = append(blocks, strings.TrimSpace(input+"\n----\n"+strings.Join(out, "\n")))
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

func TestJobsWithoutAttemptsAreForgottenInTheEnd(t *testing.T) {
	script := host.NewScript()
	script.Do("slots 1")
	script.Do("invoke busy.1.1.1.0.1")
	script.Do("cancel j0.1.1.1.0.1")
	for i := range host.JobsRemembered + 100 {
		script.Do(fmt.Sprintf("cancel j%d.1.1.1.0.1", i))
	}
	require.Equal(t, host.JobsRemembered, script.Jobs())
	require.Contains(t, script.Do("invoke busy.1.1.1.0.1"), "runs", "who has attempts is not forgotten")
	require.Contains(t, script.Do("invoke j4150.1.1.1.0.1"), "was cancelled")
}
