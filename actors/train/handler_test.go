package train_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/messages"
)

// host plays a company that runs one job over HTTP, as far as it is told.
type host struct {
	company
	refusal  error // of the next start
	exchange *remote.Exchange

	mu      sync.Mutex // guards the rest
	view    *messages.JobView
	did     []string // what changed something, in order
	n       uint32   // asked for at the start
	events  []train.Seen
	done    chan struct{}
	changed chan struct{} // closed at the end of the job
	closing sync.Once
}

func newHost() *host {
	next := func(context.Context, remote.Ref) error { return nil }
	return &host{exchange: remote.NewExchange(next), done: make(chan struct{}), changed: make(chan struct{})}
}

func (s *host) StartJobAs(_ context.Context, id string, task *messages.TrainTask, n uint32) (train.Submission, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal != nil {
		return train.Submission{}, s.refusal
	}
	s.did, s.n, s.asked = append(s.did, "start"), n, task
	s.view = &messages.JobView{Id: id, Phase: messages.Phase_PHASE_QUEUED, Task: task}
	return train.Submission{ID: id, Warnings: []string{"mind the gap"}}, nil
}

func (s *host) WatchJob(ctx context.Context, _ string, _ func(*messages.JobEvent)) (*messages.JobResult, error) {
	select {
	case <-s.changed:
		return s.view.GetResult(), nil
	case <-s.done:
		return nil, fault.New("host", fault.Unavailable, "the company is closed")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *host) Job(context.Context, string) (*messages.JobView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == nil {
		return nil, fault.New("host", fault.NotFound, "no job")
	}
	return proto.CloneOf(s.view), nil
}

func (s *host) SetParallelism(context.Context, string, uint32) error {
	return s.doUnless("parallelism")
}

func (s *host) OfferSlots(_ context.Context, n uint32) error { return s.do(fmt.Sprint("slots ", n)) }

func (s *host) Stacks(context.Context, string) (string, error) {
	return "function 0:\n  main.py:7\n", s.do("stacks")
}
func (s *host) Busy(context.Context) (uint32, error) { return 2, nil }

func (s *host) Exchange() *remote.Exchange { return s.exchange }
func (s *host) ServeJob(string, string)    {}
func (s *host) Done() <-chan struct{}      { return s.done }

func (s *host) StopStoredJob(_ context.Context, _ string, reason string) error {
	err := s.do("stop: " + reason)
	s.reach(messages.Phase_PHASE_STOPPED)
	return err
}

func (s *host) doUnless(what string) error {
	if s.refusal != nil {
		return s.refusal
	}
	return s.do(what)
}

func (s *host) do(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.did = append(s.did, what)
	return nil
}

func (s *host) JobEvents(ctx context.Context, _, after string, on func(train.Seen) error) error {
	for _, e := range s.events {
		if err := on(e); err != nil {
			return err
		}
	}
	select {
	case <-s.changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reach brings the job to a phase.
func (s *host) reach(phase messages.Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.Phase = phase
	if phase >= messages.Phase_PHASE_STOPPED {
		s.view.Result = &messages.JobResult{Phase: phase}
		s.closing.Do(func() { close(s.changed) })
	}
}

const task = `{"function_name":"mlp","dataset":"digits"}`

// call sends one request to a handler, from this machine.
func call(t testing.TB, h http.Handler, method, path, body string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	return w.Result(), string(answer)
}

// What each endpoint answers in each phase of the job, and that what is refused
// reaches no actor.
func TestEndpointsInEachPhase(t *testing.T) {
	ended := []messages.Phase{messages.Phase_PHASE_STOPPED, messages.Phase_PHASE_FAILED, messages.Phase_PHASE_SUCCEEDED}
	runs := []messages.Phase{messages.Phase_PHASE_QUEUED, messages.Phase_PHASE_STARTING, messages.Phase_PHASE_RUNNING, messages.Phase_PHASE_SAVING}
	type statuses struct{ before, runs, ended int }
	for _, c := range []struct {
		method, path, body string
		want               statuses
	}{
		{"POST", "/start", task, statuses{200, 409, 409}},
		{"POST", "/start", `{"request":` + task + `,"job":{"id":"j","state":{"parallelism":3}}}`, statuses{200, 409, 409}},
		{"POST", "/start", `{"request":` + task + `,"job":{"id":"other"}}`, statuses{400, 400, 400}},
		{"POST", "/start", `{"function_name":"mlp"}`, statuses{400, 400, 400}},
		{"POST", "/start", ``, statuses{400, 400, 400}},
		{"POST", "/start", strings.Repeat(" ", 1<<20) + task, statuses{413, 413, 413}},
		{"POST", "/update", `{"parallelism":2}`, statuses{409, 202, 409}},
		{"POST", "/update", `{"parallelism":2,"elapsed_time":1.5}`, statuses{409, 202, 409}},
		{"POST", "/update", `{"slots":0}`, statuses{409, 202, 409}},
		{"POST", "/update", `{"parallelism":0}`, statuses{400, 400, 400}},
		{"POST", "/update", `{}`, statuses{400, 400, 400}},
		{"POST", "/update", `{"parallelism":"2"}`, statuses{400, 400, 400}},
		{"POST", "/update", `nonsense`, statuses{400, 400, 400}},
		{"DELETE", "/stop", "", statuses{409, 202, 409}},
		{"DELETE", "/stop?reason=%00", "", statuses{400, 400, 400}},
		{"GET", "/health", "", statuses{200, 200, 200}},
		{"GET", "/history", "", statuses{409, 200, 200}},
		{"HEAD", "/events", "", statuses{409, 200, 200}},
		{"GET", "/events?after=j", "", statuses{409, 400, 400}},
		{"GET", "/events?after=other:1:1", "", statuses{409, 400, 400}},
		{"GET", "/stacks", "", statuses{409, 200, 200}},
		{"POST", "/start", `{"request":` + task + `,"job":{"id":"j","state":{"slots":1}}}`, statuses{200, 409, 409}},
		{"GET", "/assignment/0", "", statuses{409, 409, 409}},
		{"GET", "/data/0?epoch=1", "", statuses{409, 409, 409}},
		{"GET", "/model", "", statuses{409, 409, 409}},
		{"PUT", "/model/0", "x", statuses{409, 409, 409}},
		{"GET", "/optimizer/0", "", statuses{409, 409, 409}},
		{"PUT", "/optimizer/0", "x", statuses{409, 409, 409}},
		{"POST", "/next/0", "", statuses{409, 409, 409}},
		{"POST", "/next/x", "", statuses{409, 400, 400}},
		{"DELETE", "/next/0", "", statuses{409, 405, 405}},
		{"GET", "/start", "", statuses{405, 405, 405}},
		{"PUT", "/update", "", statuses{405, 405, 405}},
		{"POST", "/stop", "", statuses{405, 405, 405}},
		{"GET", "/", "", statuses{404, 404, 404}},
		{"GET", "/historys", "", statuses{404, 404, 404}},
		{"GET", "/history/", "", statuses{404, 404, 404}},
		{"GET", "//history", "", statuses{404, 404, 404}},
		{"GET", "/x/../history", "", statuses{404, 404, 404}},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			try := func(want int, phases ...messages.Phase) {
				for _, phase := range append(phases, 0)[:max(1, len(phases))] {
					s := newHost()
					job := train.NewBasicJob(zap.NewNop(), "j")
					job.Use(s)
					h := job.GetHandler()
					if phase != 0 {
						_, _ = call(t, h, "POST", "/start", task)
						s.reach(phase)
					}
					before := len(s.did)
					response, body := call(t, h, c.method, c.path, c.body)
					require.Equal(t, want, response.StatusCode, "%v: %.200s", phase, body)
					if want < 400 {
						continue
					}
					require.Len(t, s.did, before, "refused, and so nothing has changed")
					var e httpfault.ErrorBody
					require.NoError(t, json.Unmarshal([]byte(body), &e), body)
					require.Equal(t, want, e.Code)
					require.NotEmpty(t, e.Error)
				}
			}
			try(c.want.before)
			try(c.want.runs, runs...)
			try(c.want.ended, ended...)
		})
	}
}

// Of a hundred that start at once one wins, and only that one reaches the actors.
func TestOneStartWins(t *testing.T) {
	s := newHost()
	job := train.NewBasicJob(zap.NewNop(), "j")
	job.Use(s)
	h := job.GetHandler()
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			switch response, body := call(t, h, "POST", "/start", task); response.StatusCode {
			case http.StatusOK:
				won.Add(1)
				require.Equal(t, "j", body)
				require.Equal(t, `"mind the gap"`, response.Header.Get("Troupe-Warning"))
			case http.StatusConflict:
				lost.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, 99, lost.Load())
	require.Equal(t, []string{"start"}, s.did)
}

// A start that is refused is none: the next one may be better.
func TestARefusedStartIsNone(t *testing.T) {
	s := newHost()
	job := train.NewBasicJob(zap.NewNop(), "j")
	response, _ := call(t, job.GetHandler(), "POST", "/start", task)
	require.Equal(t, 503, response.StatusCode, "there is no company")
	job.Use(s)
	s.refusal = fault.New("x", fault.NotFound, "there is no function")
	response, body := call(t, job.GetHandler(), "POST", "/start", task)
	require.Equal(t, 404, response.StatusCode)
	require.Contains(t, body, "there is no function")
	require.Equal(t, "not found", response.Header.Get(httpfault.Header))
	response, _ = call(t, job.GetHandler(), "GET", "/history", "")
	require.Equal(t, 409, response.StatusCode)
	s.refusal = nil
	job.K = 7
	response, _ = call(t, job.GetHandler(), "POST", "/start", `{"request":`+task+`,"job":{"state":{"parallelism":3}}}`)
	require.Equal(t, 200, response.StatusCode)
	require.EqualValues(t, 3, s.n)
	require.EqualValues(t, 7, s.asked.GetOptions().GetK())
}

// No web page drives a job: not one of another site, nor one whose name was made
// to point to this machine.
func TestNoWebPageDrivesAJob(t *testing.T) {
	job := train.NewBasicJob(zap.NewNop(), "j")
	job.Use(newHost())
	server := httptest.NewServer(job.GetHandler())
	defer server.Close()
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		func(r *http.Request) { r.Host = "evil.example" },
	} {
		r, err := http.NewRequest("POST", server.URL+"/start", strings.NewReader(task))
		require.NoError(t, err)
		change(r)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, http.StatusForbidden, response.StatusCode)
	}
}

