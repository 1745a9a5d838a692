package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-ml/troupe/messages"
)

const (
	maxOwn  = 32   // names that the functions of a job log
	maxLast = 1024 // jobs that have ended, of which late events are known
)

// jobs has the series that come from events.
type jobs struct {
	loss, validationLoss, accuracy, parallelism, epoch, epochSeconds, queueSeconds, roundSeconds, own *prometheus.GaugeVec
	rounds, samples, retries, lost, rejected, mergeSeconds, mergeBytes                                *prometheus.CounterVec

	ended         *prometheus.CounterVec
	allRounds     prometheus.Counter
	allRetries    prometheus.Counter
	allLost       prometheus.Counter
	allRejected   prometheus.Counter
	allMergeBytes prometheus.Counter
	merge         prometheus.Histogram
	queue         prometheus.Histogram

	mu     sync.Mutex // guards the rest, and that series of a job that has ended do not come back
	seen   map[string]*place
	last   map[string]uint64 // incarnation with which a job has ended, of the latest maxLast
	latest []string          // those jobs, oldest first
}

// place is how far the events of a job have been counted.
type place struct {
	incarnation, seq uint64
	own              map[string]bool // names that its functions log
}

func newJobs() *jobs {
	gauge := func(name, help string, more ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "troupe_job_" + name, Help: help}, append([]string{"job"}, more...))
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "troupe_job_" + name + "_total", Help: help + ", by this process's count."}, []string{"job"})
	}
	total := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "troupe_" + name + "_total", Help: help + ", of all jobs."})
	}
	return &jobs{
		loss:           gauge("loss", "Loss of the latest merge, mean over its samples."),
		validationLoss: gauge("validation_loss", "Loss of the last validation."),
		accuracy:       gauge("accuracy", "Accuracy of the last validation, percent."),
		parallelism:    gauge("parallelism", "Functions N of the latest round."),
		epoch:          gauge("epoch", "Epoch that is being trained, from 1."),
		epochSeconds:   gauge("epoch_seconds", "Duration of the last epoch."),
		queueSeconds:   gauge("queue_seconds", "Time that the job has waited for a slot."),
		roundSeconds:   gauge("round_seconds", "Duration of the latest round, its merge included."),
		own:            gauge("metric", "What functions log by a name, mean over the last epoch.", "name"),
		rounds:         counter("rounds", "Rounds merged"),
		samples:        counter("samples", "Samples merged"),
		retries:        counter("retries", "Attempts that failed and were tried again"),
		lost:           counter("lost_functions", "Assignments given up"),
		rejected:       counter("rejections", "Answers that no merge took"),
		mergeSeconds:   counter("merge_seconds", "Time spent merging"),
		mergeBytes:     counter("merge_bytes", "Bytes of the answers that were merged"),

		ended:         prometheus.NewCounterVec(prometheus.CounterOpts{Name: "troupe_jobs_ended_total", Help: "Jobs that have ended, by how."}, []string{"state"}),
		allRounds:     total("rounds", "Rounds merged"),
		allRetries:    total("retries", "Attempts that failed and were tried again"),
		allLost:       total("lost_functions", "Assignments given up"),
		allRejected:   total("rejections", "Answers that no merge took"),
		allMergeBytes: total("merge_bytes", "Bytes of the answers that were merged"),
		merge: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "troupe_merge_seconds", Help: "How long merges took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
		queue: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "troupe_queue_seconds", Help: "How long jobs waited for a slot.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 12),
		}),
		seen: map[string]*place{}, last: map[string]uint64{},
	}
}

func (j *jobs) collectors() []prometheus.Collector {
	all := []prometheus.Collector{j.ended, j.allRounds, j.allRetries, j.allLost, j.allRejected, j.allMergeBytes, j.merge, j.queue}
	for _, g := range j.gauges() {
		all = append(all, g)
	}
	for _, c := range j.counters() {
		all = append(all, c)
	}
	return all
}

func (j *jobs) gauges() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{j.loss, j.validationLoss, j.accuracy, j.parallelism, j.epoch, j.epochSeconds, j.queueSeconds, j.roundSeconds, j.own}
}

func (j *jobs) counters() []*prometheus.CounterVec {
	return []*prometheus.CounterVec{j.rounds, j.samples, j.retries, j.lost, j.rejected, j.mergeSeconds, j.mergeBytes}
}

