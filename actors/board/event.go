package board

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

// add brings an event into the view.
func (j *job) add(e *messages.JobEvent) {
	v, at := j.view, time.UnixMilli(e.GetTimeMs())
	j.last = e
	if n := e.GetJob().GetIncarnation(); n > v.GetIncarnation() {
		v.Incarnation = n
	}
	switch what := e.GetWhat().(type) {
	case *messages.JobEvent_Started:
		j.onStarted(what.Started, at)
	case *messages.JobEvent_EpochStarted:
		v.Phase, v.Epoch, v.Round, v.EpochSamples = messages.Phase_PHASE_RUNNING, what.EpochStarted.GetEpoch(), 0, 0
		v.Parallelism = what.EpochStarted.GetParallelism()
		j.runs(at)
	case *messages.JobEvent_RoundMerged:
		m := what.RoundMerged
		v.Phase, v.Epoch, v.Round, v.Parallelism = messages.Phase_PHASE_RUNNING, m.GetEpoch(), m.GetRound(), m.GetParallelism()
		v.EpochSamples, v.Loss = m.GetEpochSamples(), proto.Float64(m.GetLoss())
		j.rate.add(at, m.GetSamples())
	case *messages.JobEvent_FunctionFailed:
		j.onFailed(what.FunctionFailed)
	case *messages.JobEvent_EpochFinished:
		j.onEpoch(what.EpochFinished.GetRecord())
	case *messages.JobEvent_Warned:
		v.Warnings = append(v.Warnings, what.Warned.GetText())
		v.Warnings = v.Warnings[max(0, len(v.Warnings)-warningsKept):]
	case *messages.JobEvent_Ended:
		j.ended = at
		End(v, what.Ended.GetResult())
	}
}

// End shows a job as its result says that it ended. Times that an older version
// did not note are left as they are.
func End(v *messages.JobView, r *messages.JobResult) {
	v.Phase, v.Result, v.WaitingFor, v.Epochs = r.GetPhase(), r, "", r.GetEpochs()
	v.Retries, v.LostFunctions, v.RejectedResults = r.GetRetries(), r.GetLostFunctions(), r.GetRejectedResults()
	if r.Accuracy != nil {
		v.Accuracy = r.Accuracy
	}
	if r.QueuedS != nil && r.StartingS != nil {
		v.QueuedS, v.StartingS = r.QueuedS, r.StartingS
		v.RunningS = proto.Float64(max(0, r.GetWallS()-r.GetStartingS()))
	}
}

func (j *job) onStarted(m *messages.JobStarted, at time.Time) {
	v := j.view
	v.Phase, v.WaitingFor, v.Node = messages.Phase_PHASE_STARTING, "", m.GetNode()
	v.Parallelism, v.Slots, v.Epoch, v.Round = m.GetParallelism(), m.GetSlots(), m.GetEpoch(), m.GetRound()
	if j.started.IsZero() {
		j.started = at
	}
	if m.GetEpoch() > 0 { // it goes on: what came after that is trained again
		v.Phase = messages.Phase_PHASE_RUNNING
		j.forget(m.GetEpoch())
		j.runs(at)
	} else {
		j.forget(1)
	}
	j.rate = rate{}
	j.rate.add(at, 0)
}

// forget drops the records of an epoch and of those after it.
func (j *job) forget(epoch uint32) {
	for n := len(j.view.GetEpochs()); n > 0 && j.view.GetEpochs()[n-1].GetEpoch() >= epoch; n-- {
		j.view.Epochs = j.view.Epochs[:n-1]
	}
}

func (j *job) runs(at time.Time) {
	if j.running.IsZero() {
		j.running = at
		j.rate.add(at, 0)
	}
}

func (j *job) onFailed(m *messages.FunctionFailed) {
	if m.GetGivenUp() {
		j.view.LostFunctions++
	} else {
		j.view.Retries++
	}
	if m.GetFailure().GetKind() == messages.FailureKind_FAILURE_KIND_REJECTED {
		j.view.RejectedResults++
	}
}

func (j *job) onEpoch(record *messages.EpochRecord) {
	v := j.view
	j.forget(record.GetEpoch())
	v.Epochs = append(v.Epochs, record)
	if record.Accuracy != nil {
		v.Accuracy = record.Accuracy
	}
	if record.GetEpoch() == v.GetTask().GetEpochs() {
		v.Phase = messages.Phase_PHASE_SAVING
	}
}

// left is how many samples the job has still to train; below 0: not known.
func (j *job) left() float64 {
	t := j.view.GetTask()
	if t.GetTrainSamples() == 0 || j.view.GetEpoch() == 0 {
		return -1
	}
	done := float64(j.view.GetEpoch()-1)*float64(t.GetTrainSamples()) + float64(j.view.GetEpochSamples())
	return max(0, float64(t.GetEpochs())*float64(t.GetTrainSamples())-done)
}

// rate is how fast a job trains, over its last merges.
type rate struct {
	at      []time.Time // of the last merges, oldest first
	samples []uint64    // that came with each
}

// ratePoints is over how many merges.
const ratePoints = 20

func (r *rate) add(at time.Time, samples uint64) {
	r.at, r.samples = append(r.at, at), append(r.samples, samples)
	if len(r.at) > ratePoints {
		r.at, r.samples = r.at[1:], r.samples[1:]
	}
}

func (r *rate) perSecond() float64 {
	if len(r.at) < 2 {
		return 0
	}
	var sum uint64
	for _, n := range r.samples[1:] {
		sum += n
	}
	took := r.at[len(r.at)-1].Sub(r.at[0]).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(sum) / took
}