// Who follows gets what happens and the end, and the end ends what serves.
func TestServeEndsOnceTheEndWasTold(t *testing.T) {
	s := newHost()
	s.events = []train.Seen{{Cursor: "j:1:1", Event: &messages.JobEvent{Seq: 1, What: &messages.JobEvent_Queued{Queued: &messages.JobQueued{}}}}, {Cursor: "j:1:2"}}
	job := train.NewBasicJob(zap.NewNop(), "j")
	job.Use(s)
	l, err := train.Listen(0)
	require.NoError(t, err)
	_, err = train.Listen(l.Addr().(*net.TCPAddr).Port)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	served := make(chan error, 1)
	go func() { served <- job.ServeOn(t.Context(), l) }()
	url := "http://" + l.Addr().String()
	response, err := http.Post(url+"/start", "application/json", strings.NewReader(task))
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 200, response.StatusCode)
	followed, err := http.Get(url + "/events")
	require.NoError(t, err)
	s.reach(messages.Phase_PHASE_SUCCEEDED)
	text, err := io.ReadAll(followed.Body)
	require.NoError(t, err)
	followed.Body.Close()
	require.Contains(t, string(text), "id: j:1:1\nevent: queued\n")
	require.Contains(t, string(text), "id: j:1:2\nevent: reset\n")
	require.True(t, strings.HasSuffix(string(text), "event: end\ndata: {}\n\n"), "%s", text)
	require.NoError(t, <-served)
	require.NoError(t, job.Err())
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, job.Result().GetPhase())
	_, err = http.Get(url + "/health")
	require.Error(t, err, "nobody listens any more")
}

