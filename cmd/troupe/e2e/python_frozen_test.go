package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Reported: a worker is frozen, not dead, and the others wait for it. Here it
// is stopped by a signal in the middle of its batches. With a second slot its
// assignment runs again there; on the only slot it is cut and tried again. It
// is killed for it, so that it says nothing when it is continued; and the model
// is that of a job that nothing befell.
func TestE2EPythonFrozenWorker(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	calm := h.run(t, probe(t, "")...)
	for name, c := range map[string]struct {
		more    []string
		retries int
		says    string
	}{
		"backed up":            {[]string{"--slots", "2"}, 0, "function is late, running it a second time"},
		"cut":                  {[]string{"--slots", "2", "--no-backup"}, 1, "timed out after"},
		"cut on the only slot": {[]string{"--slots", "1"}, 1, "timed out after"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(h.dir, strings.ReplaceAll(name, " ", "-"))
			args := probe(t, "train-naps", append(c.more, "-v", "--arg", "step=5", "--arg", "function=1",
				"--arg", "mark="+mark, "--arg", "once="+mark+"-")...)
			r := h.begin(t, args...)
			var worker int
			await(t, patience, "a worker that says who it is", func() bool {
				b, _ := os.ReadFile(mark)
				line, whole := strings.CutSuffix(string(b), "\n")
				worker, _ = strconv.Atoi(line)
				return whole
			})
			require.NoError(t, syscall.Kill(worker, syscall.SIGSTOP))
			frozen := time.Now()
			thaw := time.AfterFunc(25*time.Second, func() { _ = syscall.Kill(worker, syscall.SIGCONT) }) // when it was cut, or is
			defer thaw.Stop()
			e := r.wait(t)
			took := time.Since(frozen)
			require.Zero(t, e.code, e.err)
			t.Logf("ended %v after it was frozen", took)
			require.Less(t, took, time.Minute)
			result := parse(t, e.out)
			require.Equal(t, c.retries, result.Retries, e.err)
			require.Zero(t, result.LostFunctions)
			require.Contains(t, e.err, c.says)
			require.True(t, bytes.Equal(calm.model(t), result.model(t)), "the model differs")
			require.ErrorIs(t, syscall.Kill(worker, 0), syscall.ESRCH, "the frozen worker is gone")
			for _, folder := range r.scratch {
				require.NoDirExists(t, folder)
			}
		})
	}
}

// One that hangs is cut likewise, and what it hung in is in the log.
func TestE2EPythonHangingWorkerIsCut(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	mark := filepath.Join(h.dir, "mark")
	r := h.run(t, probe(t, "train-sleeps", "--arg", "function=1", "--arg", "mark="+mark, "--arg", "once="+mark+"-", "--no-backup")...)
	require.Equal(t, 1, r.Retries)
	require.Less(t, r.WallS, 60.0)
	require.Regexp(t, `probe\.py", line \d+ in sleeps`, h.log(t, r))
}
