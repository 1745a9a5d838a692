package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// These show reported cases as a client of the HTTP API sees them.

// apiTask is what GET /tasks/{id} answers, as far as tests look at it.
type apiTask struct {
	Job struct {
		ID string `json:"id"`
	} `json:"job"`
	Phase     string   `json:"phase"`
	Reason    string   `json:"reason"`
	Epoch     int      `json:"epoch"`
	Round     int      `json:"round"`
	Loss      *float64 `json:"loss"`
	Submitted int64    `json:"submitted_ms"`
	Queued    float64  `json:"queued_s"`
	Starting  float64  `json:"starting_s"`
	Running   float64  `json:"running_s"`
	ETA       *float64 `json:"eta_s"`
	Retries   int      `json:"retries"`
}

func (a apiTask) ended() bool {
	return a.Phase == "SUCCEEDED" || a.Phase == "FAILED" || a.Phase == "STOPPED"
}

// apiEvent is an event of a job, as far as tests look at it.
type apiEvent struct {
	Failed *struct {
		Attempt struct {
			Epoch    int `json:"epoch"`
			Round    int `json:"round"`
			Function int `json:"function"`
			Attempt  int `json:"attempt"`
		} `json:"attempt"`
		Failure struct {
			Text  string `json:"text"`
			Trace string `json:"trace"`
		} `json:"failure"`
	} `json:"function_failed"`
}

// http sends a request, whose answer must have that status, and returns the body.
func (s *server) http(t *testing.T, want int, method, path, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, want, answer.StatusCode, "%s %s: %s", method, path, b)
	return string(b)
}

func (s *server) get(t *testing.T, path string, into any) {
	t.Helper()
	body := s.http(t, http.StatusOK, "GET", path, "")
	require.NoError(t, json.Unmarshal([]byte(body), into), body)
}

// putProbe stores testdata/probe.py as the function probe.
func (s *server) putProbe(t *testing.T) {
	t.Helper()
	code, err := os.ReadFile(program(t, "probe.py"))
	require.NoError(t, err)
	s.http(t, http.StatusOK, "PUT", "/functions/probe?file=probe.py", string(code))
}

// post submits a job on digits with these options, and returns its id.
func (s *server) post(t *testing.T, function string, epochs int, options map[string]any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"function_name": function, "dataset": "digits", "epochs": epochs, "batch_size": 32, "options": options,
	})
	require.NoError(t, err)
	return s.http(t, http.StatusOK, "POST", "/train", string(body))
}

// postProbe submits a job of two functions that does something wrong.
func (s *server) postProbe(t *testing.T, args map[string]string) string {
	t.Helper()
	return s.post(t, "probe", 1, map[string]any{"default_parallelism": 2, "static_parallelism": true, "args": args})
}

// until looks at a job until it is like that.
func (s *server) until(t *testing.T, id, what string, is func(apiTask) bool) (a apiTask) {
	t.Helper()
	await(t, patience, what, func() bool {
		a = apiTask{}
		s.get(t, "/tasks/"+id, &a)
		return is(a)
	})
	return a
}

// over follows a job's events to its end, and returns them and how it ended.
func (s *server) over(t *testing.T, id string) (events []apiEvent, a apiTask) {
	t.Helper()
	stream := s.http(t, http.StatusOK, "GET", "/events?job="+id, "")
	require.Contains(t, stream, "event: ended")
	for line := range strings.Lines(stream) {
		if data, is := strings.CutPrefix(line, "data: "); is && strings.HasPrefix(data, `{"job"`) {
			var e apiEvent
			require.NoError(t, json.Unmarshal([]byte(data), &e), line)
			events = append(events, e)
		}
	}
	return events, s.until(t, id, "its end", apiTask.ended)
}

// idle waits until the node says that none of its slots is at work.
func (s *server) idle(t *testing.T) {
	t.Helper()
	await(t, time.Minute, "nothing is at work", func() bool {
		var nodes []struct{ Slots, Busy int }
		s.get(t, "/cluster", &nodes)
		return len(nodes) == 1 && nodes[0].Slots > 0 && nodes[0].Busy == 0
	})
}

