package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// peaks are the most that a process and its scratch took, in bytes.
type peaks struct{ anonymous, scratch, file int64 }

// measure looks at a job often until it ends.
func measure(t *testing.T, job *running) (peaks, ended) {
	t.Helper()
	end := make(chan ended, 1)
	go func() { end <- job.wait(t) }()
	var p peaks
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case e := <-end:
			return p, e
		case <-tick.C:
			p.anonymous = max(p.anonymous, anonymous(job.cmd.Process.Pid))
			all, largest := occupied(job.scratch)
			p.scratch, p.file = max(p.scratch, all), max(p.file, largest)
		}
	}
}

// anonymous is the memory of a process that no file is behind; 0 when it is gone.
func anonymous(pid int) (bytes int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "RssAnon: %d kB", &bytes); err == nil {
			return bytes << 10
		}
	}
	return 0
}

// occupied is what the tensors in folders take, which are files there, and what
// the largest of them takes.
func occupied(folders []string) (all, largest int64) {
	for _, folder := range folders {
		entries, _ := os.ReadDir(folder)
		for _, entry := range entries {
			info, err := entry.Info()
			if err == nil && info.Mode().IsRegular() {
				bytes := info.Sys().(*syscall.Stat_t).Blocks * 512
				all, largest = all+bytes, max(largest, bytes)
			}
		}
	}
	return all, largest
}

// A model of one tensor of 600 MB, and one of 50,000 tensors with the state of an
// optimizer, which goes in and out in the second round: the job's process holds
// one model, a window and the names of its tensors at most, scratch two answers,
// two reference versions, and two states in and out.
func TestE2EPythonModelsOfAnySize(t *testing.T) {
	const (
		mib    = 1 << 20
		window = 64 * mib // the process itself, and what it merges through
		entry  = 1 << 10  // of the tables of a model's and an optimizer's tensors
	)
	for name, c := range map[string]struct {
		tensors, values int
		momentum        string
		samples         int
		files           int64 // in scratch at most, each as large as the model
	}{
		"one tensor of 600 MB":             {1, 150_000_000, "", 2, 4},
		"50,000 tensors with an optimizer": {50_000, 16, "0.9", 4, 8},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			args := []string{
				program(t, "big.py"), "-d", h.samples(t, c.samples, 1, 1), "-e", "1", "-b", "1", "-K", "1", "-p", "2", "--static",
				"--env", fmt.Sprint("TENSORS=", c.tensors), "--env", fmt.Sprint("VALUES=", c.values), "--validate-every", "-1",
				"--no-backup", // on a busy machine, a twin would add its answer
			}
			if c.momentum != "" {
				args = append(args, "--env", "MOMENTUM="+c.momentum)
			}
			job := h.begin(t, args...)
			p, e := measure(t, job)
			require.Zero(t, e.code, e.err)
			h.leaves(t, job)
			r := parse(t, e.out)
			require.Equal(t, c.samples/2, r.Epochs[0].Rounds)
			info, err := os.Stat(r.path(t))
			require.NoError(t, err)
			model := info.Size()
			t.Logf("model %.1f MiB: the job's process held %.1f MiB of anonymous memory, scratch %.1f MiB in files of at most %.1f MiB, %.1f s",
				float64(model)/mib, float64(p.anonymous)/mib, float64(p.scratch)/mib, float64(p.file)/mib, r.WallS)
			require.LessOrEqual(t, p.anonymous, model+window+int64(c.tensors)*entry)
			require.LessOrEqual(t, p.scratch, c.files*p.file)
			require.GreaterOrEqual(t, p.file, model, "it was measured")
			require.NoError(t, os.Remove(r.path(t)))
		})
	}
}
