package main

import (
	"fmt"

	"github.com/troupe-ml/troupe/messages"
)

// seen is how far a person has seen each job come: its last event of a round or
// an epoch, by job.
type seen map[string]place

// place is that of an event.
type place struct {
	incarnation, seq uint64
	epoch            uint32 // that had finished by then
}

func (p place) isAfter(q place) bool {
	return p.incarnation > q.incarnation || p.incarnation == q.incarnation && p.seq > q.seq
}

// add takes the next event, and says of one with which a job goes on where that
// is, and whether something that was seen is done again, and of an end whether
// something that was seen does not count; else "".
func (s seen) add(e *messages.JobEvent) string {
	id, at := e.GetJob().GetId(), place{incarnation: e.GetJob().GetIncarnation(), seq: e.GetSeq()}
	started := e.GetStarted()
	switch {
	case e.GetRoundMerged() != nil || e.GetEpochFinished() != nil:
		at.epoch = max(s[id].epoch, e.GetEpochFinished().GetRecord().GetEpoch())
		s[id] = at
		return ""
	case e.GetEnded() != nil:
		return s.end(id, at, e.GetEnded().GetResult())
	case started == nil || at.incarnation <= 1:
		return ""
	}
	text := fmt.Sprintf("goes on in epoch %d, after round %d", started.GetEpoch(), started.GetRound())
	if started.GetEpoch() == 0 {
		text = "begins again: there is no merge to go on from"
	}
	if s[id].isAfter(place{incarnation: started.GetAfterIncarnation(), seq: started.GetAfterSeq()}) {
		delete(s, id)
		text += "; what was seen of it after that is trained again"
	}
	return text
}

// end takes an end. One that no process told which ran the job, as of a job that
// was to stop when its process died, comes with an incarnation of its own: what was
// seen of the one before, after its last state, does not count.
func (s seen) end(id string, at place, r *messages.JobResult) string {
	last, was := s[id]
	delete(s, id)
	if !was || last.incarnation == at.incarnation || last.epoch <= uint32(len(r.GetEpochs())) {
		return ""
	}
	return fmt.Sprintf("has ended with what was stored of it: what was seen of it after epoch %d does not count", len(r.GetEpochs()))
}
