package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// gate is what a job of gate.py does not get through while it is shut.
type gate string

func newGate(t *testing.T, h home) gate {
	t.Helper()
	g := gate(filepath.Join(h.dir, "gate"))
	require.NoError(t, os.Mkdir(string(g), 0o755))
	return g
}

func (g gate) file(name string) string { return filepath.Join(string(g), name) }

func (g gate) shut(t *testing.T) { require.NoError(t, os.WriteFile(g.file("shut"), nil, 0o644)) }
func (g gate) open(t *testing.T) { require.NoError(t, os.Remove(g.file("shut"))) }

// gated is the command line of a job of three epochs that waits at a gate in the
// second.
func gated(t *testing.T, g gate, more ...string) []string {
	t.Helper()
	args := []string{program(t, "gate.py"), "-d", "digits", "-e", "3", "-b", "32", "--lr", "0.005", "--arg", "gate=" + string(g)}
	return append(args, more...)
}

// wait begins such a job and returns when functions are at the gate, and what
// they start from is in the store.
func (g gate) wait(t *testing.T, h home, args ...string) *running {
	t.Helper()
	g.shut(t)
	r := h.begin(t, args...)
	await(t, patience, "a function at the gate", func() bool {
		_, err := os.Stat(g.file("here"))
		return err == nil
	})
	await(t, patience, "a state of the second epoch", func() bool { return h.reached(t) >= 2 })
	return r
}

// reached is the epoch of the newest state in the store of a home with one job.
func (h home) reached(t *testing.T) int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(h.store, "jobs", "*", "incarnations", "*", "state.json"))
	require.NoError(t, err)
	latest := 0
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // pruned
		}
		require.NoError(t, err)
		var body struct {
			Doc struct {
				Epoch int `json:"epoch"`
			} `json:"doc"`
		}
		_, text, _ := bytes.Cut(b, []byte("\n"))
		require.NoError(t, json.Unmarshal(text, &body))
		latest = max(latest, body.Doc.Epoch)
	}
	return latest
}

// copied is a home with a copy of the store.
func (h home) copied(t *testing.T) home {
	t.Helper()
	c := newHome(t)
	require.NoError(t, os.CopyFS(c.store, os.DirFS(h.store)))
	return c
}

// complete checks a history: three epochs, in order, with every sample.
func complete(t *testing.T, r result) {
	t.Helper()
	require.Equal(t, "SUCCEEDED", r.State)
	require.Len(t, r.Epochs, 3)
	for i, epoch := range r.Epochs {
		require.Equal(t, i+1, epoch.Epoch)
		require.Equal(t, 1437, epoch.Samples)
	}
}

// A stopped job goes on at any N, from the model that it had.
func TestE2EStoppedGoesOnAtAnyN(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]os.Signal{"Ctrl-C": os.Interrupt, "SIGTERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			g := newGate(t, h)
			job := g.wait(t, h, gated(t, g, "-p", "4", "-K", "-1")...)
			require.NoError(t, job.cmd.Process.Signal(signal))
			e := job.wait(t)
			require.Equal(t, 8, e.code, e.err)
			stopped := parse(t, e.out)
			require.Equal(t, "STOPPED", stopped.State)
			require.Len(t, stopped.Epochs, 1)
			h.leaves(t, job)
			g.open(t)
			var calm float64
			for _, n := range []int{4, 1, 3, 7} {
				c := h.copied(t)
				r := c.run(t, "--resume", stopped.JobID, "-p", fmt.Sprint(n))
				complete(t, r)
				require.Equal(t, 4, r.Epochs[0].Parallelism)
				require.Equal(t, n, r.Epochs[1].Parallelism)
				require.Equal(t, stopped.Epochs[0], r.Epochs[0])
				if n == 4 {
					calm = r.Epochs[1].TrainLoss
				}
				t.Logf("N=%d: the loss of the next round is %.4f", n, r.Epochs[1].TrainLoss)
				require.InEpsilon(t, calm, r.Epochs[1].TrainLoss, 0.02, "N=%d", n)
			}
		})
	}
}

// What was resumed goes on: the model's bits, the momentum, the epochs and a
// learning rate that follows them. What cannot be resumed is refused.
func TestE2EKilledProgramGoesOn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	g := newGate(t, h)
	args := gated(t, g, "-p", "2", "-K", "4", "--static")
	calm := newHome(t).run(t, args...)
	complete(t, calm)

	refused := func(code int, says string, args ...string) {
		t.Helper()
		e := h.troupe(t, append([]string{"run"}, args...)...)
		require.Equal(t, code, e.code, e.err)
		require.Regexp(t, says, e.err)
		require.Empty(t, e.out)
	}
	refused(3, "no job was begun by run in ", "--resume", "last")
	job := g.wait(t, h, args...)
	refused(4, fmt.Sprintf(`runs on \S+ \(pid %d\)`, job.cmd.Process.Pid), "--resume", "last")
	refused(3, "no job 01hello in ", "--resume", "01hello")
	refused(2, "leave out --epochs, --lr ", "--resume", "last", "-e", "9", "--lr", "1")
	refused(2, "FUNCTION", "--resume", "last", "mlp")

	require.NoError(t, job.cmd.Process.Kill())
	require.Equal(t, -1, job.wait(t).code)
	await(t, patience, "its workers end", func() bool { return len(h.processes(t)) == 0 })
	g.open(t)
	e := h.troupe(t, "run", "--resume", "last", "-o", "json")
	require.Zero(t, e.code, e.err)
	require.Regexp(t, `(?m)^job \w+ goes on in epoch 2, after round \d+$`, e.err)
	r := parse(t, e.out)
	complete(t, r)
	require.True(t, bytes.Equal(calm.model(t), r.model(t)), "the model differs")
	rates := h.rates(t, r)
	if rates[0] == "epoch 1 lr 0.005" { // the killed process had come to store what was printed
		rates = rates[1:]
	}
	require.Equal(t, []string{"epoch 2 lr 5e-07", "epoch 3 lr 5e-07"}, rates)

	again := h.troupe(t, "run", "--resume", "last", "-o", "json")
	require.Zero(t, again.code, again.err)
	require.Equal(t, e.out, again.out, "what has succeeded is shown again")
	require.Empty(t, h.processes(t))
}

