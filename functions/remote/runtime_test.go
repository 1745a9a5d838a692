package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Whatever an endpoint answers, Run says what came in an error of the right
// kind, and nothing of the attempt stays.
func TestWhatAnEndpointMayAnswer(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, test := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		kind   fault.Kind
		says   []string
	}{
		{"a gateway's page", text(502, "<html><body>Bad Gateway</body></html>"), fault.Unavailable, []string{"502 Bad Gateway", "<html><body>Bad Gateway"}},
		{"nothing at all", text(500, ""), fault.Unavailable, []string{"500"}},
		{"garbage", text(200, "\x00\xff\x01"), fault.Unavailable, []string{"200 OK", "not a function's answer"}},
		{"much garbage", text(200, long), fault.Unavailable, []string{strings.Repeat("x", 120) + "…"}},
		{"a page with a good status", text(200, "<!doctype html>"), fault.Unavailable, []string{"<!doctype html>"}},
		{"other JSON", text(200, `{"status": "ok"}`), fault.Unavailable, []string{"not a function's answer"}},
		{"an empty 200", text(200, ``), fault.Unavailable, []string{"not a function's answer"}},
		{"an accepted call", text(202, `{"id": 1, "results": {}}`), fault.Unavailable, []string{"202"}},
		{"busy, and no word until when", text(503, "busy"), fault.Unavailable, []string{"503", "busy"}},
		{"a JSON error of somebody else", text(500, `{"error": "boom", "code": 500}`), fault.Unavailable, []string{"boom"}},
		{"an error of a kind that there is not", text(500, `{"error": "boom", "kind": "strange"}`), fault.Unavailable, []string{"strange"}},
		{"what the user's code raised", text(422, `{"error": "ValueError: x", "code": 422, "kind": "user code", "trace": "line 7"}`), fault.UserCode, []string{"ValueError: x"}},
		{"a bad argument", text(400, `{"error": "argument a", "code": 400, "kind": "invalid"}`), fault.Invalid, []string{"argument a"}},
		{"a model that it cannot read", text(500, `{"error": "cut short", "code": 500, "kind": "corrupt"}`), fault.Corrupt, []string{"cut short"}},
		{"no model, and a good answer", text(200, good), fault.Rejected, []string{"wrote no model"}},
		{"another function's results", text(200, `{"id": 3, "results": {"loss": 1}}`), fault.Rejected, []string{"function 3"}},
		{"a cut connection", cut(""), fault.Unavailable, []string{"EOF"}},
		{"a cut answer", cut("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\": 1, "), fault.Unavailable, []string{"cut off"}},
		{"another protocol", cut("220 mail.example ESMTP\r\n"), fault.Unavailable, []string{"malformed"}},
		{"a redirect to another host", redirect(307, "http://127.0.0.2:1/"), fault.Unavailable, []string{"307", "http://127.0.0.2:1/", "register the URL"}},
		{"a redirect that makes it a GET", redirect(302, "/other"), fault.Unavailable, []string{"302", "/other"}},
		{"an answer without end", giant, fault.Unavailable, []string{"more than"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			inv, _, _ := training(t)
			c, ended := s.open(inv)
			c.replyWith(test.answer)
			answer, err := ended()
			require.Zero(t, answer)
			require.Equal(t, test.kind, fault.KindOf(err), "%v", err)
			for _, says := range test.says {
				require.ErrorContains(t, err, says)
			}
			require.NotContains(t, err.Error(), "secret", "the query of a URL may hold a key")
			if test.kind == fault.UserCode {
				require.Equal(t, "line 7", fault.TraceOf(err))
			}
			require.Equal(t, http.StatusConflict, c.do(request{method: "GET", path: "/assignment/1"}).status, "it is over")
		})
	}
}

func text(status int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func redirect(status int, to string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Location", to)
		w.WriteHeader(status)
	}
}

// cut writes a text instead of an answer, and ends the connection.
func cut(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}
}

func giant(w http.ResponseWriter) {
	page := bytes.Repeat([]byte(" "), 1<<20)
	for range 70 {
		if _, err := w.Write(page); err != nil {
			return
		}
	}
}

