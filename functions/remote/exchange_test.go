package remote_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// An invocation goes out and an answer comes in, all of it over HTTP.
func TestAnAttemptOverHTTP(t *testing.T) {
	s := newStage(t)
	inv, model, state := training(t)
	began := 0
	inv.Began = func() { began++ }
	c, ended := s.open(inv)
	require.Zero(t, began, "nobody knows yet whether the function has started")
	require.Equal(t, remote.Call{
		Ref: remote.Ref{Job: job, Incarnation: 3, Task: "train", Epoch: 2, Round: 1, Function: 1, Attempt: 1},
		N:   4, K: 16, BatchSize: 4, LR: 0.1, JobURL: s.exchange.URL + "/jobs/" + job,
	}, c.Call)
	require.Empty(t, c.body)
	require.Len(t, c.token, 32)

	var a remote.Assignment
	require.NoError(t, json.Unmarshal(c.get("/assignment/1").body, &a))
	require.Positive(t, began)
	require.Equal(t, remote.Assignment{
		Task: "train", Function: "f", Job: job, Incarnation: 3, Epoch: 2, Round: 1, Func: 1, Attempt: 1, N: 4, K: 16, Batch: 4, LR: 0.1,
		Seed: 1<<63 + 1, Args: map[string]string{"a": "b"}, Env: map[string]string{"E": "F"}, Threads: 2, Dataset: "digits", DatasetDigest: "abc",
		Samples: 7, ModelVersion: 9, HasModel: true, HasOptimizer: true, WantModel: true, WantOptimizer: true,
	}, a)
	more := c.do(request{method: "GET", path: "/assignment/1", query: "ranges=1", token: "-"})
	require.NoError(t, json.Unmarshal(more.body, &a))
	require.Equal(t, [][2]int64{{7, 8}, {3, 6}, {19, 20}, {0, 2}}, a.Ranges)

	for path, want := range map[string][]byte{"/model": dict(t, 1), "/optimizer/1": dict(t, 2)} {
		r := c.get(path)
		require.Equal(t, want, r.body)
		require.Equal(t, digest(want), r.header.Get(remote.DigestHeader))
	}
	checkRows(t, c.get("/data/1").body, inv.Positions)

	c.put("/model/1", dict(t, 3))
	c.put("/optimizer/1", dict(t, 4))
	c.reply(200, good)
	answer, err := ended()
	require.NoError(t, err)
	require.Equal(t, functions.Answer{Samples: 7, Batches: 2, Loss: 0.25, HasOptimizer: true}, answer)
	require.Equal(t, dict(t, 3), model.Bytes())
	require.Equal(t, dict(t, 4), state.Bytes())
	require.EqualValues(t, len(dict(t, 3)), model.size)
}

// checkRows reads an npz file as anybody would.
func checkRows(t *testing.T, npz []byte, positions []int64) {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(npz), int64(len(npz)))
	require.NoError(t, err)
	require.Len(t, archive.File, 2)
	read := func(i int, name string) *tensor.NpyFile {
		require.Equal(t, name, archive.File[i].Name)
		require.Equal(t, zip.Store, archive.File[i].Method)
		f, err := archive.File[i].Open()
		require.NoError(t, err)
		content, err := io.ReadAll(f) // and compares the checksum
		require.NoError(t, err)
		npy, err := tensor.OpenNpy(bytes.NewReader(content), int64(len(content)))
		require.NoError(t, err)
		return npy
	}
	x, y := read(0, "x.npy"), read(1, "y.npy")
	require.Equal(t, []int64{int64(len(positions)), 3, 2}, x.Shape)
	require.Equal(t, []int64{int64(len(positions))}, y.Shape)
	all := make([]int64, len(positions))
	for i := range all {
		all[i] = int64(i)
	}
	xs, ys := make([]float32, 6*len(all)), make([]int64, len(all))
	require.NoError(t, x.Float32Rows(xs, all))
	require.NoError(t, y.Int64Rows(ys, all))
	for i, p := range positions {
		require.EqualValues(t, p%4, ys[i])
		for j := range 6 {
			require.Equal(t, float32(6*p+int64(j))/8, xs[6*i+j])
		}
	}
}