// rates returns what the functions of gate.py said of their learning rates, each
// once.
func (h home) rates(t *testing.T, r result) []string {
	t.Helper()
	lines := regexp.MustCompile(`epoch \d lr \S+`).FindAllString(h.log(t, r), -1)
	slices.Sort(lines)
	return slices.Compact(lines)
}

// A job that has FAILED goes on once its cause is gone.
func TestE2EFailedGoesOn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	g := newGate(t, h)
	args := gated(t, g, "-p", "2", "-K", "4", "--static")
	calm := newHome(t).run(t, args...)
	require.NoError(t, os.WriteFile(g.file("broken"), nil, 0o644))
	failed, _ := h.fail(t, args...)
	require.Contains(t, failed.Error, "something that this program needs is broken")
	require.Len(t, failed.Epochs, 1)
	again, _ := h.fail(t, "--resume", "last")
	require.Contains(t, again.Error, "something that this program needs is broken")
	require.Len(t, again.Epochs, 1)
	require.NoError(t, os.Remove(g.file("broken")))
	r := h.run(t, "--resume", "last")
	require.Equal(t, failed.JobID, r.JobID)
	complete(t, r)
	require.Equal(t, []string{"epoch 1 lr 0.005", "epoch 2 lr 5e-07", "epoch 3 lr 5e-07"}, h.rates(t, r))
	require.True(t, bytes.Equal(calm.model(t), r.model(t)), "the model differs")
}

// Whatever file of the newest state is damaged, the job goes on from the one
// before.
func TestE2EDamagedStateGoesOnFromTheOneBefore(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	g := newGate(t, h)
	args := gated(t, g, "-p", "2", "-K", "4", "--static")
	calm := newHome(t).run(t, args...)
	job := g.wait(t, h, args...)
	require.NoError(t, job.cmd.Process.Kill())
	require.Equal(t, -1, job.wait(t).code)
	await(t, patience, "its workers end", func() bool { return len(h.processes(t)) == 0 })
	g.open(t)
	for _, name := range []string{"state.json", "model-*.safetensors", "optimizer-*.safetensors"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := h.copied(t)
			found, err := filepath.Glob(filepath.Join(c.store, "jobs", "*", "incarnations", "1", name))
			require.NoError(t, err)
			require.NotEmpty(t, found)
			newest := found[0]
			for _, path := range found {
				if version(t, path) > version(t, newest) {
					newest = path
				}
			}
			info, err := os.Stat(newest)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(newest, info.Size()/2))
			r := c.run(t, "--resume", "last")
			complete(t, r)
			require.True(t, bytes.Equal(calm.model(t), r.model(t)), "the model differs")
		})
	}
}

// version is the number in the name of a state's file; 0: it has none.
func version(t *testing.T, path string) (v int) {
	t.Helper()
	digits := regexp.MustCompile(`-(\d+)`).FindStringSubmatch(filepath.Base(path))
	if digits != nil {
		_, err := fmt.Sscan(digits[1], &v)
		require.NoError(t, err)
	}
	return v
}

// An owner that was frozen, and finds itself replaced when it is thawed, ends by
// itself and harms nothing.
func TestE2EFrozenOwnerIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	g := newGate(t, h)
	args := gated(t, g, "-p", "2", "-K", "4", "--static")
	calm := newHome(t).run(t, args...)
	first := g.wait(t, h, args...)
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGSTOP))
	thawed := false
	defer func() {
		if !thawed {
			_ = first.cmd.Process.Signal(syscall.SIGCONT)
		}
	}()
	g.open(t)
	e := h.troupe(t, "run", "--resume", "last", "-o", "json")
	require.Zero(t, e.code, e.err)
	require.Contains(t, e.err, fmt.Sprintf("(pid %d), lives", first.cmd.Process.Pid))
	second := parse(t, e.out)
	complete(t, second)

	require.NoError(t, first.cmd.Process.Signal(syscall.SIGCONT))
	thawed = true
	old := first.wait(t)
	require.Equal(t, 4, old.code, old.err)
	require.Regexp(t, fmt.Sprintf(`troupe: job %s was taken over by pid \d+ \(node \S+\) as incarnation 2; this process stops\n$`, second.JobID), old.err)
	require.Empty(t, old.out)
	require.NotContains(t, old.err, "FAILED")
	require.Empty(t, h.processes(t))

	require.True(t, bytes.Equal(calm.model(t), second.model(t)), "the model differs")
	seen := h.troupe(t, "run", "--resume", "last", "-o", "json")
	require.Zero(t, seen.code, seen.err)
	require.Equal(t, e.out, seen.out)
	shown := h.troupe(t, "model", "show", "-n", second.JobID, "-o", "json")
	require.Zero(t, shown.code, shown.err)
	require.Contains(t, second.Model, ".2.safetensors")
	require.NotContains(t, strings.Join(files(t, filepath.Join(h.store, "models")), "\n"), ".1.safetensors")
}