func (j *jobs) observe(e *messages.JobEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	id := e.GetJob().GetId()
	if last, ended := j.last[id]; ended && e.GetJob().GetIncarnation() <= last {
		return // a late repeat
	}
	at := j.seen[id]
	if at == nil {
		at = &place{own: map[string]bool{}}
		j.seen[id] = at
	}
	if in := e.GetJob().GetIncarnation(); in < at.incarnation || in == at.incarnation && e.GetSeq() <= at.seq {
		return // counted
	}
	at.incarnation, at.seq = e.GetJob().GetIncarnation(), e.GetSeq()
	switch what := e.GetWhat().(type) {
	case *messages.JobEvent_Started:
		j.started(id, what.Started)
	case *messages.JobEvent_EpochStarted:
		j.epoch.WithLabelValues(id).Set(float64(what.EpochStarted.GetEpoch()))
		j.parallelism.WithLabelValues(id).Set(float64(what.EpochStarted.GetParallelism()))
	case *messages.JobEvent_RoundMerged:
		j.merged(id, what.RoundMerged)
	case *messages.JobEvent_FunctionFailed:
		j.failed(id, what.FunctionFailed)
	case *messages.JobEvent_EpochFinished:
		j.finished(id, at, what.EpochFinished.GetRecord())
	case *messages.JobEvent_Ended:
		state := strings.ToLower(strings.TrimPrefix(what.Ended.GetResult().GetPhase().String(), "PHASE_"))
		j.ended.WithLabelValues(state).Inc()
		j.endedLocked(id, at.incarnation)
	case *messages.JobEvent_TakenOver:
		j.endedLocked(id, at.incarnation)
	}
}

func (j *jobs) started(id string, e *messages.JobStarted) {
	queued := float64(e.GetQueuedMs()) / 1000
	j.queueSeconds.WithLabelValues(id).Set(queued)
	j.queue.Observe(queued)
	j.parallelism.WithLabelValues(id).Set(float64(e.GetParallelism()))
	for _, c := range j.counters() {
		c.WithLabelValues(id) // which begins at 0
	}
}

func (j *jobs) merged(id string, e *messages.RoundMerged) {
	j.loss.WithLabelValues(id).Set(e.GetLoss())
	j.epoch.WithLabelValues(id).Set(float64(e.GetEpoch()))
	j.parallelism.WithLabelValues(id).Set(float64(e.GetParallelism()))
	j.roundSeconds.WithLabelValues(id).Set(float64(e.GetDurationUs()) / 1e6)
	j.rounds.WithLabelValues(id).Inc()
	j.samples.WithLabelValues(id).Add(float64(e.GetSamples()))
	j.mergeSeconds.WithLabelValues(id).Add(float64(e.GetMergeUs()) / 1e6)
	j.mergeBytes.WithLabelValues(id).Add(float64(e.GetMergeBytes()))
	j.allRounds.Inc()
	j.allMergeBytes.Add(float64(e.GetMergeBytes()))
	j.merge.Observe(float64(e.GetMergeUs()) / 1e6)
}

func (j *jobs) failed(id string, e *messages.FunctionFailed) {
	if e.GetFailure().GetKind() == messages.FailureKind_FAILURE_KIND_REJECTED {
		j.rejected.WithLabelValues(id).Inc()
		j.allRejected.Inc()
	}
	if e.GetGivenUp() {
		j.lost.WithLabelValues(id).Inc()
		j.allLost.Inc()
		return
	}
	j.retries.WithLabelValues(id).Inc()
	j.allRetries.Inc()
}

func (j *jobs) finished(id string, at *place, r *messages.EpochRecord) {
	j.epochSeconds.WithLabelValues(id).Set(r.GetDurationS())
	if r.ValidationLoss != nil {
		j.validationLoss.WithLabelValues(id).Set(r.GetValidationLoss())
	}
	if r.Accuracy != nil {
		j.accuracy.WithLabelValues(id).Set(r.GetAccuracy())
	}
	for name, x := range r.GetMetrics() {
		if !at.own[name] && len(at.own) >= maxOwn {
			continue
		}
		at.own[name] = true
		j.own.WithLabelValues(id, strings.ToValidUTF8(name, "?")).Set(x)
	}
}

// endedLocked ends the series of a job until it is resumed.
func (j *jobs) endedLocked(id string, incarnation uint64) {
	j.forgetLocked(id)
	if _, again := j.last[id]; !again {
		j.latest = append(j.latest, id)
	}
	j.last[id] = incarnation
	if len(j.latest) > maxLast {
		delete(j.last, j.latest[0])
		j.latest = j.latest[1:]
	}
}

// forgetLocked ends the series of a job.
func (j *jobs) forgetLocked(id string) {
	delete(j.seen, id)
	label := prometheus.Labels{"job": id}
	for _, g := range j.gauges() {
		g.DeletePartialMatch(label)
	}
	for _, c := range j.counters() {
		c.DeletePartialMatch(label)
	}
}

func (j *jobs) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id := range j.seen {
		j.forgetLocked(id)
	}
}
