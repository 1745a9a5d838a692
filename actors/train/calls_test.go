package train_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/messages"
)

var callsSeed = flag.Uint64("calls-seed", 1, "draws the calls of TestRandomCalls")

// caller makes calls as programs make them that are wrong, late, or malicious.
type caller struct{ *rand.Rand }

func (c caller) pick(from ...string) string { return from[c.IntN(len(from))] }

func (c caller) number() string {
	return c.pick("0", "1", "2", "3", "4", "-1", "65536", "65537", "1e3", "1.5", "1e999", "18446744073709551615", "null", "true", `"2"`, "[]", "{}", "", "NaN")
}

func (c caller) state() string {
	return c.pick(`{"parallelism":`+c.number()+`}`, `{"parallelism":`+c.number()+`,"elapsed_time":`+c.number()+`}`, `{"slots":`+c.number()+`}`,
		`{"parallelism":`+c.pick("1", "2", "3", "4")+`}`, `{"slots":`+c.pick("1", "2")+`}`)
}

// start is a body of POST /start, now and then a good one.
func (c caller) start(good string) string {
	return c.pick(good, `{"request":`+good+`}`, `{"request":`+good+`,"job":{"id":"`+c.pick("calls", "", "other")+`","state":`+c.state()+`}}`,
		strings.Replace(good, "mlp", c.pick("none", "..", "a/b", "softmax"), 1), good[:c.IntN(len(good))], good+good, c.state())
}

func (c caller) body(good string) string {
	switch c.IntN(6) {
	case 0:
		return ""
	case 1:
		return c.state()
	case 2:
		return c.start(good)
	case 3:
		return strings.Repeat(c.pick(" ", "[", "{", `{"a":`, "\xff"), c.IntN(3000))
	default:
		return c.pick("null", "[]", "{}", `"`, "{", "\x00", `{"job":{}}`, `{"request":null}`, `{"id":0,"results":{}}`, `{"id":`+c.number()+`,"results":{"loss":`+c.number()+`}}`)
	}
}

func (c caller) path() string {
	p := c.pick("/start", "/update", "/health", "/history", "/events", "/next/"+c.number(), "/model", "/model/"+c.number(), "/optimizer/"+c.number(),
		"/assignment/"+c.number(), "/data/"+c.number(), "/", "//", "/..", "/stop/", "/start/x", "/%2e%2e/history", "/next/", "/%ff", "/"+strings.Repeat("a", 2000))
	if c.IntN(3) > 0 {
		return p
	}
	q := []string{}
	for range c.IntN(5) {
		q = append(q, c.pick("incarnation", "epoch", "round", "attempt", "task", "after", "reason", "funcId", "%zz", ";")+"="+c.pick(c.number(), "calls:1:1", "train", "%00", "x:y:z"))
	}
	return p + "?" + strings.Join(q, "&")
}

