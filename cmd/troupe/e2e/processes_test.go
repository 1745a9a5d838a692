package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// processOf returns the process of a job of a server whose jobs have one each; 0:
// there is none.
func (s *server) processOf(t *testing.T, id string) int {
	t.Helper()
	for _, pid := range children(t, s.cmd.Process.Pid) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && slices.Contains(strings.Split(string(line), "\x00"), id) {
			return pid
		}
	}
	return 0
}

// merged returns the places, in the stream of a job's events, of those that say
// that an epoch is over, by epoch, and sees that no place comes twice or too early.
func (s *server) merged(t *testing.T, id string) map[int]int {
	t.Helper()
	times := map[int]int{}
	var incarnation, seq uint64
	for line := range strings.Lines(s.http(t, 200, "GET", "/events?job="+id, "")) {
		data, is := strings.CutPrefix(line, "data: ")
		if !is || !strings.HasPrefix(data, `{"job"`) {
			continue
		}
		var e struct {
			Job      struct{ Incarnation uint64 }
			Seq      uint64
			Finished *struct{ Record struct{ Epoch int } } `json:"epoch_finished"`
		}
		require.NoError(t, json.Unmarshal([]byte(data), &e), line)
		if e.Job.Incarnation > incarnation {
			incarnation, seq = e.Job.Incarnation, 0
		}
		require.Equal(t, incarnation, e.Job.Incarnation)
		require.Equal(t, seq+1, e.Seq, "incarnation %d", incarnation)
		seq = e.Seq
		if e.Finished != nil {
			times[e.Finished.Record.Epoch]++
		}
	}
	return times
}

// The process of one of two jobs is killed in mid-job: the job goes on in another
// one, as if nothing had been, and the other job notices nothing.
func TestE2EAJobsProcessIsKilled(t *testing.T) {
	t.Parallel()
	const epochs = 60
	flags := []string{"-e", fmt.Sprint(epochs), "-b", "16", "-p", "1", "--static", "--checkpoint-every", "300ms"}
	calm := newHome(t).train(t, flags...)

	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "2", "--jobs", "process", "--isolate")
	a, b := s.submit(t, flags...), s.submit(t, flags...)
	s.until(t, a, "its 10th epoch", func(a apiTask) bool { return a.Epoch >= 10 })
	s.until(t, b, "its first epoch", func(a apiTask) bool { return a.Epoch >= 1 })
	killed, other := s.processOf(t, a), s.processOf(t, b)
	require.NotZero(t, killed)
	require.NotZero(t, other)
	workers := children(t, other)
	require.Len(t, workers, 1)
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", killed))
	require.NoError(t, err)
	require.NotContains(t, string(line), "digits", "what the job is about is nobody's who lists processes")
	require.Contains(t, s.http(t, 200, "GET", "/tasks/"+a+"/stacks", ""), "function")

	require.NoError(t, syscall.Kill(killed, syscall.SIGKILL))
	await(t, patience, "another process", func() bool { next := s.processOf(t, a); return next != 0 && next != killed })
	require.Equal(t, other, s.processOf(t, b))
	require.Equal(t, workers, children(t, other))

	for id, incarnation := range map[string]int{a: 2, b: 1} {
		times := s.merged(t, id)
		d := s.show(t, id)
		require.Equal(t, "SUCCEEDED", d.Phase)
		require.Equal(t, incarnation, d.Incarnation)
		require.Len(t, d.Epochs, epochs)
		for i, epoch := range d.Epochs {
			require.Equal(t, i+1, epoch.Epoch)
			require.Equal(t, 1437, epoch.Samples)
			require.Positive(t, times[i+1], "it was told")
		}
		model, err := os.ReadFile(fmt.Sprintf("%s/models/%s.%d.safetensors", s.store, id, incarnation))
		require.NoError(t, err)
		require.True(t, bytes.Equal(calm.model(t), model), "the model of an undisturbed run")
	}
	require.Zero(t, s.processOf(t, a)+s.processOf(t, b), "it ends with its job")
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
	require.Empty(t, s.processes(t))
	require.Empty(t, files(t, s.tmp))
}

// A process that hangs is killed, and its job goes on in another one. A server that
// is killed takes the processes of its jobs with it, and the next one goes on with
// those.
func TestE2EAJobsProcessHangsAndThenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "2", "--jobs", "process")
	id := s.submit(t, "-e", "100000", "-p", "2")
	s.until(t, id, "its 3rd epoch", func(a apiTask) bool { return a.Epoch >= 3 })
	hangs := s.processOf(t, id)
	require.NoError(t, syscall.Kill(hangs, syscall.SIGSTOP))
	stopped := time.Now()
	await(t, patience, "its end", func() bool { return letter(hangs) == "" })
	t.Logf("noticed after %v", time.Since(stopped))
	await(t, patience, "another process", func() bool { return s.show(t, id).Incarnation == 2 })

	s.end(t, syscall.SIGKILL)
	await(t, patience, "no process of the server's", func() bool { return len(s.processes(t)) == 0 })
	next := s.home.up(t, "--listen", strings.TrimPrefix(s.url, "http://"), "--jobs", "process")
	await(t, patience, "the job goes on", func() bool { return next.show(t, id).Incarnation >= 3 && next.processOf(t, id) != 0 })
	require.Zero(t, next.ask(t, "task", "stop", "--id", id).code)
	require.Equal(t, 8, next.ask(t, "task", "show", "--id", id, "--follow").code)
	require.Zero(t, next.ask(t, "task", "resume", "--id", id).code, "at once")
	next.until(t, id, "its process", func(a apiTask) bool { return a.Phase == "RUNNING" })
	require.Zero(t, next.end(t, syscall.SIGTERM), next.log.String())
	require.Empty(t, next.processes(t))
	require.Empty(t, files(t, s.tmp))
}

// A job that was stopped while its process could not hear of it, and one whose
// process died too often, are no more to the next server than they were to this one.
func TestE2EAnEndThatNoProcessStoredStays(t *testing.T) {
	t.Parallel()
	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "2", "--jobs", "process")
	flags := []string{"-e", "100000", "-b", "16", "-p", "1", "--static", "--checkpoint-every", "1h"}
	frozen, dies := s.submit(t, flags...), s.submit(t, flags...)
	s.until(t, frozen, "its first epoch", func(a apiTask) bool { return a.Epoch >= 1 })
	require.NoError(t, syscall.Kill(s.processOf(t, frozen), syscall.SIGSTOP))
	require.Zero(t, s.ask(t, "task", "stop", "--id", frozen).code)
	await(t, patience, "the end of the other one", func() bool {
		if pid := s.processOf(t, dies); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return s.show(t, dies).Phase == "FAILED"
	})
	require.Equal(t, 8, s.ask(t, "task", "show", "--id", frozen, "--follow").code)
	s.end(t, syscall.SIGKILL)

	next := s.home.up(t, "--listen", strings.TrimPrefix(s.url, "http://"), "--jobs", "process")
	last := next.submit(t, "-e", "1", "-p", "1") // by its end the server has looked at what the last one left
	next.until(t, last, "its end", func(a apiTask) bool { return a.Phase == "SUCCEEDED" })
	require.Equal(t, "STOPPED", next.show(t, frozen).Phase)
	require.Equal(t, "FAILED", next.show(t, dies).Phase)
	require.Zero(t, next.end(t, syscall.SIGTERM), next.log.String())
}
