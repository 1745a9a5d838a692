package train

import (
	"math"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// history is what the job has done so far.
type history struct {
	started time.Time
	epochs  []*messages.EpochRecord // complete
	record  *messages.EpochRecord   // of the running epoch; nil before the first
	worker  time.Duration           // run time of all attempts
	queued  time.Duration           // that the job waited for a slot
	begun   *time.Duration          // of the job's time, until its first epoch; nil: it has not begun

	epochStarted time.Time
	trained      time.Time                        // when the epoch's last merge so far was done
	lossSum      float64                          // of the epoch, over samples
	unmeasured   uint64                           // samples of the epoch whose functions did not say their loss
	metrics      map[string]*messages.WeightedSum // of the epoch, by name
	initial      messages.EpochRecord             // what happened before the first epoch
}

// round is what one merge was made of.
type round struct {
	samples uint64
	loss    float64 // mean over the samples that have one; NaN: none has
}

func (h *history) start(now time.Time) { h.started = now }

func (h *history) beginEpoch(epoch uint32, now time.Time) {
	if h.begun == nil {
		h.begun = new(now.Sub(h.started))
	}
	h.record = &messages.EpochRecord{Epoch: epoch}
	h.epochStarted, h.lossSum, h.unmeasured, h.metrics = now, 0, 0, map[string]*messages.WeightedSum{}
}

func (h *history) beginRound(n uint32) {
	h.record.Parallelism = n
	h.record.RoundParallelism = append(h.record.RoundParallelism, n)
}

func (h *history) merged(answers []*messages.Invoked, now time.Time) round {
	var r round
	var sum float64
	var unmeasured uint64
	for _, a := range answers {
		r.samples += a.GetSamples()
		if a.GetNoLoss() {
			unmeasured += a.GetSamples()
		} else {
			sum += a.GetLoss() * float64(a.GetSamples())
		}
		h.logged(a)
	}
	r.loss = sum / float64(r.samples-unmeasured)
	h.lossSum += sum
	h.unmeasured += unmeasured
	h.record.Samples += r.samples
	h.record.Rounds++
	h.record.TrainLoss = h.lossSum / float64(h.record.GetSamples()-h.unmeasured)
	h.trained = now
	return r
}

// measured adds up the blocks of a validation, in their order.
func (h *history) measured(blocks []*messages.Invoked, samples uint64) {
	var loss, correct float64
	counted := len(blocks) > 0
	for _, b := range blocks {
		h.logged(b)
		loss += b.GetLoss()
		correct += b.GetCorrect()
		counted = counted && b.GetHasAccuracy()
	}
	h.notValidated()
	loss /= float64(samples)
	h.record.ValidationLoss = &loss
	if accuracy := 100 * correct / float64(samples); counted && !math.IsNaN(accuracy) {
		h.record.Accuracy = &accuracy
	}
}

// logged adds what a function logged by name.
func (h *history) logged(answer *messages.Invoked) {
	for name, m := range answer.GetMetrics() {
		total := h.metrics[name]
		if total == nil {
			total = &messages.WeightedSum{}
			h.metrics[name] = total
		}
		total.Sum += m.GetSum()
		total.Weight += m.GetWeight()
	}
}

func (h *history) notValidated() { h.record.ValidationLoss, h.record.Accuracy = nil, nil }

func (h *history) endEpoch(now time.Time) *messages.EpochRecord {
	h.record.DurationS = now.Sub(h.epochStarted).Seconds()
	h.record.TrainingS = h.trained.Sub(h.epochStarted).Seconds()
	for name, m := range h.metrics {
		if h.record.Metrics == nil {
			h.record.Metrics = map[string]float64{}
		}
		h.record.Metrics[name] = m.GetSum() / m.GetWeight()
	}
	ended := h.record
	h.epochs = append(h.epochs, ended)
	h.record = nil
	return ended
}

func (h *history) ran(d time.Duration) { h.worker += d }
func (h *history) retried()            { h.current().Retries++ }
func (h *history) lost()               { h.current().LostFunctions++ }
func (h *history) rejected()           { h.current().RejectedResults++ }
func (h *history) backedUp()           { h.current().Backups++ }

// undropped takes back what dropped noted of a round that is not over after all.
func (h *history) undropped(samples uint64) { h.record.DroppedSamples -= samples }

func (h *history) dropped(n uint64) { h.record.DroppedSamples += n }

// skipped counts a round that had nothing to merge.
func (h *history) skipped(now time.Time) {
	h.record.Rounds++
	h.trained = now
}

// freshOptimizer names a function once an epoch.
func (h *history) freshOptimizer(function uint32) {
	if !slices.Contains(h.record.FreshOptimizers, function) {
		h.record.FreshOptimizers = append(h.record.FreshOptimizers, function)
	}
}

// current is the record that failures are counted in.
func (h *history) current() *messages.EpochRecord {
	if h.record == nil {
		return &h.initial
	}
	return h.record
}

// result sums the history up.
func (h *history) result(phase messages.Phase, failure *messages.Failure, merge string, now time.Time) *messages.JobResult {
	r := &messages.JobResult{
		Phase: phase, Failure: failure, Epochs: h.epochs, Merge: merge,
		WallS: now.Sub(h.started).Seconds(), WorkerS: h.worker.Seconds(),
		QueuedS: new(h.queued.Seconds()), StartingS: new(now.Sub(h.started).Seconds()),
	}
	if h.begun != nil {
		r.StartingS = new(h.begun.Seconds())
	}
	records := append([]*messages.EpochRecord{&h.initial}, h.epochs...)
	if h.record != nil {
		records = append(records, h.record)
	}
	for _, e := range records {
		r.Retries += e.GetRetries()
		r.LostFunctions += e.GetLostFunctions()
		r.RejectedResults += e.GetRejectedResults()
		if e.ValidationLoss != nil {
			r.ValidationLoss, r.Accuracy = e.ValidationLoss, e.Accuracy
		}
	}
	return r
}
