package api_test

import (
	"bufio"
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

func merged(round uint32) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{Epoch: 1, Round: round, Loss: 0.5, ModelVersion: 1<<63 + 1}}}
}

func over() *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: &messages.JobResult{Phase: messages.Phase_PHASE_STOPPED}}}}
}

// watch opens a stream, and returns a function that reads its next block.
func (s *server) watch(path string, headers ...string) (next func() string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, "GET", s.URL()+path, nil)
	require.NoError(s.t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	require.Equal(s.t, 200, response.StatusCode)
	s.t.Cleanup(func() { cancel(); response.Body.Close() })
	lines := bufio.NewReader(response.Body)
	return func() string {
		var block strings.Builder
		for {
			line, err := lines.ReadString('\n')
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return "EOF"
			}
			require.NoError(s.t, err)
			if line == "\n" {
				return block.String()
			}
			block.WriteString(line)
		}
	}
}

func TestEventsOfAJobComeFromItsFirstUntilItsEnd(t *testing.T) {
	s := start(t)
	s.company.Add(running("r"))
	s.company.Emit("r", merged(1))
	next := s.watch("/events?job=r")
	require.Equal(t, "retry: 1000\n", next())
	require.Equal(t, `id: r:1:1
event: round_merged
data: {"job":{"id":"r","incarnation":1},"seq":1,"time_ms":1700000000001,"round_merged":{"epoch":1,"round":1,"parallelism":0,"answers":0,"samples":0,"epoch_samples":0,"loss":0.5,"model_version":9223372036854775809,"duration_us":0,"merge_us":0,"merge_bytes":0}}
`, next())
	s.company.Emit("x", merged(1)) // of another job
	s.company.Emit("r", merged(2))
	require.Contains(t, next(), "id: r:1:2\n")
	s.company.Emit("r", over())
	require.Contains(t, next(), "id: r:1:3\nevent: ended\n")
	require.Equal(t, "event: end\ndata: {}\n", next())
	require.Equal(t, "EOF", next())
}

func TestEventsGoOnBehindTheLastOneSeen(t *testing.T) {
	s := start(t)
	s.company.Add(running("r"))
	for round := range 5 {
		s.company.Emit("r", merged(uint32(round+1)))
	}
	for _, next := range []func() string{
		s.watch("/events?job=r", "Last-Event-ID", "r:1:3"),
		s.watch("/events?job=r&after=r:1:3"),
		s.watch("/events", "Last-Event-ID", "r:1:3"),
		s.watch("/events?job=r&after=r:1:1", "Last-Event-ID", "r:1:3"), // what a browser says when it comes back
	} {
		next()
		require.Contains(t, next(), "id: r:1:4\n")
		require.Contains(t, next(), "id: r:1:5\n")
	}
}

func TestACursorThatIsTooOldGetsAReset(t *testing.T) {
	s := start(t)
	s.company.Add(running("r"))
	for round := range 5 {
		s.company.Emit("r", merged(uint32(round+1)))
	}
	s.company.Forget("r", 3)
	next := s.watch("/events?job=r", "Last-Event-ID", "r:1:1")
	next()
	require.Equal(t, "id: r:1:1\nevent: reset\ndata: {}\n", next())
	require.Contains(t, next(), "id: r:1:4\n")
}