// Case 9: the traceback of the one function that raises, at its fifth batch, is
// in the log, in an event that names the function, and in the reason.
func TestE2EAPIAFunctionRaises(t *testing.T) {
	t.Parallel()
	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "2")
	s.putProbe(t)
	id := s.postProbe(t, map[string]string{"do": "train-raises", "step": "5", "function": "1"})
	events, a := s.over(t, id)
	require.Equal(t, "FAILED", a.Phase)
	traceback := "RuntimeError: the fifth step went wrong"
	log := s.http(t, http.StatusOK, "GET", "/tasks/"+id+"/logs", "")
	for _, text := range []string{a.Reason, log} {
		require.Contains(t, text, "Traceback (most recent call last):")
		require.Contains(t, text, traceback)
	}
	failures := 0
	for _, e := range events {
		if e.Failed == nil {
			continue
		}
		failures++
		require.Equal(t, 1, e.Failed.Attempt.Function)
		require.Equal(t, failures, e.Failed.Attempt.Attempt)
		require.Contains(t, e.Failed.Failure.Text, `function "probe" raised RuntimeError in train (probe.py:`)
		require.Contains(t, e.Failed.Failure.Trace, traceback)
	}
	require.Equal(t, 2, failures, "two fresh workers raise the same, a third is not tried")
	s.idle(t)
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
}

// Cases 12 and 17: workers that are always killed are replaced as often as asked
// for; then the job has FAILED, nothing is left of it, and nothing of the server
// after its end.
func TestE2EAPIAlwaysCrashes(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := h.up(t, "--listen", "127.0.0.1:0", "--slots", "2")
	s.putProbe(t)
	for _, function := range []string{"mlp", "probe"} {
		id := s.post(t, function, 3, map[string]any{"default_parallelism": 2, "static_parallelism": true, "retries": 2, "chaos": "kill=1"})
		events, a := s.over(t, id)
		require.Equal(t, "FAILED", a.Phase)
		require.Regexp(t, `epoch 1, round 1: 0 of 2 functions answered, .*was killed`, a.Reason)
		attempts := map[[2]int]bool{}
		for _, e := range events {
			if e.Failed != nil {
				require.Equal(t, 1, e.Failed.Attempt.Epoch)
				require.Equal(t, 1, e.Failed.Attempt.Round)
				attempts[[2]int{e.Failed.Attempt.Function, e.Failed.Attempt.Attempt}] = true
			}
		}
		require.Len(t, attempts, 2*3, "of each assignment the first attempt, and two more: %v", attempts)
		require.Equal(t, 2*2, a.Retries)
		s.idle(t)
	}
	await(t, time.Minute, "no worker is left: the server runs, and what its next worker would be forked from", func() bool {
		return len(h.processes(t)) <= 2
	})
	require.JSONEq(t, "[]", s.http(t, http.StatusOK, "GET", "/tasks", ""))
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
	require.Empty(t, h.processes(t))
	free, err := net.Listen("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err, "the port is free")
	require.NoError(t, free.Close())
	require.Empty(t, files(t, h.tmp))
}

// Case 36: while a job runs it tells how far it is, how well it does and how long
// it will take; and it gets further.
func TestE2EAPIProgress(t *testing.T) {
	t.Parallel()
	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "2")
	const epochs = 100_000
	id := s.post(t, "mlp", epochs, map[string]any{"default_parallelism": 2, "static_parallelism": true, "k": 4})
	tells := func(a apiTask) bool {
		return a.Phase == "RUNNING" && a.Epoch >= 1 && a.Round >= 1 && a.Loss != nil && a.ETA != nil
	}
	first := s.until(t, id, "epoch, round, loss and ETA", tells)
	require.LessOrEqual(t, first.Epoch, epochs)
	require.Positive(t, *first.Loss)
	require.Positive(t, *first.ETA)
	require.Positive(t, first.Running)
	later := s.until(t, id, "a later epoch", func(a apiTask) bool { return tells(a) && a.Epoch > first.Epoch })
	require.Greater(t, later.Running, first.Running)
	s.http(t, http.StatusAccepted, "DELETE", "/tasks/"+id, "")
	_, a := s.over(t, id)
	require.Equal(t, "STOPPED", a.Phase)
	require.Nil(t, a.ETA, "what has ended takes no time")
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
}

