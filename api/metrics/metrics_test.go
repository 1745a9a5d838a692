package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/api/metrics"
	"github.com/troupe-ml/troupe/messages"
)

// scrape returns the series whose name begins with a prefix.
func scrape(t *testing.T, m *metrics.Metrics, prefix string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, 200, w.Code)
	var series []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			series = append(series, strings.TrimSpace(line))
		}
	}
	return series
}

func job(id string, incarnation, seq uint64) *messages.JobEvent {
	return &messages.JobEvent{Job: &messages.JobRef{Id: id, Incarnation: incarnation}, Seq: seq}
}

func life(id string) []*messages.JobEvent {
	events := []*messages.JobEvent{
		{What: &messages.JobEvent_Queued{}},
		{What: &messages.JobEvent_Started{Started: &messages.JobStarted{QueuedMs: 1500, Parallelism: 2}}},
		{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{Epoch: 1, Parallelism: 2, Samples: 64, Loss: 0.5, DurationUs: 2e6, MergeUs: 250e3, MergeBytes: 100}}},
		{What: &messages.JobEvent_FunctionFailed{FunctionFailed: &messages.FunctionFailed{Failure: &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED}}}},
		{What: &messages.JobEvent_FunctionFailed{FunctionFailed: &messages.FunctionFailed{GivenUp: true}}},
		{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: &messages.EpochRecord{
			Epoch: 1, DurationS: 3, Accuracy: proto.Float64(93), ValidationLoss: proto.Float64(0.4), Metrics: map[string]float64{"f1": 0.9},
		}}}},
	}
	for i, e := range events {
		e.Job, e.Seq = &messages.JobRef{Id: id, Incarnation: 1}, uint64(i+1)
	}
	return events
}

func ended(id string, incarnation, seq uint64) *messages.JobEvent {
	e := job(id, incarnation, seq)
	e.What = &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: &messages.JobResult{Phase: messages.Phase_PHASE_SUCCEEDED}}}
	return e
}

func TestTheSeriesOfAJobEndWithIt(t *testing.T) {
	m := metrics.New("v1", metrics.Sources{})
	for range 2 { // the second time is a repeat
		for _, e := range life("a") {
			m.Observe(e)
		}
	}
	want := []string{
		`troupe_job_accuracy{job="a"} 93`, `troupe_job_epoch{job="a"} 1`, `troupe_job_epoch_seconds{job="a"} 3`,
		`troupe_job_loss{job="a"} 0.5`, `troupe_job_lost_functions_total{job="a"} 1`, `troupe_job_merge_bytes_total{job="a"} 100`,
		`troupe_job_merge_seconds_total{job="a"} 0.25`, `troupe_job_metric{job="a",name="f1"} 0.9`, `troupe_job_parallelism{job="a"} 2`,
		`troupe_job_queue_seconds{job="a"} 1.5`, `troupe_job_rejections_total{job="a"} 1`, `troupe_job_retries_total{job="a"} 1`,
		`troupe_job_round_seconds{job="a"} 2`, `troupe_job_rounds_total{job="a"} 1`, `troupe_job_samples_total{job="a"} 64`,
		`troupe_job_validation_loss{job="a"} 0.4`,
	}
	require.Equal(t, want, scrape(t, m, "troupe_job_"))

	m.Observe(ended("a", 1, 7))
	m.Observe(ended("a", 1, 7))
	for _, e := range life("a") { // late
		m.Observe(e)
	}
	require.Empty(t, scrape(t, m, "troupe_job_"))
	require.Equal(t, []string{`troupe_jobs_ended_total{state="succeeded"} 1`}, scrape(t, m, "troupe_jobs_ended"))
	require.Equal(t, []string{`troupe_rounds_total 1`}, scrape(t, m, "troupe_rounds"))

	resumed := job("a", 2, 1)
	resumed.What = &messages.JobEvent_EpochStarted{EpochStarted: &messages.EpochStarted{Epoch: 2, Parallelism: 3}}
	m.Observe(resumed)
	require.Equal(t, []string{`troupe_job_epoch{job="a"} 2`, `troupe_job_parallelism{job="a"} 3`}, scrape(t, m, "troupe_job_"))
}

func TestLostEventsEndTheSeriesOfAllJobs(t *testing.T) {
	m := metrics.New("v1", metrics.Sources{})
	for _, id := range []string{"a", "b"} {
		for _, e := range life(id) {
			m.Observe(e)
		}
	}
	m.Reset()
	require.Empty(t, scrape(t, m, "troupe_job_"))
}

func TestAJobThatLogsManyNamesHasFewSeries(t *testing.T) {
	m := metrics.New("v1", metrics.Sources{})
	e := job("a", 1, 1)
	record := &messages.EpochRecord{Metrics: map[string]float64{}}
	for i := range 1000 {
		record.Metrics[strings.Repeat("x", i+1)] = 1
	}
	e.What = &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: record}}
	m.Observe(e)
	require.Len(t, scrape(t, m, "troupe_job_metric"), 32)
}

func TestManyJobsLeaveNothing(t *testing.T) {
	m := metrics.New("v1", metrics.Sources{})
	for i := range 3000 {
		id := strings.Repeat("j", i%50+1) + string(rune('a'+i%26)) + time.Duration(i).String()
		for _, e := range life(id) {
			m.Observe(e)
		}
		m.Observe(ended(id, 1, 7))
	}
	require.Empty(t, scrape(t, m, "troupe_job_"))
	require.Equal(t, []string{`troupe_jobs_ended_total{state="succeeded"} 3000`}, scrape(t, m, "troupe_jobs_ended"))
}

func TestSourcesAreAskedAtEachScrape(t *testing.T) {
	depth := 3
	m := metrics.New("v1", metrics.Sources{
		Slots:       func() (int, int) { return 4, 1 },
		Mailboxes:   func() map[string]int { return map[string]int{"scheduler": depth} },
		DeadLetters: func() uint64 { return 7 },
		Queue:       func() int { return 2 },
	})
	require.Equal(t, []string{`troupe_mailbox_depth{actor="scheduler"} 3`}, scrape(t, m, "troupe_mailbox"))
	depth = 0
	require.Equal(t, []string{`troupe_mailbox_depth{actor="scheduler"} 0`}, scrape(t, m, "troupe_mailbox"))
	require.Equal(t, []string{`troupe_slots 4`, `troupe_slots_busy 1`}, scrape(t, m, "troupe_slots"))
	require.Equal(t, []string{`troupe_jobs_waiting 2`}, scrape(t, m, "troupe_jobs_waiting"))
	require.Equal(t, []string{`troupe_dead_letters_total 7`}, scrape(t, m, "troupe_dead"))
	require.Equal(t, []string{`troupe_build_info{version="v1"} 1`}, scrape(t, m, "troupe_build"))
}

func TestRequestsAreCountedByRoute(t *testing.T) {
	m := metrics.New("v1", metrics.Sources{})
	m.Request("/tasks/{id}", "GET", 200, 2*time.Millisecond)
	m.Request("", "other", 404, time.Millisecond)
	require.Equal(t, []string{
		`troupe_http_requests_total{code="200",method="GET",route="/tasks/{id}"} 1`,
		`troupe_http_requests_total{code="404",method="other",route=""} 1`,
	}, scrape(t, m, "troupe_http_requests"))
}
