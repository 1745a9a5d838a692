package remote_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/tensor"
)

const job = "01j00000000000000000000000"

// stage is a real runtime and its exchange, with an endpoint that does what the
// test says.
type stage struct {
	t        *testing.T
	exchange *httptest.Server
	endpoint *httptest.Server
	runtime  *remote.Runtime
	calls    chan *call
	warned   chan string

	mu     sync.Mutex // guards merged
	merged func(context.Context, remote.Ref) error
}

// call is an invocation that has reached the endpoint.
type call struct {
	remote.Call
	s      *stage
	token  string
	body   []byte
	gone   <-chan struct{} // the caller's connection is
	answer chan func(http.ResponseWriter)
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return newPatientStage(t, 1) // who does not wait
}

// newPatientStage returns a stage whose runtime waits for endpoints that are not
// there.
func newPatientStage(t *testing.T, patience time.Duration) *stage {
	t.Helper()
	testkit.LeakCheck(t)
	s := &stage{t: t, calls: make(chan *call, 16), warned: make(chan string, 16), merged: func(context.Context, remote.Ref) error { return nil }}
	exchange := remote.NewExchange(func(ctx context.Context, ref remote.Ref) error {
		s.mu.Lock()
		merged := s.merged
		s.mu.Unlock()
		return merged(ctx, ref)
	})
	s.exchange = httptest.NewServer(exchange)
	t.Cleanup(s.exchange.Close)
	s.endpoint = httptest.NewServer(http.HandlerFunc(s.invoked))
	t.Cleanup(s.endpoint.Close)
	s.runtime = remote.New(remote.Config{
		Exchange: exchange, URL: func(id string) (string, error) { return s.exchange.URL + "/jobs/" + id, nil },
		Patience: patience, Warn: func(text string) { s.warned <- text },
	})
	t.Cleanup(func() { require.NoError(t, s.runtime.Close()) })
	require.NoError(t, s.runtime.Register("f", s.endpoint.URL+"/f?key=secret"))
	return s
}

// invoked is the endpoint: the test answers.
func (s *stage) invoked(w http.ResponseWriter, r *http.Request) {
	parsed, err := remote.ParseCall(r.URL.Query())
	body, _ := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost || r.URL.Query().Get("key") != "secret" {
		http.Error(w, "not a call", http.StatusTeapot)
		return
	}
	c := &call{
		Call: parsed, s: s, token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), body: body,
		gone: r.Context().Done(), answer: make(chan func(http.ResponseWriter)),
	}
	s.calls <- c
	select {
	case answer := <-c.answer:
		answer(w)
	case <-r.Context().Done():
	}
}

// run begins an invocation and returns what it comes to, when that is there.
func (s *stage) run(inv functions.Invocation) (ended func() (functions.Answer, error)) {
	return s.runIn(s.t.Context(), inv)
}

func (s *stage) runIn(ctx context.Context, inv functions.Invocation) (ended func() (functions.Answer, error)) {
	var answer functions.Answer
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer, err = s.runtime.Run(ctx, inv)
	}()
	return func() (functions.Answer, error) {
		<-done
		return answer, err
	}
}

// open begins an invocation and returns its call once that is at the endpoint.
func (s *stage) open(inv functions.Invocation) (*call, func() (functions.Answer, error)) {
	ended := s.run(inv)
	return <-s.calls, ended
}

