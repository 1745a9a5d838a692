package jobprocess

import (
	"time"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// take takes in an event of the process and returns what is to be passed on: none
// for one that was passed on before, is of an incarnation that is over, or of the
// queue; more than one where some before it are missing. The end is kept.
func (s *state) take(now time.Time, e *messages.JobEvent) []*messages.JobEvent {
	at := place{e.GetJob().GetIncarnation(), e.GetSeq()}
	if s.end != nil || at.incarnation < s.last.incarnation || at.incarnation == s.last.incarnation && at.seq <= s.last.seq {
		return nil
	}
	if at.incarnation > s.last.incarnation {
		s.ref = &messages.JobRef{Id: s.ref.GetId(), Incarnation: at.incarnation}
		s.last = place{incarnation: at.incarnation}
	}
	s.missed = 0
	var out []*messages.JobEvent
	for seq := s.last.seq + 1; seq < at.seq; seq++ {
		out = append(out, &messages.JobEvent{Job: s.ref, Seq: seq})
	}
	s.last = at
	s.learn(now, e)
	if s.end == nil {
		out = append(out, e)
	}
	return out
}

// learn takes in what an event says.
func (s *state) learn(now time.Time, e *messages.JobEvent) {
	switch what := e.GetWhat().(type) {
	case *messages.JobEvent_RoundMerged:
		s.version = what.RoundMerged.GetModelVersion()
	case *messages.JobEvent_EpochFinished:
		s.askForSize(what.EpochFinished.GetRecord())
	case *messages.JobEvent_Ended:
		s.over(now, e, what.Ended.GetResult())
	case *messages.JobEvent_TakenOver:
		s.over(now, e, takenOver(what.TakenOver.GetFailure()))
	}
}

// over takes in how the job ended there.
func (s *state) over(now time.Time, e *messages.JobEvent, result *messages.JobResult) {
	s.end, s.result, s.endedAt, s.stage, s.asks, s.stop = e, result, now, over, nil, nil
}

// refused takes in that the process did not get the job, since another one has it.
func (s *state) refused(now time.Time, err error) {
	result := takenOver(wire.Failure(err))
	e := actorkit.EndEvent(result)
	e.Job, e.Seq, e.TimeMs = s.ref, s.last.seq+1, now.UnixMilli()
	s.over(now, e, result)
}

// takenOver is the result of a job that has not ended, but goes on elsewhere.
func takenOver(why *messages.Failure) *messages.JobResult {
	return &messages.JobResult{Phase: messages.Phase_PHASE_TAKEN_OVER, Failure: why}
}

// askForSize has the Scheduler asked for the N of the next epoch, as a TrainJob
// asks it.
func (s *state) askForSize(epoch *messages.EpochRecord) {
	if s.static() || epoch.GetEpoch() >= s.task.GetEpochs() {
		s.asks = nil
		return
	}
	s.asks = &messages.RequestParallelism{
		Job: s.ref, Epoch: epoch.GetEpoch(), Parallelism: epoch.GetParallelism(), Seconds: epoch.GetTrainingS(), Samples: epoch.GetSamples(),
	}
}

// answered takes in the Scheduler's answer, and reports whether it was awaited.
func (s *state) answered(m *messages.RequestParallelismReply) bool {
	if s.asks == nil || m.GetEpoch() != s.asks.GetEpoch() || m.GetJob().GetIncarnation() != s.asks.GetJob().GetIncarnation() {
		return false
	}
	s.asks = nil
	return true
}
