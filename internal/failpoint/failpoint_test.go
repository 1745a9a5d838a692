package failpoint_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/failpoint"
)

const childEnv = "TROUPE_FAILPOINT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	for _, name := range []string{"a.x", "b.x", "a.y", "b.y", "a.x"} {
		err := failpoint.Pass(name)
		fmt.Printf("%s full=%t\n", name, errors.Is(err, syscall.ENOSPC))
	}
}

// The same test serves both builds, as in package invariant.
func TestPassFailsWhereTheEnvironmentSays(t *testing.T) {
	all := []string{"a.x", "b.x", "a.y", "b.y", "a.x"}
	for _, tt := range []struct {
		name, env string
		passed    int // points behind which the child still lived
		full      int // index of the point that was full, -1: none
		wrong     string
	}{
		{"nothing is asked for", "", 5, -1, ""},
		{"the second of a prefix", "a:2", 2, -1, ""},
		{"the third of all", ":3", 2, -1, ""},
		{"the last of a name", "a.x:2", 4, -1, ""},
		{"none is that far", "a:4", 5, -1, ""},
		{"a full disk", "b:2:full", 5, 3, ""},
		{"no count", "a", 0, -1, "want prefix:n"},
		{"a count of nothing", "a:0", 0, -1, "no count from 1"},
		{"another way to fail", "a:1:half", 0, -1, "want prefix:n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			exe, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(exe)
			cmd.Env = append(os.Environ(), childEnv+"=1", "TROUPE_FAILPOINT="+tt.env, "TROUPE_FAILPOINT_TRACE="+trace)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			passed, full := tt.passed, tt.full
			if !failpoint.Enabled { // the environment means nothing
				passed, full = 5, -1
			}
			want := ""
			for i, name := range all[:passed] {
				want += fmt.Sprintf("%s full=%t\n", name, i == full)
			}
			require.Equal(t, want, string(out))
			if !failpoint.Enabled {
				require.NoError(t, err)
				require.NoFileExists(t, trace)
				return
			}
			if tt.wrong != "" {
				require.Error(t, err)
				require.Contains(t, stderr.String(), tt.wrong)
				return
			}
			if passed < 5 {
				require.ErrorContains(t, err, "signal: killed")
				passed++ // the last one is in the trace, too
			} else {
				require.NoError(t, err)
			}
			b, err := os.ReadFile(trace)
			require.NoError(t, err)
			require.Equal(t, strings.Join(all[:passed], "\n")+"\n", string(b))
		})
	}
}