// request is a call that is not to stop the job.
func (c caller) request(ctx context.Context, good string) *http.Request {
	method, path, body := c.pick("GET", "GET", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"), c.path(), c.body(good)
	switch c.IntN(8) {
	case 0:
		method, path, body = "POST", "/update", c.state()
	case 1:
		method, path, body = "POST", "/start", c.start(good)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+strings.NewReplacer("%zz", "%25zz", "{", "%7B", "}", "%7D", `"`, "%22").Replace(path), strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	for range c.IntN(2) {
		r.Header.Set(c.pick("Authorization", "Last-Event-ID", "Range", "Origin", "Repr-Digest", "Content-Type", "If-Match"),
			c.pick("Bearer x", "Bearer", "calls:1:3", "calls:9:9", "bytes=0-", "http://evil.example", "application/json", "", "sha-256=:x:"))
	}
	if c.IntN(20) == 0 {
		r.Host = c.pick("evil.example", "", "localhost", "[::1]:80")
	}
	return r.WithContext(context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
}

// send has a handler answer a request, and returns the status; 0: it was cut off.
func send(t testing.TB, h http.Handler, r *http.Request) (status int) {
	w := httptest.NewRecorder()
	defer func() {
		if cause := recover(); cause != nil {
			if err, ok := cause.(error); !ok || !errors.Is(err, http.ErrAbortHandler) || r.Context().Err() == nil {
				t.Errorf("%s %s: panic: %v", r.Method, r.URL, cause)
			}
			status = 0
		}
	}()
	h.ServeHTTP(w, r)
	if w.Code >= 400 && r.Method != http.MethodHead {
		var e httpfault.ErrorBody
		if json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Code != w.Code || e.Error == "" {
			t.Errorf("%s %s: %d without an error: %.200s", r.Method, r.URL, w.Code, w.Body)
		}
	}
	if w.Code >= 500 {
		t.Errorf("%s %s: %d: %.300s", r.Method, r.URL, w.Code, w.Body)
	}
	return w.Code
}

// alone starts a company and a basic job in it.
func alone(t testing.TB, id string) (*actors.Company, *train.TrainJob) {
	t.Helper()
	node := config.DefaultNode()
	node.Store, node.Slots = "mem://", 2
	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	job := train.NewBasicJob(zap.NewNop(), id)
	job.Use(c)
	return c, job
}

// Whatever is called, in whatever order, at once: nothing panics or hangs, no
// goroutine is left, one start wins, and the job trains each sample once an epoch.
func TestRandomCalls(t *testing.T) {
	testkit.LeakCheck(t)
	t.Logf("-calls-seed=%d", *callsSeed)
	const callers, calls, epochs = 8, 10_000, 30
	_, job := alone(t, "calls")
	h := job.GetHandler()
	good := fmt.Sprintf(`{"function_name":"mlp","dataset":"digits","epochs":%d,"batch_size":32,"options":{"k":4,"default_parallelism":2,"max_parallelism":4}}`, epochs)
	ended := make(chan struct{})
	go func() { defer close(ended); job.Train() }()
	var begun atomic.Int32
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			c := caller{rand.New(rand.NewPCG(*callsSeed, uint64(i)))}
			for range calls / callers {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // of which none is needed
				r := c.request(ctx, good)
				if r.URL.Path == "/events" {
					time.AfterFunc(time.Millisecond, cancel) // who follows goes
				}
				if status := send(t, h, r); status == 200 && r.URL.Path == "/start" && r.Method == "POST" {
					begun.Add(1)
				}
				if r.URL.Path != "/events" && ctx.Err() != nil {
					t.Errorf("%s %s hangs", r.Method, r.URL)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if begun.Load() == 0 { // of so many starts none was good
		r, err := http.NewRequest("POST", "/start", strings.NewReader(good))
		require.NoError(t, err)
		require.Equal(t, 200, send(t, h, r))
		begun.Add(1)
	}
	require.EqualValues(t, 1, begun.Load())
	response, _ := call(t, h, "POST", "/update", `{"slots":2}`) // should all have been taken
	require.Contains(t, []int{202, 409}, response.StatusCode)
	<-ended
	require.NoError(t, job.Err())
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, job.Result().GetPhase())
	require.Len(t, job.Result().GetEpochs(), epochs)
	for _, e := range job.Result().GetEpochs() {
		require.EqualValues(t, 1437, e.GetSamples(), "epoch %d", e.GetEpoch())
	}
}

// A job that is stopped amid such calls is STOPPED, and may be started again: it
// goes on under the same id.
func TestStopAmidRandomCalls(t *testing.T) {
	testkit.LeakCheck(t)
	company, job := alone(t, "calls")
	const good = `{"function_name":"mlp","dataset":"digits","epochs":500,"options":{"default_parallelism":2}}`
	response, body := call(t, job.GetHandler(), "POST", "/start", good)
	require.Equal(t, 200, response.StatusCode, body)
	trained := make(chan struct{})
	go func() { defer close(trained); job.Train() }()
	var all sync.WaitGroup
	var stopped atomic.Int32
	for i := range 8 {
		all.Go(func() {
			c := caller{rand.New(rand.NewPCG(*callsSeed, 100+uint64(i)))}
			for range 40 {
				ctx, cancel := context.WithCancel(t.Context())
				r := c.request(ctx, good)
				if c.IntN(20) == 0 {
					r = httptest.NewRequest("DELETE", "/stop", nil)
				}
				if r.URL.Path == "/events" {
					time.AfterFunc(time.Millisecond, cancel)
				}
				if send(t, job.GetHandler(), r) == 202 && r.URL.Path == "/stop" {
					stopped.Add(1)
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.NotZero(t, stopped.Load())
	<-trained
	require.Equal(t, messages.Phase_PHASE_STOPPED, job.Result().GetPhase())
	response, body = call(t, job.GetHandler(), "POST", "/start", good)
	require.Equal(t, 409, response.StatusCode, body)

	again := train.NewBasicJob(zap.NewNop(), "calls")
	again.Use(company)
	other := strings.Replace(good, "500", "501", 1)
	response, body = call(t, again.GetHandler(), "POST", "/start", other)
	require.Equal(t, 409, response.StatusCode, body)
	require.Contains(t, body, "has another task")
	response, body = call(t, again.GetHandler(), "POST", "/start", good)
	require.Equal(t, 200, response.StatusCode, body)
	response, body = call(t, again.GetHandler(), "DELETE", "/stop", "")
	require.Equal(t, 202, response.StatusCode, body)
	again.Train()
	require.Equal(t, messages.Phase_PHASE_STOPPED, again.Result().GetPhase())
	require.GreaterOrEqual(t, len(again.Result().GetEpochs()), len(job.Result().GetEpochs()))
}

// One that has SUCCEEDED is not started again: its model is there.
func TestASucceededJobIsNotStartedAgain(t *testing.T) {
	company, job := alone(t, "done")
	response, body := call(t, job.GetHandler(), "POST", "/start", strings.Replace(task, "}", `,"epochs":1}`, 1))
	require.Equal(t, 200, response.StatusCode, body)
	job.Train()
	require.NoError(t, job.Err())
	again := train.NewBasicJob(zap.NewNop(), "done")
	again.Use(company)
	response, body = call(t, again.GetHandler(), "POST", "/start", strings.Replace(task, "}", `,"epochs":1}`, 1))
	require.Equal(t, 409, response.StatusCode)
	require.Contains(t, body, "has SUCCEEDED")
	require.Contains(t, body, "models/done.1.safetensors")
}

// A function behind a URL is told that the job is where it is served, and finds
// there what its attempt is about.
func TestFunctionsFindTheJobWhereItIsServed(t *testing.T) {
	testkit.LeakCheck(t)
	company, job := alone(t, "found")
	l, err := train.Listen(0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var once sync.Once
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			defer cancel(errors.New("seen"))
			q := r.URL.Query()
			if got, want := q.Get("jobUrl"), "http://"+l.Addr().String(); got != want {
				t.Errorf("jobUrl is %s, want %s", got, want)
				return
			}
			asks, err := http.NewRequest("GET", q.Get("jobUrl")+"/assignment/"+q.Get("funcId"), nil)
			if err != nil {
				t.Error(err)
				return
			}
			asks.Header.Set("Authorization", r.Header.Get("Authorization"))
			response, err := http.DefaultClient.Do(asks)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			var assignment remote.Assignment
			if err := json.NewDecoder(response.Body).Decode(&assignment); err != nil || response.StatusCode != 200 || assignment.Job != "found" {
				t.Errorf("%s: %+v, %v", response.Status, assignment, err)
			}
		})
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer endpoint.Close()
	defer http.DefaultClient.CloseIdleConnections()
	_, err = company.Functions().Link(t.Context(), "far", []string{endpoint.URL})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- job.ServeOn(ctx, l) }()
	response, err := http.Post("http://"+l.Addr().String()+"/start", "application/json", strings.NewReader(`{"function_name":"far","dataset":"digits"}`))
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 200, response.StatusCode)
	require.NoError(t, <-served)
	require.Equal(t, messages.Phase_PHASE_STOPPED, job.Result().GetPhase())
}

// FuzzCalls: whatever is called in whatever phase is answered, with 4xx where it is
// wrong, and only the endpoints that may change something reach an actor.
func FuzzCalls(f *testing.F) {
	f.Add(uint8(0), "POST", "/start", task)
	f.Add(uint8(1), "POST", "/start", `{"request":`+task+`,"job":{"id":"j","state":{"parallelism":2}}}`)
	f.Add(uint8(3), "POST", "/update", `{"parallelism":2,"slots":1}`)
	f.Add(uint8(7), "DELETE", "/stop?reason=x", "")
	f.Add(uint8(3), "PUT", "/model/0?epoch=1&round=1&attempt=1&incarnation=1", "x")
	f.Add(uint8(3), "POST", "/next/0", `{"id":0,"results":{"loss":null}}`)
	f.Fuzz(func(t *testing.T, phase uint8, method, path, body string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, strings.NewReader(body))
		if err != nil {
			return // no server gets that
		}
		s := newHost()
		job := train.NewBasicJob(zap.NewNop(), "j")
		job.Use(s)
		if phase > 0 {
			_, _ = call(t, job.GetHandler(), "POST", "/start", task)
			s.reach(messages.Phase(phase % 8 * 10))
		}
		s.closing.Do(func() { close(s.changed) }) // no stream lasts
		before := len(s.did)
		if status := send(t, job.GetHandler(), r); status >= 400 || status == 0 {
			require.Len(t, s.did, before)
		}
	})
}
