package endpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/functions/remote/endpoint"
	"github.com/troupe-ml/troupe/internal/fault"
)

// bench is a job and an endpoint that works for it.
type bench struct {
	t       *testing.T
	dir     string // of the endpoint
	e       *endpoint.Endpoint
	url     string          // of the endpoint
	runtime *remote.Runtime // of the job
	model   functions.Input
	data    functions.Data
}

// newBench opens both; change may alter the endpoint, and between what a job's
// requests go through.
func newBench(t *testing.T, change func(*endpoint.Config), between func(http.Handler) http.Handler) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	trains, err := native.New()
	require.NoError(t, err)
	c := endpoint.Config{Runtime: trains, Function: named("softmax"), Slots: 2, Dir: b.dir, Log: zap.NewNop()}
	if change != nil {
		change(&c)
	}
	b.e, err = endpoint.New(c)
	require.NoError(t, err)
	server := httptest.NewServer(b.e)
	b.url = server.URL
	exchange := remote.NewExchange(func(context.Context, remote.Ref) error { return nil })
	var handler http.Handler = exchange
	if between != nil {
		handler = between(exchange)
	}
	jobs := httptest.NewServer(handler)
	b.runtime = remote.New(remote.Config{Exchange: exchange, URL: func(id string) (string, error) { return jobs.URL + "/jobs/" + id, nil }})
	require.NoError(t, b.runtime.Register("far", b.url))
	t.Cleanup(func() {
		require.NoError(t, b.runtime.Close())
		server.Close()
		b.e.Close()
		jobs.Close()
		left, err := os.ReadDir(b.dir)
		require.NoError(t, err)
		require.Empty(t, left, "no file of an attempt is left")
	})
	x := make([]float32, 40*8)
	for i := range x {
		x[i] = float32(i%7) / 7
	}
	y := make([]int64, 40)
	for i := range y {
		y[i] = int64(i % 4)
	}
	b.data = functionstest.Data(t, []int64{40, 8}, x, y)
	var model functions.Buffer
	_, err = trains.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: "softmax", N: 1, BatchSize: 8, Seed: 1, Data: b.data, ModelOut: &model})
	require.NoError(t, err)
	b.model = model.Input()
	return b
}

func (b *bench) invocation() functions.Invocation {
	return functions.Invocation{
		Task: functions.Train, Function: "far", JobID: "01j", Incarnation: 1, Epoch: 1, N: 1, K: -1, BatchSize: 8, LR: 0.1, Seed: 3, Threads: 1,
		Positions: functionstest.Range(40), Data: b.data, Model: b.model,
	}
}

// train runs an attempt, and returns the model.
func (b *bench) train() ([]byte, error) {
	model, state := &functions.Buffer{}, &functions.Buffer{}
	inv := b.invocation()
	inv.ModelOut, inv.OptimizerOut = model, state
	_, err := b.runtime.Run(b.t.Context(), inv)
	return model.Bytes(), err
}

// gate is a runtime whose functions wait until they are let go, and are counted.
type gate struct {
	functions.Runtime
	runs    atomic.Int64
	began   chan bool
	release chan bool
	ended   chan error
}

func gated(c *endpoint.Config) *gate {
	g := &gate{Runtime: c.Runtime, began: make(chan bool, 9), release: make(chan bool), ended: make(chan error, 9)}
	c.Runtime = g
	return g
}

func (g *gate) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	g.runs.Add(1)
	g.began <- true
	select {
	case <-g.release:
	case <-ctx.Done():
		g.ended <- ctx.Err()
		return functions.Answer{}, ctx.Err()
	}
	answer, err := g.Runtime.Run(ctx, inv)
	g.ended <- err
	return answer, err
}