// Whatever range is asked for, its bytes are those of the whole.
func TestRangesAreThoseOfTheWhole(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	c, ended := s.open(inv)
	for _, path := range []string{"/data/1", "/model", "/optimizer/1"} {
		whole := c.get(path)
		require.Equal(t, digest(whole.body), whole.header.Get(remote.DigestHeader))
		require.Equal(t, whole.body, c.get(path).body, "again the same")
		n := len(whole.body)
		for _, at := range [][2]int{{0, 0}, {0, 29}, {30, 41}, {100, 260}, {161, 163}, {n / 2, n/2 + 97}, {n - 98, n - 1}, {n - 1, n - 1}} {
			r := c.do(request{method: "GET", path: path, query: "-", token: "-", header: map[string]string{
				"Range": fmt.Sprintf("bytes=%d-%d", at[0], at[1]), "If-Range": whole.header.Get("ETag"),
			}})
			require.Equal(t, http.StatusPartialContent, r.status)
			require.Equal(t, whole.body[at[0]:at[1]+1], r.body, "%s %v", path, at)
			require.Equal(t, whole.header.Get(remote.DigestHeader), r.header.Get(remote.DigestHeader), "that of the whole")
		}
		r := c.do(request{method: "GET", path: path, token: "-", header: map[string]string{"Range": fmt.Sprintf("bytes=%d-", n)}})
		require.Equal(t, http.StatusRequestedRangeNotSatisfiable, r.status)
		require.Equal(t, fmt.Sprintf("bytes */%d", n), r.header.Get("Content-Range"))
		require.Equal(t, http.StatusRequestedRangeNotSatisfiable, readJSON[remote.Failure](t, r.body).Code, "%s", r.body)
	}
	head := c.do(request{method: "HEAD", path: "/data/1", token: "-"})
	require.Equal(t, http.StatusOK, head.status)
	require.Empty(t, head.body)
	c.reply(500, "")
	_, _ = ended()
}

// An init gets the whole split and no model, a validation writes nothing.
func TestOtherTasksOverHTTP(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	inv.Task, inv.Epoch, inv.Positions, inv.OptimizerOut = functions.Init, 0, nil, nil
	inv.Model, inv.Optimizer = functions.Input{}, functions.Input{}
	c, ended := s.open(inv)
	all := make([]int64, samples)
	for i := range all {
		all[i] = int64(i)
	}
	checkRows(t, c.get("/data/1").body, all)
	for _, path := range []string{"/model", "/optimizer/1"} {
		require.Equal(t, http.StatusNotFound, c.do(request{method: "GET", path: path, query: "-", token: "-"}).status)
	}
	c.put("/model/1", dict(t, 5))
	c.reply(200, `{"id": 1, "results": {}}`)
	answer, err := ended()
	require.NoError(t, err)
	require.Zero(t, answer)
	require.Equal(t, dict(t, 5), model.Bytes())

	inv, _, _ = training(t)
	inv.Task, inv.ModelOut, inv.OptimizerOut = functions.Val, nil, nil
	for results, want := range map[string]functions.Answer{
		`{"loss_sum": 3.5, "loss": 1, "correct": 5, "accuracy": 1}`: {Samples: 7, Batches: 2, Loss: 3.5, Correct: 5, HasAccuracy: true},
		`{"loss": 0.5, "accuracy": 100}`:                            {Samples: 7, Batches: 2, Loss: 3.5, Correct: 7, HasAccuracy: true},
		`{"loss": 0.5, "samples": 7, "metrics": {"m": {"sum": 1.5, "weight": 7}, "none": {"sum": 1, "weight": 0}, "nan": {"sum": "NaN", "weight": 7}}}`: {
			Samples: 7, Batches: 2, Loss: 3.5, Metrics: map[string]functions.Metric{"m": {Sum: 1.5, Weight: 7}},
		},
	} {
		c, ended = s.open(inv)
		require.Equal(t, http.StatusConflict, c.do(request{method: "PUT", path: "/model/1", query: "-", token: "-", body: dict(t, 5)}).status)
		c.reply(200, `{"id": 1, "results": `+results+`}`)
		answer, err = ended()
		require.NoError(t, err)
		require.Equal(t, want, answer)
	}

	inv = functions.Invocation{Task: functions.Infer, Function: "f", JobID: job, N: 1, BatchSize: 1, Model: inv.Model, Infer: json.RawMessage(`[[1, 2]]`)}
	for _, body := range []string{`{"id": 0, "results": {"predictions": [4]}}`, `[4]`} {
		c, ended = s.open(inv)
		require.JSONEq(t, `[[1, 2]]`, string(c.body))
		require.Equal(t, http.StatusNotFound, c.do(request{method: "GET", path: "/data/0", token: "-"}).status)
		require.Equal(t, dict(t, 1), c.get("/model").body)
		c.reply(200, body)
		answer, err = ended()
		require.NoError(t, err)
		require.JSONEq(t, `[4]`, string(answer.Predictions))
	}
}