func TestWithoutAJobThereAreNewEventsOnly(t *testing.T) {
	s := start(t)
	s.company.Add(running("r"))
	s.company.Emit("r", merged(1))
	next := s.watch("/events")
	next()
	s.company.Add(running("q"))
	seen := make(chan string)
	go func() { seen <- next() }()
	for {
		s.company.Emit("q", merged(1)) // again, because nobody knows from when on the stream listens
		select {
		case first := <-seen:
			require.Contains(t, first, "id: q:1:")
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestAStreamSaysThatItLives(t *testing.T) {
	s := start(t, func(c *config.API, _ *api.Deps) { c.Heartbeat = time.Millisecond })
	next := s.watch("/events")
	next()
	require.Equal(t, ": alive\n", next())
}

func TestEventsSurviveTheirJSON(t *testing.T) {
	for _, e := range []*messages.JobEvent{
		{What: &messages.JobEvent_Queued{Queued: &messages.JobQueued{}}},
		merged(1), over(),
		{Job: &messages.JobRef{Id: "j", Incarnation: 1 << 60}, Seq: 2, What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: &messages.EpochRecord{
			Epoch: 1, Accuracy: proto.Float64(0), RoundParallelism: []uint32{1, 2}, Metrics: map[string]float64{"a\"b": 1, "c": -1e300},
		}}}},
		{What: &messages.JobEvent_FunctionFailed{FunctionFailed: &messages.FunctionFailed{
			Attempt: &messages.AttemptRef{Task: messages.Task_TASK_TRAIN}, Failure: &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_USER_CODE, Text: "é\n\x01"},
		}}},
	} {
		encoded := jobjson.EncodeEvent(e)
		require.NotContains(t, string(encoded), "\n")
		got, err := jobjson.DecodeEvent(encoded)
		require.NoError(t, err, string(encoded))
		require.Truef(t, proto.Equal(e, got), "%s", encoded)
	}
	nan := merged(1)
	nan.GetRoundMerged().Loss = math.NaN()
	require.Contains(t, string(jobjson.EncodeEvent(nan)), `"loss":null`)
	_, err := jobjson.DecodeEvent([]byte(`{"seq":1,"later":{"a":1}}`))
	require.NoError(t, err)
	_, err = jobjson.DecodeEvent([]byte(`{"seq":`))
	require.Error(t, err)
}

func TestFollowedLogsEndWithTheJob(t *testing.T) {
	s := start(t)
	s.company.Add(running("r"))
	s.company.Print("r", 0, "one")
	response, err := http.Get(s.URL() + "/tasks/r/logs?follow=1")
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "0| one\n", line)
	s.company.Print("r", 1, "two")
	s.company.Emit("r", over())
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Equal(t, "1| two\n", string(rest))
}

func TestOnlySoManyMayFollow(t *testing.T) {
	s := start(t, func(c *config.API, _ *api.Deps) { c.MaxStreams = 1 })
	s.company.Add(running("r"))
	next := s.watch("/events")
	next()
	for _, path := range []string{"/events", "/events?job=r", "/tasks/r/logs?follow=1"} {
		response, body := s.do("GET", path, "")
		require.Equal(t, 503, response.StatusCode)
		require.Contains(t, body, "1 clients follow")
	}
	response, _ := s.do("GET", "/tasks/r/logs", "")
	require.Equal(t, 200, response.StatusCode)
}

// Whoever takes nothing is cut off, and makes room for others.
func TestAClientThatTakesNothingIsCutOff(t *testing.T) {
	s := start(t, func(c *config.API, _ *api.Deps) { c.MaxStreams, c.Patience = 1, 50*time.Millisecond })
	s.company.Add(running("r"))
	long := strings.Repeat("x", 1<<20)
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
	_, err = io.WriteString(c, "GET /events?job=r HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	for range 32 { // more than a socket takes
		s.company.Emit("r", &messages.JobEvent{What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{Text: long}}})
	}
	require.Eventually(t, func() bool {
		response, err := http.Get(s.URL() + "/tasks/r/logs?follow=1")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == 200
	}, 20*time.Second, 10*time.Millisecond)
}

func TestClosingEndsStreamsAndWaitsForTheRest(t *testing.T) {
	s := start(t)
	s.company.Add(running("r"))
	events := s.watch("/events?job=r")
	events()
	logs, err := http.Get(s.URL() + "/tasks/r/logs?follow=1")
	require.NoError(t, err)
	defer logs.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, s.Close(ctx))
	require.Equal(t, "EOF", events(), "without the end of the job: the client comes back")
	_, err = io.ReadAll(logs.Body)
	require.Error(t, err, "there may be more")
	_, err = http.Get(s.URL() + "/health")
	require.Error(t, err)
	require.NoError(t, s.Close(ctx), "again")
}