// repeating repeats each call at once, as some proxies do, and gives the second
// answer.
func repeating(t *testing.T, to string) (string, *sync.WaitGroup) {
	target, err := url.Parse(to)
	require.NoError(t, err)
	proxy, all := httputil.NewSingleHostReverseProxy(target), &sync.WaitGroup{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first := httptest.NewRecorder()
		all.Go(func() { proxy.ServeHTTP(first, r.Clone(context.WithoutCancel(r.Context()))) })
		proxy.ServeHTTP(w, r)
		all.Wait()
		require.Equal(t, 200, first.Code)
	}))
	t.Cleanup(server.Close)
	return server.URL, all
}

func TestARepeatedCallIsRunOnce(t *testing.T) {
	var g *gate
	b := newBench(t, func(c *endpoint.Config) { g = gated(c) }, nil)
	through, _ := repeating(t, b.url)
	require.NoError(t, b.runtime.Register("far", through))
	go close(g.release)
	model, err := b.train()
	require.NoError(t, err)
	require.NotEmpty(t, model)
	require.EqualValues(t, 1, g.runs.Load())
}

// Also when it comes after the answer: a proxy may have lost that.
func TestALateRepeatGetsTheSameAnswer(t *testing.T) {
	var g *gate
	b := newBench(t, func(c *endpoint.Config) { g = gated(c); close(g.release) }, nil)
	target, err := url.Parse(b.url)
	require.NoError(t, err)
	var answers []string
	lossy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 2 {
			got := httptest.NewRecorder()
			httputil.NewSingleHostReverseProxy(target).ServeHTTP(got, r.Clone(r.Context()))
			answers = append(answers, got.Body.String())
		}
		_, _ = io.WriteString(w, answers[1])
	}))
	t.Cleanup(lossy.Close)
	require.NoError(t, b.runtime.Register("far", lossy.URL))
	_, err = b.train()
	require.NoError(t, err)
	require.Len(t, answers, 2)
	require.Equal(t, answers[0], answers[1])
	require.EqualValues(t, 1, g.runs.Load())
}

// Whose connection goes waits for nothing: what it called for is cancelled.
func TestACallThatNobodyWaitsForIsCancelled(t *testing.T) {
	var g *gate
	b := newBench(t, func(c *endpoint.Config) { g = gated(c) }, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-g.began
		cancel()
	}()
	inv := b.invocation()
	inv.ModelOut = &functions.Buffer{}
	_, err := b.runtime.Run(ctx, inv)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-g.ended, context.Canceled)
	close(g.release)
	_, err = b.train()
	require.NoError(t, err, "the slot is free, and the attempt is run anew")
}

// More calls than slots are told when to come again, which is no failure.
func TestCallsWaitForASlot(t *testing.T) {
	var g *gate
	b := newBench(t, func(c *endpoint.Config) { c.Slots = 1; g = gated(c) }, nil)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			inv := b.invocation()
			inv.Index, inv.N = i, 2
			var began atomic.Int64
			inv.Began = func() { began.Add(1) }
			inv.ModelOut = &functions.Buffer{}
			_, err := b.runtime.Run(t.Context(), inv)
			require.NoError(t, err)
			require.Positive(t, began.Load(), "its time began when it was at work")
		})
	}
	<-g.began
	response, err := http.Post(b.call("01other"), "", nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 429, response.StatusCode)
	require.Equal(t, "1", response.Header.Get("Retry-After"))
	close(g.release)
	wg.Wait()
	require.EqualValues(t, 2, g.runs.Load())
}

// call is the URL of a call for a job that nobody has.
func (b *bench) call(id string) string {
	b.t.Helper()
	inv := b.invocation()
	inv.JobID = id
	u, err := remote.CallOf(inv, "http://127.0.0.1:1/jobs/"+id).URL(b.url)
	require.NoError(b.t, err)
	return u
}