// What names no open attempt, or comes without its token, is refused and
// changes nothing: the attempt then goes its way.
func TestWhatIsRefusedChangesNothing(t *testing.T) {
	s := newStage(t)
	inv, model, state := training(t)
	c, ended := s.open(inv)
	body := dict(t, 3)
	changed := func(name, value string) string {
		q := c.Query()
		q.Set(name, value)
		return q.Encode()
	}
	for _, test := range []struct {
		name string
		request
		status int
	}{
		{"another epoch", request{method: "PUT", path: "/model/1", query: changed("epoch", "1"), token: "-"}, 409},
		{"an earlier attempt", request{method: "PUT", path: "/model/1", query: changed("attempt", "0"), token: "-"}, 409},
		{"a later attempt", request{method: "POST", path: "/next/1", query: changed("attempt", "2"), token: "-"}, 409},
		{"another round", request{method: "POST", path: "/next/1", query: changed("round", "0"), token: "-"}, 409},
		{"another incarnation", request{method: "PUT", path: "/model/1", query: changed("incarnation", "2"), token: "-"}, 409},
		{"another task", request{method: "POST", path: "/next/1", query: changed("task", "val"), token: "-"}, 409},
		{"a task that is none", request{method: "POST", path: "/next/1", query: changed("task", "dance"), token: "-"}, 400},
		{"another function", request{method: "PUT", path: "/model/2", query: "-", token: "-"}, 409},
		{"a function that the round has not", request{method: "PUT", path: "/model/4", query: "-", token: "-"}, 404},
		{"a function that is no number", request{method: "PUT", path: "/model/one", query: "-", token: "-"}, 400},
		{"a function below zero", request{method: "PUT", path: "/model/-1", query: "-", token: "-"}, 400},
		{"an epoch that is no number", request{method: "GET", path: "/assignment/1", query: changed("epoch", "x"), token: "-"}, 400},
		{"an incarnation that is no number", request{method: "GET", path: "/assignment/1", query: changed("incarnation", "-1"), token: "-"}, 400},
		{"a round beyond all", request{method: "GET", path: "/assignment/1", query: changed("round", "99999999999"), token: "-"}, 400},
		{"a query that is none", request{method: "GET", path: "/assignment/1", query: "epoch=%zz", token: "-"}, 400},
		{"a forged token", request{method: "PUT", path: "/model/1", query: "-", token: strings.Repeat("0", 32)}, 403},
		{"a forged token at next", request{method: "POST", path: "/next/1", query: "-", token: c.token + "0"}, 403},
		{"no Bearer", request{method: "PUT", path: "/model/1", query: "-", header: map[string]string{"Authorization": "Basic eA=="}}, 401},
		{"an empty token", request{method: "PUT", path: "/model/1", query: "-", header: map[string]string{"Authorization": "Bearer "}}, 401},
		{"another host's page", request{method: "PUT", path: "/model/1", header: map[string]string{"Origin": "http://evil.example"}}, 403},
		{"a digest that is none", request{method: "PUT", path: "/model/1", token: "-", header: map[string]string{"Repr-Digest": "sha-256=:eA==:"}}, 400},
		{"a model that cannot be this one", request{method: "PUT", path: "/model/1", token: "-", body: make([]byte, 17<<20), header: map[string]string{"Expect": "100-continue"}}, 413},
		{"results before the model", request{method: "POST", path: "/next/1", token: "-", body: []byte(good)}, 409},
		{"results of another function", request{method: "POST", path: "/next/1", token: "-", body: []byte(`{"id": 2, "results": {"loss": 1}}`)}, 422},
		{"results that are none", request{method: "POST", path: "/next/1", token: "-", body: []byte(`[1`)}, 400},
		{"results without end", request{method: "POST", path: "/next/1", token: "-", body: bytes.Repeat([]byte{' '}, 5<<20)}, 413},
		{"a wrong method", request{method: "DELETE", path: "/model/1", token: "-"}, 405},
		{"a read-only path written", request{method: "PUT", path: "/assignment/1", token: "-"}, 405},
		{"an unknown path", request{method: "GET", path: "/nothing", token: "-"}, 404},
		{"the path itself", request{method: "GET", path: "/", token: "-"}, 404},
	} {
		if test.body == nil {
			test.body = body
		}
		if test.method == "GET" || test.path == "/next/1" && bytes.Equal(test.body, body) {
			test.body = nil
		}
		r := c.do(test.request)
		require.NoError(t, r.err, test.name)
		require.Equal(t, test.status, r.status, "%s: %s", test.name, r.body)
		var f remote.Failure
		require.NoError(t, json.Unmarshal(r.body, &f), test.name)
		require.Equal(t, test.status, f.Code, test.name)
		require.NotEmpty(t, f.Error, test.name)
	}
	require.Equal(t, http.StatusConflict, (&call{Call: remote.Call{JobURL: s.exchange.URL + "/jobs/another"}, s: s}).do(request{method: "GET", path: "/model"}).status)
	require.Zero(t, model.creates)
	require.Zero(t, state.creates)
	c.put("/model/1", body)
	c.reply(200, good)
	answer, err := ended()
	require.NoError(t, err)
	require.Equal(t, 0.25, answer.Loss)
	require.False(t, answer.HasOptimizer)
	require.Equal(t, body, model.Bytes())

	for _, late := range []request{
		{method: "PUT", path: "/model/1", query: "-", token: "-", body: dict(t, 9)},
		{method: "PUT", path: "/optimizer/1", query: "-", token: "-", body: dict(t, 9)},
		{method: "POST", path: "/next/1", query: "-", token: "-"},
		{method: "GET", path: "/model", query: "-", token: "-"},
		{method: "GET", path: "/data/1", query: "-", token: "-"},
	} {
		require.Equal(t, http.StatusConflict, c.do(late).status, "late: %s", late.path)
	}
	require.Equal(t, body, model.Bytes())
	require.Zero(t, state.creates)
}