// reply has the endpoint answer.
func (c *call) reply(status int, body string) {
	c.replyWith(func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func (c *call) replyWith(answer func(http.ResponseWriter)) {
	select {
	case c.answer <- answer:
	case <-c.gone:
	}
}

// request is one at the job's URL; path is below it.
type request struct {
	method, path string
	query        string // without the ?; "-": that of the call
	token        string // "-": that of the call, "": none
	body         []byte
	header       map[string]string
}

// response is what came, all of it.
type response struct {
	status int
	header http.Header
	body   []byte
	err    error // of reading it
}

func (c *call) do(r request) response {
	c.s.t.Helper()
	path := c.JobURL + r.path
	if r.query == "-" {
		r.query = c.Query().Encode()
	}
	if r.query != "" {
		path += "?" + r.query
	}
	q, err := http.NewRequestWithContext(context.Background(), r.method, path, bytes.NewReader(r.body))
	require.NoError(c.s.t, err)
	if r.token == "-" {
		r.token = c.token
	}
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	for k, v := range r.header {
		q.Header.Set(k, v)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: 10 * time.Second}}
	got, err := client.Do(q)
	if err != nil {
		return response{err: err}
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return response{got.StatusCode, got.Header, body, err}
}

// get is a good GET.
func (c *call) get(path string) response {
	c.s.t.Helper()
	r := c.do(request{method: "GET", path: path, query: "-", token: "-"})
	require.NoError(c.s.t, r.err)
	require.Equal(c.s.t, http.StatusOK, r.status, "%s", r.body)
	return r
}

// put is a good PUT.
func (c *call) put(path string, body []byte) {
	c.s.t.Helper()
	r := c.do(request{method: "PUT", path: path, query: "-", token: "-", body: body, header: map[string]string{remote.DigestHeader: digest(body)}})
	require.NoError(c.s.t, r.err)
	require.Equal(c.s.t, http.StatusOK, r.status, "%s", r.body)
	require.Equal(c.s.t, digest(body), r.header.Get(remote.DigestHeader))
}

func digest(body []byte) string { return remote.Digest(sha256.Sum256(body)).String() }

// buffer is an Output whose reservation has to be kept.
type buffer struct {
	functions.Buffer
	creates int
	size    int64
	err     error
}

func (b *buffer) Create(size int64) (io.Writer, error) {
	b.creates++
	b.size = size
	if b.err != nil {
		return nil, b.err
	}
	return b.Buffer.Create(size)
}

const samples = 20

// training is an invocation of "f" with outputs: 7 rows of 20, in an order.
func training(t *testing.T) (inv functions.Invocation, model, state *buffer) {
	t.Helper()
	x, y := make([]float32, samples*6), make([]int64, samples)
	for i := range x {
		x[i] = float32(i) / 8
	}
	for i := range y {
		y[i] = int64(i % 4)
	}
	data := functionstest.Data(t, []int64{samples, 3, 2}, x, y)
	data.Name, data.Digest = "digits", "abc"
	model, state = &buffer{}, &buffer{}
	return functions.Invocation{
		Task: functions.Train, Function: "f", JobID: job, Incarnation: 3, Epoch: 2, Round: 1, Index: 1, Attempt: 1, N: 4, Threads: 2,
		K: 16, BatchSize: 4, LR: 0.1, Seed: 1<<63 + 1, Args: map[string]string{"a": "b"}, Env: map[string]string{"E": "F"},
		Positions: []int64{7, 3, 4, 5, 19, 0, 1}, Data: data, ModelVersion: 9,
		Model: functionstest.File(t, "model.safetensors", dict(t, 1)), Optimizer: functionstest.File(t, "state.safetensors", dict(t, 2)),
		ModelOut: model, OptimizerOut: state,
	}, model, state
}

// dict is a state dict, as a file, of some kilobytes.
func dict(t *testing.T, seed byte) []byte {
	t.Helper()
	d := tensor.StateDict{{Spec: tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int64{1000}}, Data: bytes.Repeat([]byte{seed, 0, 0, 62}, 1000)}}
	var b functions.Buffer
	require.NoError(t, functions.WriteDict(&b, d))
	return b.Bytes()
}

func asJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

const good = `{"id": 1, "results": {"loss": 0.25, "samples": 7, "batches": 2}}`

// record has the exchange answer a GET that came from elsewhere, and returns the
// status.
func (s *stage) record(ctx context.Context, c *call, authorization string) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/jobs/"+c.Job+"/assignment/1", nil)
	r.Host = "localhost"
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	s.exchange.Config.Handler.ServeHTTP(w, r)
	return w.Code
}

func readJSON[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, &v))
	return v
}
