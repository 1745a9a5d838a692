package main

import (
	"fmt"

	"github.com/troupe-ml/troupe/messages"
)

// seen is how far a person has seen each job come: its last event of a round or
// an epoch, by job.
type seen map[string]place

// place is that of an event.
type place struct{ incarnation, seq uint64 }

func (p place) isAfter(q place) bool {
	return p.incarnation > q.incarnation || p.incarnation == q.incarnation && p.seq > q.seq
}

// add takes the next event, and says of one with which a job goes on where that
// is, and whether something that was seen is done again; else "".
func (s seen) add(e *messages.JobEvent) string {
	id, at := e.GetJob().GetId(), place{e.GetJob().GetIncarnation(), e.GetSeq()}
	started := e.GetStarted()
	switch {
	case e.GetRoundMerged() != nil || e.GetEpochFinished() != nil:
		s[id] = at
		return ""
	case started == nil || at.incarnation <= 1:
		return ""
	}
	text := fmt.Sprintf("goes on in epoch %d, after round %d", started.GetEpoch(), started.GetRound())
	if started.GetEpoch() == 0 {
		text = "begins again: there is no merge to go on from"
	}
	if s[id].isAfter(place{started.GetAfterIncarnation(), started.GetAfterSeq()}) {
		delete(s, id)
		text += "; what was seen of it after that is trained again"
	}
	return text
}