// When its context ends a job is stopped, and one without a task just ends.
func TestServeStopsTheJob(t *testing.T) {
	for _, started := range []bool{false, true} {
		s := newHost()
		job := train.NewBasicJob(zap.NewNop(), "j")
		job.Use(s)
		l, err := train.Listen(0)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		served := make(chan error, 1)
		go func() { served <- job.ServeOn(ctx, l) }()
		if started {
			response, err := http.Post("http://"+l.Addr().String()+"/start", "application/json", strings.NewReader(task))
			require.NoError(t, err)
			response.Body.Close()
		}
		cancel(errors.New("enough"))
		err = <-served
		require.Equal(t, fault.Conflict, fault.KindOf(job.Err()), "%v", job.Err())
		if started {
			require.NoError(t, err)
			require.Equal(t, []string{"start", "stop: enough"}, s.did)
			continue
		}
		require.ErrorContains(t, err, "enough")
		require.Empty(t, s.did)
	}
}

// A basic job may be awaited like any other; a company that ends is not waited
// for.
func TestTrainAwaitsTheTaskOfABasicJob(t *testing.T) {
	s := newHost()
	job := train.NewBasicJob(zap.NewNop(), "j")
	job.Train()
	require.Equal(t, fault.Unavailable, fault.KindOf(job.Err()), "there is no company")
	job.Use(s)
	trained := make(chan struct{})
	go func() { defer close(trained); job.Train() }()
	response, _ := call(t, job.GetHandler(), "POST", "/start", task)
	require.Equal(t, 200, response.StatusCode)
	s.reach(messages.Phase_PHASE_SUCCEEDED)
	<-trained
	require.NoError(t, job.Err())
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, job.Result().GetPhase())

	gone := newHost()
	close(gone.done)
	job = train.NewBasicJob(zap.NewNop(), "j")
	job.Use(gone)
	job.Train()
	require.Equal(t, fault.Unavailable, fault.KindOf(job.Err()))
}

// An update of which a part is refused is refused whole.
func TestAnUpdateIsWhole(t *testing.T) {
	s := newHost()
	job := train.NewBasicJob(zap.NewNop(), "j")
	job.Use(s)
	response, _ := call(t, job.GetHandler(), "POST", "/start", `{"request":`+task+`,"job":{"state":{"slots":2}}}`)
	require.Equal(t, 200, response.StatusCode)
	response, _ = call(t, job.GetHandler(), "POST", "/update", `{"parallelism":3,"slots":3}`)
	require.Equal(t, 202, response.StatusCode)
	s.refusal = fault.New("x", fault.Conflict, "it is static")
	response, _ = call(t, job.GetHandler(), "POST", "/update", `{"parallelism":9,"slots":9}`)
	require.Equal(t, 409, response.StatusCode)
	require.Equal(t, []string{"slots 2", "start", "slots 3", "parallelism", "slots 9", "slots 3"}, s.did)
}
