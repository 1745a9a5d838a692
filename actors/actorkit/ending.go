package actorkit

import "github.com/troupe-ml/troupe/messages"

// EndEvent is the event that tells of a result: that the job has ended, or that
// it goes on elsewhere.
func EndEvent(r *messages.JobResult) *messages.JobEvent {
	if r.GetPhase() == messages.Phase_PHASE_TAKEN_OVER {
		return &messages.JobEvent{What: &messages.JobEvent_TakenOver{TakenOver: &messages.JobTakenOver{Failure: r.GetFailure()}}}
	}
	return &messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: r}}}
}

// IsEnd reports whether an event is the last of a job on this node, unless the
// job is resumed here.
func IsEnd(e *messages.JobEvent) bool { return e.GetEnded() != nil || e.GetTakenOver() != nil }
