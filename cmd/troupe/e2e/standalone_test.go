package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// alone is a process of troupe job.
type alone struct {
	url string
	cmd *exec.Cmd
	out bytes.Buffer // behind the URL
	err bytes.Buffer
	all sync.WaitGroup
}

// job starts a process of a job, and returns once it listens.
func (h home) job(t *testing.T, flags ...string) *alone {
	t.Helper()
	j := &alone{cmd: h.command(t, append([]string{"job", "--id", "alone", "--slots", "2"}, flags...)...)}
	j.cmd.Stderr = &j.err
	stdout, err := j.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, j.cmd.Start())
	t.Cleanup(func() { _ = j.cmd.Process.Kill() })
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	require.NoError(t, err, j.err.String())
	j.url = strings.TrimSpace(line)
	j.all.Go(func() { _, _ = j.out.ReadFrom(lines) })
	return j
}

// start gives the job its task.
func (j *alone) start(t *testing.T, task string) {
	t.Helper()
	response, err := http.Post(j.url+"/start", "application/json", strings.NewReader(task))
	require.NoError(t, err)
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, 200, response.StatusCode, string(said))
	require.Equal(t, "alone", string(said))
}

// reach follows the job's events up to the end of an epoch, and calls there.
func (j *alone) reach(t *testing.T, epoch int, then func()) {
	t.Helper()
	response, err := http.Get(j.url + "/events")
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		var e struct {
			EpochFinished *struct {
				Record struct{ Epoch int } `json:"record"`
			} `json:"epoch_finished"`
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &e) == nil && e.EpochFinished != nil && e.EpochFinished.Record.Epoch >= epoch {
			then()
			return
		}
	}
	t.Fatalf("the job has ended before epoch %d: %s", epoch, j.err.String())
}

// wait returns the exit code.
func (j *alone) wait(t *testing.T) int {
	t.Helper()
	j.all.Wait()
	return exitCode(t, j.cmd.Wait())
}

// A job in a process of its own goes on where it was under the same id: after
// kill -9, and after a signal that stopped it. It trains each epoch once.
func TestE2EAJobAloneGoesOn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const task = `{"request":{"model_type":"net","batch_size":16,"epochs":60,"dataset":"digits","lr":0.01,"function_name":"mlp","options":{"k":4}},"job":{"id":"alone","state":{"parallelism":1}}}`
	j := h.job(t)
	j.start(t, task)
	j.reach(t, 3, func() { require.NoError(t, j.cmd.Process.Kill()) })
	require.Equal(t, -1, j.wait(t))

	j = h.job(t)
	j.start(t, task)
	j.reach(t, 5, func() { require.NoError(t, j.cmd.Process.Signal(syscall.SIGTERM)) })
	require.Equal(t, 8, j.wait(t), j.err.String())
	require.Contains(t, j.err.String(), "goes on in epoch")
	require.Contains(t, j.out.String(), "job alone STOPPED")

	j = h.job(t)
	j.start(t, task)
	j.reach(t, 60, func() {})
	require.Zero(t, j.wait(t), j.err.String())
	require.Contains(t, j.out.String(), "job alone SUCCEEDED after 60 epochs")

	shown := h.troupe(t, "history", "get", "--id", "alone", "-o", "json")
	require.Zero(t, shown.code, shown.err)
	var history struct {
		Job struct {
			Incarnation int
			Epochs      []struct{ Epoch, Samples int }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(shown.out), &history))
	require.Len(t, history.Job.Epochs, 60)
	for i, e := range history.Job.Epochs {
		require.Equal(t, i+1, e.Epoch)
		require.Equal(t, 1437, e.Samples)
	}
	require.GreaterOrEqual(t, history.Job.Incarnation, 3)
}

// A job that belongs to a server ends once that is gone, and stays as it is in the
// store. A signal ends one that has no task at once.
func TestE2EAJobAloneEndsWithItsServer(t *testing.T) {
	t.Parallel()
	s := newHome(t).up(t, "--listen", "127.0.0.1:0")
	h := newHome(t)
	j := h.job(t, "--server", s.url)
	j.start(t, `{"function_name":"mlp","dataset":"digits","epochs":1000000}`)
	idle := h.job(t)
	response, err := http.Post(idle.url+"/start", "application/json", strings.NewReader(`{"function_name":"mlp","dataset":"digits","epochs":1000000}`))
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 409, response.StatusCode, "another process has the job")
	require.NoError(t, idle.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 8, idle.wait(t))
	require.NoError(t, s.cmd.Process.Kill())
	require.Equal(t, 5, j.wait(t), j.err.String())
	require.Contains(t, j.err.String(), "its server "+s.url+" is gone")
	j = h.job(t)
	j.start(t, `{"function_name":"mlp","dataset":"digits","epochs":1000000}`)
	require.NoError(t, j.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 8, j.wait(t), j.err.String())
	require.Contains(t, j.err.String(), "goes on in epoch")
}