// What breaks off on its way from the job is gone on with, and checked.
func TestDownloadsGoOn(t *testing.T) {
	calm := newBench(t, nil, nil)
	want, err := calm.train()
	require.NoError(t, err)
	var cuts, ranges, damaged atomic.Int64
	b := newBench(t, nil, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				h.ServeHTTP(w, r)
				return
			}
			got := httptest.NewRecorder()
			h.ServeHTTP(got, r)
			body := got.Body.Bytes()
			for name, values := range got.Header() {
				w.Header()[name] = values
			}
			switch {
			case r.Header.Get("Range") != "":
				ranges.Add(1)
			case strings.Contains(r.URL.Path, "/data/") && cuts.Add(1) == 1, strings.HasSuffix(r.URL.Path, "/model") && cuts.Add(1) == 2:
				w.WriteHeader(got.Code)
				_, _ = w.Write(body[:len(body)/2])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			case strings.Contains(r.URL.Path, "/optimizer") && damaged.Add(1) == 1:
				body[len(body)-1] ^= 1
			}
			w.WriteHeader(got.Code)
			_, _ = w.Write(body)
		})
	})
	got, err := b.train()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.EqualValues(t, 2, ranges.Load(), "what was there already was not sent again")

	inv := b.invocation()
	state := &functions.Buffer{}
	inv.OptimizerOut, inv.ModelOut = state, &functions.Buffer{}
	_, err = b.runtime.Run(t.Context(), inv)
	require.NoError(t, err)
	inv.Optimizer, inv.OptimizerOut, inv.ModelOut = state.Input(), &functions.Buffer{}, &functions.Buffer{}
	_, err = b.runtime.Run(t.Context(), inv)
	require.NoError(t, err)
	require.EqualValues(t, 2, damaged.Load(), "what was damaged was sent again")
}

func TestAnEndpointRefuses(t *testing.T) {
	b := newBench(t, func(c *endpoint.Config) { c.Jobs = "http://127.0.0.1/jobs" }, nil)
	query := func(change func(url.Values)) string {
		u, err := url.Parse(b.call("01j"))
		require.NoError(t, err)
		q := u.Query()
		change(q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for name, c := range map[string]struct {
		method, url, body string
		status            int
		says              string
	}{
		"a GET":              {"GET", b.url, "", 405, "called by POST"},
		"no arguments":       {"POST", b.url, "", 400, "argument task"},
		"another job's host": {"POST", query(func(q url.Values) { q.Set("jobUrl", "http://10.0.0.1/jobs/01j") }), "", 403, "works for jobs at http://127.0.0.1/jobs"},
		"beside the path":    {"POST", query(func(q url.Values) { q.Set("jobUrl", "http://127.0.0.1:1/jobsx/01j") }), "", 403, "works for jobs at"},
		"out of the path":    {"POST", query(func(q url.Values) { q.Set("jobUrl", "http://127.0.0.1:1/jobs/../01j") }), "", 403, "works for jobs at"},
		"another scheme":     {"POST", query(func(q url.Values) { q.Set("jobUrl", "https://127.0.0.1/jobs/01j") }), "", 403, "works for jobs at"},
		"a body":             {"POST", b.call("01j"), "x", 400, "has no body"},
		"no JSON to infer":   {"POST", query(func(q url.Values) { q.Set("task", "infer") }), "{", 400, "is no JSON"},
		"a job that is gone": {"POST", b.call("01j"), "", 503, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(c.method, c.url, strings.NewReader(c.body))
			require.NoError(t, err)
			response, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer response.Body.Close()
			var f remote.Failure
			require.NoError(t, json.NewDecoder(response.Body).Decode(&f))
			require.Equal(t, c.status, response.StatusCode, f.Error)
			require.Equal(t, c.status, f.Code)
			require.Contains(t, f.Error, c.says)
		})
	}
	for _, path := range []string{"/health", "/healthz", "/_/health", "/_/ready"} {
		response, err := http.Get(b.url + path)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.JSONEq(t, `{"slots": 2, "busy": 0}`, string(body), path)
	}
	b.e.Close()
	response, err := http.Get(b.url + "/health")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 503, response.StatusCode)
}