// Case 38: jobs for which there is no slot wait in the order in which they came;
// once they are cancelled others get the slot.
func TestE2EAPIQueue(t *testing.T) {
	t.Parallel()
	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "1")
	one := map[string]any{"default_parallelism": 1, "static_parallelism": true}
	long := s.post(t, "mlp", 1_000_000, one)
	s.until(t, long, "it runs", func(a apiTask) bool { return a.Phase == "RUNNING" })
	const queued = 300
	want := []string{long}
	for range queued {
		want = append(want, s.post(t, "mlp", 1, one))
	}
	list := func() (tasks []apiTask) { s.get(t, "/tasks", &tasks); return tasks }
	var ids []string
	for _, a := range list() {
		ids = append(ids, a.Job.ID)
		require.Equal(t, a.Job.ID == long, a.Phase == "RUNNING", a.Phase)
	}
	require.Equal(t, want, ids, "oldest first")

	const kept = 5 // start, in order; the others are cancelled
	for _, id := range want[1+kept:] {
		s.http(t, http.StatusAccepted, "DELETE", "/tasks/"+id, "")
	}
	await(t, patience, "the others have gone", func() bool { return len(list()) == 1+kept })
	require.Equal(t, "RUNNING", list()[0].Phase, "the long one has not noticed")
	last := s.post(t, "mlp", 1, one)
	s.http(t, http.StatusAccepted, "DELETE", "/tasks/"+long, "")
	before := int64(0)
	for _, id := range append(want[1:1+kept:1+kept], last) {
		_, a := s.over(t, id)
		require.Equal(t, "SUCCEEDED", a.Phase, a.Reason)
		started := a.Submitted + int64(1000*a.Queued)
		require.GreaterOrEqual(t, started, before-1, "in order") // they are rounded
		before = started
	}
	require.JSONEq(t, "[]", s.http(t, http.StatusOK, "GET", "/tasks", ""))
	s.idle(t)
	for _, id := range []string{long, want[1+kept], want[queued]} {
		_, a := s.over(t, id)
		require.Equal(t, "STOPPED", a.Phase)
	}
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
}

// Case 39: what a job waited is none of its start, and neither is run time.
func TestE2EAPITimes(t *testing.T) {
	t.Parallel()
	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "1")
	one := map[string]any{"default_parallelism": 1, "static_parallelism": true}
	long := s.post(t, "mlp", 1_000_000, one)
	s.until(t, long, "it runs", func(a apiTask) bool { return a.Phase == "RUNNING" })
	began := time.Now()
	id := s.post(t, "mlp", 3, one)
	const waits = 2.0 // seconds, much more than it takes to train
	waiting := s.until(t, id, "it has waited", func(a apiTask) bool { return a.Queued >= waits })
	require.Equal(t, "QUEUED", waiting.Phase)
	require.Zero(t, waiting.Starting)
	require.Zero(t, waiting.Running)
	s.http(t, http.StatusAccepted, "DELETE", "/tasks/"+long, "")
	_, a := s.over(t, id)
	took := time.Since(began).Seconds()
	require.Equal(t, "SUCCEEDED", a.Phase, a.Reason)
	require.GreaterOrEqual(t, a.Queued, waiting.Queued)
	require.Positive(t, a.Starting)
	require.Positive(t, a.Running)
	sum := a.Queued + a.Starting + a.Running
	require.LessOrEqual(t, sum, took+0.01, "%+v", a) // submitted_ms is rounded
	require.LessOrEqual(t, a.Starting+a.Running, took-waiting.Queued+0.01, "the wait is not among them: %+v", a)
	again := apiTask{}
	s.get(t, "/tasks/"+id, &again)
	require.Equal(t, a, again, "an end is an end")
	_, stopped := s.over(t, long)
	require.Greater(t, stopped.Running, waits-0.01, "that one ran meanwhile")
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
}

// Case 41: the error names the method, what came and what was expected,
// in the task, in the event and for who looks at the history.
func TestE2EAPIWrongReturns(t *testing.T) {
	t.Parallel()
	s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "2")
	s.putProbe(t)
	for _, c := range []struct{ do, says string }{
		{"train-none", `Probe\.train\(\) returned None .*at batch 0, expected the loss of the batch: a number`},
		{"train-text", `Probe\.train\(\) returned the str '0\.25' at batch 0, expected the loss of the batch: a number`},
		{"train-list", `Probe\.train\(\) returned the list \[0\.25, 0\.5\] at batch 0, expected the loss of the batch: a number`},
		{"train-nan", `Probe\.train\(\) returned nan at batch 0, expected a finite number`},
	} {
		t.Run(c.do, func(t *testing.T) {
			events, a := s.over(t, s.postProbe(t, map[string]string{"do": c.do}))
			require.Equal(t, "FAILED", a.Phase)
			require.Regexp(t, c.says, a.Reason)
			var said bytes.Buffer
			for _, e := range events {
				if e.Failed != nil {
					fmt.Fprintln(&said, e.Failed.Failure.Text)
				}
			}
			require.Regexp(t, c.says, said.String())
			var history struct{ Job apiTask }
			s.get(t, "/history/"+a.Job.ID, &history)
			require.Equal(t, a.Reason, history.Job.Reason)
		})
	}
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
}