func TestAnEndpointThatIsNotThere(t *testing.T) {
	s := newStage(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	require.NoError(t, s.runtime.Register("f", gone.URL))
	inv, _, _ := training(t)
	_, err := s.run(inv)()
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.ErrorContains(t, err, gone.URL)
	require.ErrorContains(t, err, "refused")
}

func TestWhatIsNoEndpointIsRefused(t *testing.T) {
	s := newStage(t)
	for _, u := range []string{"", "ftp://h/", "http://", "h:80", "http://h\x00/"} {
		require.Equal(t, fault.Invalid, fault.KindOf(s.runtime.Register("g", u)), u)
	}
	require.Equal(t, fault.Invalid, fault.KindOf(s.runtime.Register("g")))
	require.False(t, s.runtime.Has("g"))
}

// A busy endpoint is asked again when it says, by seconds or by date, in the
// same attempt with the same token.
func TestABusyEndpointIsAskedAgain(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	c, ended := s.open(inv)
	token := c.token
	for _, busy := range []struct {
		status int
		when   string
	}{{429, "0"}, {503, time.Now().UTC().Format(http.TimeFormat)}, {503, "0"}} {
		c.replyWith(func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", busy.when)
			w.WriteHeader(busy.status)
		})
		c = <-s.calls
		require.Equal(t, token, c.token)
	}
	c.put("/model/1", dict(t, 3))
	c.reply(200, good)
	_, err := ended()
	require.NoError(t, err)
}

// The wait for a busy endpoint ends with the attempt.
func TestAWaitEndsWithTheAttempt(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := s.runIn(ctx, inv)
	(<-s.calls).replyWith(func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(429)
	})
	cancel()
	_, err := ended()
	require.ErrorIs(t, err, context.Canceled)
}

// Only 429 and 503 are waited for, and only when they say until when.
func TestOnlyBusyIsWaitedFor(t *testing.T) {
	for _, answer := range []func(http.ResponseWriter){
		func(w http.ResponseWriter) { w.Header().Set("Retry-After", "0"); w.WriteHeader(500) },
		func(w http.ResponseWriter) { w.Header().Set("Retry-After", "soon"); w.WriteHeader(503) },
		func(w http.ResponseWriter) { w.Header().Set("Retry-After", "-1"); w.WriteHeader(429) },
	} {
		s := newStage(t)
		inv, _, _ := training(t)
		c, ended := s.open(inv)
		c.replyWith(answer)
		_, err := ended()
		require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	}
}

// On its own host a call may be redirected, as a POST with its token.
func TestARedirectOnTheSameHostIsFollowed(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	c, ended := s.open(inv)
	c.replyWith(redirect(307, "/g?"+s.query(c)))
	c = <-s.calls
	c.put("/model/1", dict(t, 3))
	c.reply(200, good)
	_, err := ended()
	require.NoError(t, err)

	c, ended = s.open(inv)
	for range 5 {
		c.replyWith(redirect(308, "/g?"+s.query(c)))
		c = <-s.calls
	}
	c.replyWith(redirect(308, "/g?"+s.query(c)))
	_, err = ended()
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.ErrorContains(t, err, "308")
}

func (s *stage) query(c *call) string {
	target, err := c.URL(s.endpoint.URL + "/?key=secret")
	require.NoError(s.t, err)
	_, query, _ := strings.Cut(target, "?")
	return query
}

// The next attempt goes to the next endpoint, and each function begins at
// another.
func TestAttemptsTakeTurnsAtTheEndpoints(t *testing.T) {
	s := newStage(t)
	var urls []string
	var hits [3]atomic.Int32
	for i := range hits {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			hits[i].Add(1)
			w.WriteHeader(500)
		}))
		t.Cleanup(server.Close)
		urls = append(urls, server.URL)
	}
	require.NoError(t, s.runtime.Register("f", urls...))
	inv, _, _ := training(t)
	for function := range 3 {
		for attempt := range 3 {
			inv.Index, inv.Attempt, inv.ModelOut, inv.OptimizerOut = function, attempt, &buffer{}, &buffer{}
			before := hits[(function+attempt)%3].Load()
			_, err := s.run(inv)()
			require.Equal(t, fault.Unavailable, fault.KindOf(err))
			require.Equal(t, before+1, hits[(function+attempt)%3].Load())
		}
	}
}

