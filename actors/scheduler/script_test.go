package scheduler_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/scheduler"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output of testdata")

// TestDecisions runs the scripts of testdata: blocks of commands, ----, and what
// they lead to, first line by line and then as the state that is left. Comments
// begin with #.
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
	script := scheduler.NewScript()
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