// A PUT that is repeated is as good as one; another is refused.
func TestAPutMayBeRepeated(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	c, ended := s.open(inv)
	for range 3 {
		c.put("/model/1", dict(t, 3))
	}
	for _, other := range [][]byte{dict(t, 4), dict(t, 3)[1:]} {
		require.Equal(t, http.StatusConflict, c.do(request{method: "PUT", path: "/model/1", token: "-", body: other}).status)
	}
	require.Equal(t, 1, model.creates)
	c.reply(200, good)
	_, err := ended()
	require.NoError(t, err)
	require.Equal(t, dict(t, 3), model.Bytes())
}

// Of two PUTs at once the second is refused, and harms the first in nothing.
func TestOfTwoPutsAtOnceOneCounts(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	c, ended := s.open(inv)
	body := dict(t, 3)
	first := s.dial(c, "/model/1", len(body))
	_, err := first.Write(body[:1000])
	require.NoError(t, err)
	c.awaitPut()
	require.Equal(t, http.StatusConflict, c.do(request{method: "PUT", path: "/model/1", token: "-", query: "-", body: body}).status)
	require.Equal(t, http.StatusConflict, c.do(request{method: "POST", path: "/next/1", token: "-"}).status, "results come after the model")
	_, err = first.Write(body[1000:])
	require.NoError(t, err)
	require.Contains(t, firstLine(t, first), "200")
	c.reply(200, good)
	_, err = ended()
	require.NoError(t, err)
	require.Equal(t, body, model.Bytes())
}

// dial begins a PUT of so many bytes by hand.
func (s *stage) dial(c *call, path string, length int) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.exchange.Listener.Addr().String())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "PUT /jobs/%s%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", c.Job, path, c.token, length)
	require.NoError(s.t, err)
	return conn
}

// awaitPut returns once the model is being put.
func (c *call) awaitPut() {
	c.s.t.Helper()
	require.Eventually(c.s.t, func() bool {
		r := c.do(request{method: "POST", path: "/next/1", query: "-", token: "-"})
		require.Equal(c.s.t, http.StatusConflict, r.status)
		return bytes.Contains(r.body, []byte("still being put"))
	}, 30*time.Second, time.Millisecond)
}

func firstLine(t *testing.T, conn net.Conn) string {
	t.Helper()
	b := make([]byte, 64)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	n, err := conn.Read(b)
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(b[:n]), "\r\n")
	return line
}