// A network that delivers an answer twice, or a proxy that repeats the call,
// changes nothing: of the second the exchange knows nothing any more.
func TestACallThatIsRepeatedChangesNothing(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	c, ended := s.open(inv)
	c.put("/model/1", dict(t, 3))
	again := c.do(request{method: "POST", path: "/next/1", query: "-", token: "-", body: []byte(good)})
	require.Equal(t, 200, again.status)
	c.reply(200, `{"id": 1, "results": {"loss": 99}}`)
	answer, err := ended()
	require.NoError(t, err)
	require.Equal(t, 0.25, answer.Loss, "whichever is first")
	require.Equal(t, dict(t, 3), model.Bytes())
	for range 2 {
		require.Equal(t, http.StatusConflict, c.do(request{method: "POST", path: "/next/1", query: "-", token: "-", body: []byte(good)}).status)
	}
}

// A cancelled run cuts the call: so its function knows.
func TestACancelledRunCutsItsCall(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := s.runIn(ctx, inv)
	c := <-s.calls
	cancel()
	_, err := ended()
	require.ErrorIs(t, err, context.Canceled)
	<-c.gone
}

// A closed runtime cuts what runs.
func TestACloseEndsWhatRuns(t *testing.T) {
	s := newStage(t)
	inv, _, _ := training(t)
	c, ended := s.open(inv)
	require.NoError(t, s.runtime.Close())
	_, err := ended()
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.ErrorContains(t, err, "closed")
	<-c.gone
}

// Sabotage breaks what is real here: the connections.
func TestSabotageCutsConnections(t *testing.T) {
	s := newStage(t)
	inv, model, _ := training(t)
	inv.Sabotage = functions.Sabotage{Kill: true, At: 0.2}
	c, ended := s.open(inv)
	require.Error(t, c.do(request{method: "GET", path: "/assignment/1", token: "-"}).err, "cut off without an answer")
	_, err := ended()
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	<-c.gone

	inv.Sabotage.At = 0.7
	c, ended = s.open(inv)
	c.get("/assignment/1")
	require.Error(t, c.do(request{method: "PUT", path: "/model/1", token: "-", body: dict(t, 3)}).err)
	_, err = ended()
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.NotEmpty(t, model.Bytes(), "half of the answer had arrived")

	inv.Task, inv.ModelOut, inv.OptimizerOut = functions.Val, nil, nil
	c, ended = s.open(inv)
	c.reply(200, `{"id": 1, "results": {"loss": 1}}`)
	_, err = ended()
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "an answer that came in spite of it: %v", err)

	inv.Sabotage = functions.Sabotage{Slow: 20 * time.Millisecond}
	c, ended = s.open(inv)
	begin := time.Now()
	c.get("/assignment/1")
	require.GreaterOrEqual(t, time.Since(begin), 20*time.Millisecond)
	c.reply(200, `{"id": 1, "results": {"loss": 1}}`)
	_, err = ended()
	require.NoError(t, err)
}

// A job that has no URL runs nothing.
func TestAJobWithoutAURL(t *testing.T) {
	runtime := remote.New(remote.Config{
		Exchange: remote.NewExchange(nil),
		URL:      func(string) (string, error) { return "", fault.New("x", fault.Unavailable, "no port") },
	})
	defer runtime.Close()
	require.NoError(t, runtime.Register("f", "http://127.0.0.1:1"))
	inv, _, _ := training(t)
	_, err := runtime.Run(t.Context(), inv)
	require.EqualError(t, err, "no port")
}

// The listener of a process without a server serves what it is asked for, and
// nothing before.
func TestLoopbackServesAJob(t *testing.T) {
	s := newStage(t)
	exchange := remote.NewExchange(nil)
	loopback := remote.NewLoopback(exchange)
	runtime := remote.New(remote.Config{Exchange: exchange, URL: loopback.URL, Fingerprint: func() string { return "abcdef" }})
	require.NoError(t, runtime.Register("f", s.endpoint.URL+"?key=secret"))
	s.runtime = runtime
	inv, _, _ := training(t)
	c, ended := s.open(inv)
	require.Regexp(t, `^http://127\.0\.0\.1:\d+/jobs/`+job+`$`, c.JobURL)
	require.Regexp(t, `^[0-9a-f]{32}\.abcdef$`, c.token)
	c.put("/model/1", dict(t, 3))
	c.reply(200, good)
	_, err := ended()
	require.NoError(t, err)
	require.NoError(t, runtime.Close())
	require.NoError(t, loopback.Close())
	require.NoError(t, loopback.Close())
	_, err = loopback.URL(job)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}

