package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/troupe-ml/troupe/messages"
)

// Sources are asked at each scrape. One that is nil has no series. They are
// called from several goroutines, and must not block.
type Sources struct {
	// Slots says how many slots of this node are usable, and how many of them
	// are at work.
	Slots func() (usable, busy int)
	// Mailboxes says how many messages wait, by actor.
	Mailboxes func() map[string]int
	// DeadLetters says how many messages have found nobody so far.
	DeadLetters func() uint64
	// Queue says how many jobs wait for a slot.
	Queue func() int
}

// Metrics counts. It is safe for concurrent use.
type Metrics struct {
	handler  http.Handler
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	jobs     *jobs
}

// New returns metrics that are fed by Observe and Request, and by sources.
func New(version string, sources Sources) *Metrics {
	registry := prometheus.NewRegistry()
	m := &Metrics{
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_http_requests_total", Help: "Requests that were answered. code 0: cut off before an answer.",
		}, []string{"route", "method", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "troupe_http_request_seconds", Help: "How long answers took, streams included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		}, []string{"route"}),
		jobs: newJobs(),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "troupe_build_info", Help: "1, with the version as label."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	registry.MustRegister(m.requests, m.took, build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(m.jobs.collectors()...)
	registry.MustRegister(sourceCollectors(sources)...)
	return m
}

// ServeHTTP shows all series.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.handler.ServeHTTP(w, r) }

// Request counts a request; route is its pattern, empty for one that has none.
func (m *Metrics) Request(route, method string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.took.WithLabelValues(route).Observe(took.Seconds())
}

// Observe counts what happened to a job. Events of a job must come in order; one
// that comes twice is counted once.
func (m *Metrics) Observe(e *messages.JobEvent) { m.jobs.observe(e) }

// Reset forgets all running jobs: events were lost, among them perhaps the last
// ones of some. Those that go on come back with their next event.
func (m *Metrics) Reset() { m.jobs.reset() }