// A PUT that breaks off, or was damaged on its way, fails the attempt at once:
// an output is written once.
func TestABrokenPutFailsTheAttempt(t *testing.T) {
	body := dict(t, 3)
	for _, test := range []struct {
		name string
		put  func(s *stage, c *call)
		kind fault.Kind
		says string
	}{
		{"it breaks off", func(s *stage, c *call) {
			conn := s.dial(c, "/model/1", len(body))
			_, err := conn.Write(body[:2000])
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}, fault.Unavailable, "broke off after"},
		{"its digest is another", func(s *stage, c *call) {
			r := c.do(request{method: "PUT", path: "/model/1", token: "-", body: body, header: map[string]string{remote.DigestHeader: digest(body[1:])}})
			require.Equal(t, http.StatusUnprocessableEntity, r.status)
		}, fault.Rejected, "damaged on its way"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			inv, _, _ := training(t)
			c, ended := s.open(inv)
			test.put(s, c)
			_, err := ended()
			require.Equal(t, test.kind, fault.KindOf(err), err)
			require.ErrorContains(t, err, test.says)
			<-c.gone // the function is cancelled
		})
	}
}

func TestAModelSaysItsLength(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	c, ended := s.open(inv)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, c.JobURL+"/model/1", io.MultiReader(bytes.NewReader(dict(t, 3))))
	require.NoError(t, err)
	r.Close = true
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	_ = got.Body.Close()
	require.Equal(t, http.StatusLengthRequired, got.StatusCode)
	require.Equal(t, http.StatusBadRequest, c.do(request{method: "PUT", path: "/model/1", query: "-", token: "-"}).status, "nothing is no state dict")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.exchange.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "PUT /jobs/%s/model/1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", job)
	require.NoError(t, err)
	status, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, status, "411", "a length that is not said is none")
	require.Zero(t, model.creates)
	c.reply(500, "")
	_, _ = ended()
}

// Where there is no room Run says so itself, whatever the endpoint makes of it.
func TestAnErrorOfTheOutputIsRunsOwn(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	noRoom := errors.New("no room")
	model.err = fault.New("plane.create", fault.Unavailable, "full: %w", noRoom)
	c, ended := s.open(inv)
	require.Equal(t, http.StatusServiceUnavailable, c.do(request{method: "PUT", path: "/model/1", token: "-", body: dict(t, 3)}).status)
	c.reply(500, `{"error": "it went wrong", "code": 500, "kind": "user code"}`)
	_, err := ended()
	require.ErrorIs(t, err, noRoom)
}

// On loopback a plain call needs neither token nor numbers while it can mean one
// attempt only. With several, the token says which.
func TestPlainCallsMeanTheOneOpenAttempt(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	one, ended := s.open(inv)
	require.Equal(t, http.StatusOK, one.do(request{method: "GET", path: "/assignment/1"}).status)
	require.Equal(t, http.StatusOK, one.do(request{method: "GET", path: "/model"}).status)
	twin, twinModel, _ := training(t)
	two, twinEnded := s.open(twin)
	require.NotEqual(t, one.token, two.token)
	require.Equal(t, http.StatusConflict, one.do(request{method: "GET", path: "/assignment/1", query: "-"}).status)
	two.put("/model/1", dict(t, 4))
	one.put("/model/1", dict(t, 3))
	require.Equal(t, http.StatusConflict, one.do(request{method: "GET", path: "/model", query: "round=1"}).status, "their models lie in two files")
	two.reply(200, good)
	_, err := twinEnded()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, one.do(request{method: "POST", path: "/next/1"}).status)
	answer, err := ended()
	require.NoError(t, err)
	require.Equal(t, functions.Answer{Samples: 7, Batches: 2, NoLoss: true}, answer, "without results: all of it, and no loss")
	require.Equal(t, dict(t, 3), model.Bytes())
	require.Equal(t, dict(t, 4), twinModel.Bytes())
	one.reply(200, good)
}

// Functions of one round share its model: GET /model need not say whose.
func TestAnyFunctionsModelIsTheRounds(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	one, ended := s.open(inv)
	next := inv
	next.Index, next.ModelOut, next.OptimizerOut = 2, &buffer{}, &buffer{}
	two, nextEnded := s.open(next)
	require.Equal(t, http.StatusOK, one.do(request{method: "GET", path: "/model"}).status)
	for _, c := range []*call{one, two} {
		c.reply(500, "")
	}
	_, _ = ended()
	_, _ = nextEnded()
}

