package e2e_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	kills       = 50 // kill -9 of the whole process
	killsInSave = 20 // of them at least so many while a state is being saved
)

// death is a moment at which a process is killed.
type death struct {
	failpoint string // prefix:n, by itself; "": from here,
	line      int    // when it has written so many lines of what happens in it
}

func (d death) String() string {
	if d.failpoint != "" {
		return d.failpoint
	}
	return fmt.Sprintf("line %d", d.line)
}

// draw draws a moment: half of them in a save, and the rest in whatever it does
// to the store, in the claim, between any two messages.
func draw(r *rand.Rand) death {
	point := func(prefix string, n int) death { return death{failpoint: fmt.Sprintf("%s:%d", prefix, 1+r.IntN(n))} }
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		return point("job.save.", 20)
	case 4:
		return point("job.prune", 6)
	case 5:
		return point("job.claim.", 2)
	case 6, 7:
		return point("store.", 100)
	}
	return death{line: 1 + r.IntN(400)}
}

// kill -9 of everything, again and again, wherever it is: the job goes on from
// its last state, trains each epoch once with each sample once, and ends with
// the model that it would have had.
func TestE2EKilledAtAnyPoint(t *testing.T) {
	t.Parallel()
	for _, n := range []string{"1", "4"} {
		t.Run("N="+n, func(t *testing.T) {
			t.Parallel()
			asked := []string{"mlp", "-d", "digits", "-e", "3", "-b", "16", "-K", "6", "--lr", "0.1", "--static", "-p", n}
			calm := newHome(t).run(t, asked...)
			want := calm.model(t)
			h := newHome(t)
			binary, err := failing()
			require.NoError(t, err)
			h.binary = binary
			r := rand.New(rand.NewPCG(4, uint64(n[0])))
			var killed, inSave, jobs int
			var lean string
			for ; killed < kills || inSave < killsInSave; jobs++ {
				require.Less(t, jobs, 4*kills, "of %d jobs, %d died, %d of these in a save", jobs, killed, inSave)
				args := asked
				for {
					d := draw(r)
					e, saving := h.dies(t, d, args...)
					if e.code < 0 {
						killed++
						inSave += saving
						t.Logf("job %d: killed at %v", jobs, d)
						args = []string{"--resume", "last"}
						continue
					}
					if e.code == 3 && strings.Contains(e.err, "no job was begun by run") { // killed before it was
						args = asked
						continue
					}
					require.Zero(t, e.code, "%v: %s", d, e.err)
					got := parse(t, e.out)
					require.Equal(t, "SUCCEEDED", got.State)
					require.Len(t, got.Epochs, 3)
					for i, epoch := range got.Epochs {
						require.Equal(t, i+1, epoch.Epoch)
						require.Equal(t, 1437, epoch.Samples, "epoch %d", epoch.Epoch)
						require.Equal(t, calm.Epochs[i].Rounds, epoch.Rounds, "epoch %d", epoch.Epoch)
					}
					require.True(t, bytes.Equal(want, got.model(t)), "the model differs")
					if strings.Contains(e.err, ": mlp on digits") { // trained to the end: one that died just behind it is not taken up
						lean = got.JobID
					}
					break
				}
			}
			t.Logf("%d kills, %d of them in a save, in %d jobs", killed, inSave, jobs)
			require.Empty(t, h.processes(t))
			h.isLean(t, lean)
		})
	}
}

// isLean checks that a job that has succeeded left no tensors but its model's,
// and that later processes sweep what dead ones left half written.
func (h home) isLean(t *testing.T, job string) {
	t.Helper()
	half := func() []string {
		return slices.DeleteFunc(files(t, h.store), func(path string) bool {
			return !strings.HasPrefix(filepath.Base(path), ".troupe-tmp-")
		})
	}
	for tries := 0; len(half()) > 0; tries++ {
		require.Less(t, tries, 20, "what was half written stays")
		for _, path := range half() {
			long := time.Now().Add(-time.Hour) // for a minute it might be that of a living process
			require.NoError(t, os.Chtimes(path, long, long))
		}
		h.train(t, "-e", "1")
	}
	for _, path := range files(t, filepath.Join(h.store, "jobs", job)) {
		require.NotContains(t, path, ".safetensors")
	}
}

// dies runs a command line until it is killed, or to its end. It says whether
// that was while a state was being saved: 1, or 0.
func (h home) dies(t *testing.T, d death, args ...string) (e ended, saving int) {
	t.Helper()
	trace := filepath.Join(h.dir, "trace")
	require.NoError(t, os.RemoveAll(trace))
	cmd := h.command(t, append([]string{"run", "-o", "json", "-vv"}, args...)...)
	cmd.Env = append(cmd.Env, "TROUPE_FAILPOINT_TRACE="+trace)
	if d.failpoint != "" {
		cmd.Env = append(cmd.Env, "TROUPE_FAILPOINT="+d.failpoint)
	}
	var out, stderr bytes.Buffer
	cmd.Stdout = &out
	pipe, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(io.TeeReader(pipe, &stderr))
	for n := 1; ; n++ {
		if _, err := lines.ReadString('\n'); err != nil {
			break
		}
		if n == d.line {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	e.code = exitCode(t, cmd.Wait())
	e.out, e.err = out.String(), stderr.String()
	if e.code < 0 {
		exit := cmd.ProcessState.Sys().(syscall.WaitStatus)
		require.Equal(t, syscall.SIGKILL, exit.Signal(), e.err)
		passed, err := os.ReadFile(trace)
		if !errors.Is(err, os.ErrNotExist) {
			require.NoError(t, err)
		}
		saving = bytes.Count(passed, []byte("job.save.begin\n")) - bytes.Count(passed, []byte("job.save.end\n"))
		saving = min(saving, 1)
	}
	return e, saving
}
