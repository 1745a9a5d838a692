package train

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

// mark notes the job as it is now, between two steps: the next incarnation can
// go on from here, and gives the bits that this one would have given. What runs
// afterwards is no part of it until the next mark.
func (s *state) mark(now time.Time) {
	s.marked = &messages.JobState{
		Job: s.ref, TimeMs: now.UnixMilli(), Epoch: s.epoch, Round: s.round, Todo: s.todo.message(),
		Parallelism:  s.parallelism(),
		ModelVersion: s.version, Model: s.model, Optimizers: maps.Clone(s.optimizers), SharedOptimizer: s.shared, Momentum: s.momentum,
		Residuals: maps.Clone(s.residuals),
		Best:      s.best, EndedEarly: s.early, Bereft: sorted(s.bereft),
		Validate: s.validate, NextCheck: s.nextCheck, History: s.history.snapshot(now),
		Events: s.emitted, Before: s.before,
		Node: s.node, Nodes: slices.Sorted(maps.Keys(s.nodes)),
	}
}

// restore takes the job up where a mark left it, with tensors that lie here.
// What it may still fail is as at the start.
func (s *state) restore(from *messages.JobState, now time.Time) {
	s.epoch, s.round, s.todo = from.GetEpoch(), from.GetRound(), rangesOf(from.GetTodo())
	s.version, s.model, s.shared = from.GetModelVersion(), from.GetModel(), from.GetSharedOptimizer()
	s.momentum = from.GetMomentum()
	s.best, s.early = from.GetBest(), from.GetEndedEarly()
	s.optimizers, s.residuals = perFunction{}, perFunction{}
	maps.Copy(s.optimizers, from.GetOptimizers())
	maps.Copy(s.residuals, from.GetResiduals())
	for _, function := range from.GetBereft() {
		s.bereft[function] = true
	}
	s.validate, s.nextCheck = from.GetValidate(), from.GetNextCheck()
	waited := s.history.queued
	s.history.restore(from.GetHistory(), now)
	if from.GetJob().GetIncarnation() <= s.after { // else this life's wait is in it
		s.history.queued += waited
	}
	s.before = EventsUpTo(from)
	s.sizing = s.wantsSize()
	for _, node := range from.GetNodes() {
		s.nodes[node] = true
	}
	s.mark(now)
}

// EventsUpTo says which events count for an incarnation that goes on from a
// state: those of earlier ones up to these.
func EventsUpTo(st *messages.JobState) []*messages.EventEnd {
	return append(slices.Clone(st.GetBefore()), &messages.EventEnd{Incarnation: st.GetJob().GetIncarnation(), Seq: st.GetEvents()})
}

// lastOf returns the last event that counts, nil for none. An incarnation that
// died before its first state has none.
func lastOf(before []*messages.EventEnd) *messages.EventEnd {
	for _, end := range slices.Backward(before) {
		if end.GetSeq() > 0 {
			return end
		}
	}
	return nil
}

// ResultOf is the result of a job that ends where a state of it left it.
func ResultOf(st *messages.JobState, phase messages.Phase, why *messages.Failure, merge string, now time.Time) *messages.JobResult {
	var h history
	h.restore(st.GetHistory(), now)
	return h.result(phase, why, merge, now)
}

// isLater reports whether a state is of a later incarnation than another, which
// may be nil, or of a later model of the same one. A lower incarnation may have
// come further and still be none to go on from: others have seen a higher one.
func isLater(st, than *messages.JobState) bool {
	if st == nil || than == nil {
		return st != nil
	}
	a, b := st.GetJob().GetIncarnation(), than.GetJob().GetIncarnation()
	return a > b || a == b && st.GetModelVersion() > than.GetModelVersion()
}

func (h *history) snapshot(now time.Time) *messages.JobHistory {
	out := &messages.JobHistory{
		Epochs: h.epochs[:len(h.epochs):len(h.epochs)], Initial: proto.CloneOf(&h.initial),
		LossSum: h.lossSum, UnmeasuredSamples: h.unmeasured, Metrics: map[string]*messages.WeightedSum{},
		WallS: now.Sub(h.started).Seconds(), WorkerS: h.worker.Seconds(), QueuedS: h.queued.Seconds(),
	}
	if h.begun != nil {
		out.StartingS = new(h.begun.Seconds())
	}
	for name, m := range h.metrics {
		out.Metrics[name] = proto.CloneOf(m)
	}
	if h.record != nil {
		out.Record = proto.CloneOf(h.record)
		out.EpochS = now.Sub(h.epochStarted).Seconds()
		out.TrainingS = max(0, h.trained.Sub(h.epochStarted).Seconds())
	}
	return out
}

// restore has the history go on now.
func (h *history) restore(from *messages.JobHistory, now time.Time) {
	h.started, h.worker, h.epochs = now.Add(-seconds(from.GetWallS())), seconds(from.GetWorkerS()), from.GetEpochs()
	h.queued, h.begun = seconds(from.GetQueuedS()), nil
	if from.StartingS != nil {
		h.begun = new(seconds(from.GetStartingS()))
	}
	h.epochStarted = now.Add(-seconds(from.GetEpochS()))
	h.trained = h.epochStarted.Add(seconds(from.GetTrainingS()))
	h.lossSum, h.unmeasured = from.GetLossSum(), from.GetUnmeasuredSamples()
	h.metrics, h.record = map[string]*messages.WeightedSum{}, nil
	proto.Merge(&h.initial, from.GetInitial())
	for name, m := range from.GetMetrics() {
		h.metrics[name] = proto.CloneOf(m)
	}
	if from.GetRecord() != nil {
		h.record = proto.CloneOf(from.GetRecord())
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