// Off loopback nothing is served without the token.
func TestTheTokenIsNeededOffLoopback(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	c, ended := s.open(inv)
	for host, status := range map[string]int{"evil.example": 401, "localhost": 200, "[::1]:80": 200, "127.0.0.1": 200} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.JobURL+"/assignment/1", nil)
		require.NoError(t, err)
		r.Host, r.Close = host, true
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		_ = got.Body.Close()
		require.Equal(t, status, got.StatusCode, host)
	}
	for _, local := range []net.Addr{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, nil} {
		ctx := context.Background()
		if local != nil {
			ctx = context.WithValue(ctx, http.LocalAddrContextKey, local)
		}
		for token, status := range map[string]int{"": 401, "Bearer " + c.token: 200} {
			require.Equal(t, status, s.record(ctx, c, token), token)
		}
	}
	c.reply(500, "")
	_, _ = ended()
}

// Next waits for the merge, while Run has the answer already.
func TestNextWaitsForTheMerge(t *testing.T) {
	for _, failure := range []error{nil, fault.New("train.merge", fault.Unavailable, "the round was given up")} {
		s := newStage(t)
		merge := make(chan error)
		s.merged = func(ctx context.Context, ref remote.Ref) error {
			require.Equal(t, remote.Ref{Job: job, Incarnation: 3, Task: "train", Epoch: 2, Round: 1, Function: 1, Attempt: 1}, ref)
			select {
			case err := <-merge:
				return err
			case <-ctx.Done(): // as the real one
				return ctx.Err()
			}
		}
		inv, _, _ := training(t)
		c, ended := s.open(inv)
		c.put("/model/1", dict(t, 3))
		answered := make(chan response)
		go func() {
			answered <- c.do(request{method: "POST", path: "/next/1", query: "-", token: "-", body: []byte(good)})
		}()
		answer, err := ended()
		require.NoError(t, err)
		require.Equal(t, 0.25, answer.Loss)
		select {
		case <-c.gone:
			t.Fatal("a function that waits for the merge is let go on")
		case r := <-answered:
			t.Fatalf("it does not wait: %d %s", r.status, r.body)
		case <-time.After(50 * time.Millisecond): // in which a connection that was cut off would be noticed
		}
		merge <- failure
		r := <-answered
		if failure == nil {
			require.Equal(t, http.StatusOK, r.status)
			require.JSONEq(t, `{"merge": "succeeded"}`, string(r.body))
		} else {
			require.Equal(t, http.StatusInternalServerError, r.status)
			require.Contains(t, string(r.body), "the round was given up")
		}
		require.Equal(t, http.StatusConflict, c.do(request{method: "POST", path: "/next/1", query: "-", token: "-"}).status, "once")
		c.reply(200, good)
	}
}

// Who neither sends nor takes is freed when the attempt ends.
func TestStuckRequestsEndWithTheAttempt(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := s.runIn(ctx, inv)
	c := <-s.calls
	conn := s.dial(c, "/model/1", 1000)
	_, err := conn.Write(make([]byte, 10))
	require.NoError(t, err)
	c.awaitPut()
	cancel()
	_, err = ended()
	require.ErrorIs(t, err, context.Canceled)
	written := len(model.Bytes())
	require.NotEmpty(t, firstLine(t, conn))
	_, _ = conn.Write(make([]byte, 990))
	require.Len(t, model.Bytes(), written, "nothing is written after Run")
}

// A job that has the server to itself is served at the root.
func TestAJobIsServedAtTheRoot(t *testing.T) {
	testkit.LeakCheck(t)
	exchange := remote.NewExchange(func(context.Context, remote.Ref) error { return nil })
	server := httptest.NewServer(exchange.Job(job))
	defer server.Close()
	s := newStage(t)
	runtime := remote.New(remote.Config{Exchange: exchange, URL: func(string) (string, error) { return server.URL, nil }})
	defer runtime.Close()
	require.NoError(t, runtime.Register("f", s.endpoint.URL+"/f?key=secret"))
	s.runtime = runtime
	inv, model, _ := training(t)
	c, ended := s.open(inv)
	checkRows(t, c.get("/data/1").body, inv.Positions)
	c.put("/model/1", dict(t, 3))
	require.Equal(t, http.StatusOK, c.do(request{method: "POST", path: "/next/1", query: "-", token: "-", body: []byte(good)}).status)
	_, err := ended()
	require.NoError(t, err)
	require.Equal(t, dict(t, 3), model.Bytes())
	for _, path := range []string{"/start", "/jobs/" + job + "/model", ""} {
		require.Equal(t, http.StatusNotFound, c.do(request{method: "GET", path: path}).status, path)
	}
}