// An environment may say what code a process runs: it is taken from jobs alone
// that the endpoint was told of.
func TestEnvironmentIsForKnownJobs(t *testing.T) {
	for jobs, ok := range map[string]bool{"": false, "http://127.0.0.1": true} {
		var got map[string]string
		b := newBench(t, func(c *endpoint.Config) {
			c.Jobs, c.Function = jobs, func(env map[string]string) (string, error) { got = env; return "softmax", nil }
		}, nil)
		inv := b.invocation()
		inv.Env, inv.ModelOut = map[string]string{"A": "b"}, &functions.Buffer{}
		_, err := b.runtime.Run(t.Context(), inv)
		if ok {
			require.NoError(t, err)
			require.Equal(t, inv.Env, got)
		} else {
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "--job-url")
			require.Empty(t, got)
		}
	}
}

// Reported: a worker dies while half of its answer is sent. The attempt fails, and
// the next one gives what the first would have given.
func TestAnEndpointThatDiesInItsAnswer(t *testing.T) {
	calm := newBench(t, func(c *endpoint.Config) { c.Function = named("mlp") }, nil)
	args := map[string]string{"hidden": "65536"} // a model that sockets do not hold at once
	first := &functions.Buffer{}
	inv := calm.invocation()
	inv.Task, inv.Args, inv.ModelOut, inv.Epoch = functions.Init, args, first, 0
	_, err := calm.runtime.Run(t.Context(), inv)
	require.NoError(t, err)
	inv = calm.invocation()
	want := &functions.Buffer{}
	inv.Args, inv.Model, inv.ModelOut = args, first.Input(), want
	_, err = calm.runtime.Run(t.Context(), inv)
	require.NoError(t, err)

	p := start(t, "well", "")
	t.Cleanup(p.end)
	exchange := remote.NewExchange(func(context.Context, remote.Ref) error { return nil })
	jobs := httptest.NewUnstartedServer(exchange)
	jobs.Listener = &dying{Listener: jobs.Listener, most: int64(len(first.Bytes()) / 2), kill: func() { _ = p.cmd.Process.Kill(); <-p.gone }}
	jobs.Start()
	defer jobs.Close()
	runtime := remote.New(remote.Config{Exchange: exchange, URL: func(id string) (string, error) { return jobs.URL + "/jobs/" + id, nil }})
	defer runtime.Close()
	require.NoError(t, runtime.Register("far", p.url+"/mlp", calm.url))
	inv.ModelOut = &functions.Buffer{}
	_, err = runtime.Run(t.Context(), inv)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	again := &functions.Buffer{}
	inv.Attempt, inv.ModelOut = 1, again
	_, err = runtime.Run(t.Context(), inv)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want.Bytes(), again.Bytes()), "the model differs")
}

// dying is a listener that kills whoever sends something when so many bytes of it
// have come.
type dying struct {
	net.Listener
	most int64
	come atomic.Int64
	kill func()
	once sync.Once
}

func (d *dying) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	return &dyingConn{Conn: c, d: d}, err
}

type dyingConn struct {
	net.Conn
	d *dying
}

func (c *dyingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.d.come.Add(int64(n)) > c.d.most {
		c.d.once.Do(c.d.kill)
	}
	return n, err
}

// Close returns when nothing runs any more.
func TestCloseEndsWhatRuns(t *testing.T) {
	var g *gate
	b := newBench(t, func(c *endpoint.Config) { g = gated(c) }, nil)
	over := make(chan error, 1)
	go func() {
		_, err := b.train()
		over <- err
	}()
	<-g.began
	b.e.Close()
	require.ErrorIs(t, <-g.ended, context.Canceled)
	select {
	case err := <-over:
		require.Error(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the caller still waits")
	}
	_, err := b.train()
	require.ErrorContains(t, err, "the endpoint is closed")
}