// What is in the URL of a call is read back as it was.
func TestCallsAreReadBack(t *testing.T) {
	inv, _, _ := training(t)
	inv.LR, inv.K = 1.0/3, -1
	want := remote.CallOf(inv, "https://h:8/jobs/x")
	target, err := want.URL("https://e/f?key=%26&task=mine")
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, nil)
	got, err := remote.ParseCall(r.URL.Query())
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, "&", r.URL.Query().Get("key"))
	for _, name := range []string{"task", "jobId", "N", "K", "funcId", "batchSize", "lr", "epoch", "round", "attempt", "incarnation", "jobUrl"} {
		for _, value := range []string{"", "-7", "x", "NaN", "9e99999"} {
			if name == "jobId" && value != "" || name == "lr" && value == "-7" {
				continue
			}
			q := r.URL.Query()
			q.Set(name, value)
			_, err := remote.ParseCall(q)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%s=%s", name, value)
			require.ErrorContains(t, err, name)
		}
	}
}

// Numbers go through JSON bit for bit, those too that JSON has not.
func TestResultsGoThroughJSON(t *testing.T) {
	inv, _, _ := training(t)
	for _, want := range []functions.Answer{
		{Samples: 7, Batches: 2, Loss: 1.0 / 3, Metrics: map[string]functions.Metric{"m": {Sum: 0.1, Weight: 7}}},
		{Samples: 7, Batches: 2, NoLoss: true},
		{Samples: 6, Batches: 3, Loss: 5e-324},
	} {
		got, err := through(t, inv, want)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	nan, err := through(t, inv, functions.Answer{Samples: 7, Batches: 2, Loss: inf() - inf()})
	require.NoError(t, err)
	require.NotEqual(t, nan.Loss, nan.Loss, "the host refuses it")
	inv.Task = functions.Val
	want := functions.Answer{Samples: 7, Batches: 2, Loss: 0.1 + 0.2, Correct: 5, HasAccuracy: true}
	got, err := through(t, inv, want)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = through(t, inv, functions.Answer{Samples: 7, NoLoss: true, Loss: inf()})
	require.NoError(t, err, "and that too")
	_, err = remote.FunctionResults{ID: 1}.Answer(inv)
	require.Equal(t, fault.Rejected, fault.KindOf(err))
	inv.Task = functions.Infer
	_, err = remote.FunctionResults{ID: 1}.Answer(inv)
	require.Equal(t, fault.Rejected, fault.KindOf(err))
}

func inf() float64 { return 1 / zero }

var zero float64

func through(t *testing.T, inv functions.Invocation, a functions.Answer) (functions.Answer, error) {
	t.Helper()
	return readJSON[remote.FunctionResults](t, asJSON(t, remote.ResultsOf(inv.Index, inv.Task, a))).Answer(inv)
}

// Every kind of error goes through an endpoint's answer.
func TestFailuresGoThroughJSON(t *testing.T) {
	for _, kind := range fault.Kinds() {
		e := fault.New("x", kind, "it went wrong: %d", 7)
		e.Trace = "line 7"
		f := readJSON[remote.Failure](t, asJSON(t, remote.FailureOf(fmt.Errorf("wrapped: %w", e))))
		got, ok := f.Err()
		require.True(t, ok)
		require.Equal(t, kind, fault.KindOf(got))
		require.EqualError(t, got, "wrapped: it went wrong: 7")
		require.Equal(t, "line 7", fault.TraceOf(got))
		require.GreaterOrEqual(t, f.Code, 400)
	}
}

func TestDigestsAreRead(t *testing.T) {
	d := remote.Digest{1, 2, 3}
	for _, header := range []string{d.String(), "md5=:eA==:, " + d.String(), strings.Replace(d.String(), "sha", "SHA", 1)} {
		got, ok, err := remote.ParseDigest(header)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, d, got)
	}
	for header, bad := range map[string]bool{"": false, "md5=:eA==:": false, "sha-256=x": true, "sha-256=:!:": true, "sha-256": true} {
		_, ok, err := remote.ParseDigest(header)
		require.False(t, ok)
		require.Equal(t, bad, err != nil, header)
	}
}
