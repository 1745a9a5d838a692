package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// Who has seen more of a job than counts is told that it is trained again.
func TestWhatIsTrainedAgainIsTold(t *testing.T) {
	event := func(incarnation, seq uint64) *messages.JobEvent {
		return &messages.JobEvent{Job: &messages.JobRef{Id: "j", Incarnation: incarnation}, Seq: seq}
	}
	merged := func(incarnation, seq uint64) *messages.JobEvent {
		e := event(incarnation, seq)
		e.What = &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{}}
		return e
	}
	finished := event(1, 7)
	finished.What = &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{}}
	warned := event(1, 9)
	warned.What = &messages.JobEvent_Warned{Warned: &messages.JobWarned{}}
	goesOn := func(incarnation uint64, epoch uint32, after ...uint64) *messages.JobEvent {
		e := event(incarnation, 1)
		started := &messages.JobStarted{Epoch: epoch, Round: 2}
		if len(after) > 0 {
			started.AfterIncarnation, started.AfterSeq = after[0], after[1]
		}
		e.What = &messages.JobEvent_Started{Started: started}
		return e
	}
	epoch := func(incarnation, seq uint64, n uint32) *messages.JobEvent {
		e := event(incarnation, seq)
		e.What = &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: &messages.EpochRecord{Epoch: n}}}
		return e
	}
	ends := func(incarnation uint64, epochs int) *messages.JobEvent {
		e := event(incarnation, 1)
		e.What = &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: &messages.JobResult{Epochs: make([]*messages.EpochRecord, epochs)}}}
		return e
	}
	const again = "; what was seen of it after that is trained again"
	for name, c := range map[string]struct {
		seen []*messages.JobEvent
		next *messages.JobEvent
		says string
	}{
		"its first start":                 {nil, goesOn(1, 0), ""},
		"another event":                   {nil, finished, ""},
		"nothing seen":                    {nil, goesOn(2, 3, 1, 5), "goes on in epoch 3, after round 2"},
		"all that was seen counts":        {[]*messages.JobEvent{merged(1, 5)}, goesOn(2, 3, 1, 5), "goes on in epoch 3, after round 2"},
		"a warning that does not":         {[]*messages.JobEvent{merged(1, 5), warned}, goesOn(2, 3, 1, 5), "goes on in epoch 3, after round 2"},
		"a round that does not":           {[]*messages.JobEvent{merged(1, 6)}, goesOn(2, 3, 1, 5), "goes on in epoch 3, after round 2" + again},
		"an epoch that does not":          {[]*messages.JobEvent{finished}, goesOn(2, 3, 1, 5), "goes on in epoch 3, after round 2" + again},
		"nothing counts":                  {[]*messages.JobEvent{merged(1, 4)}, goesOn(2, 0), "begins again: there is no merge to go on from" + again},
		"a round of a later incarnation":  {[]*messages.JobEvent{merged(2, 1)}, goesOn(3, 3, 1, 5), "goes on in epoch 3, after round 2" + again},
		"a round that was told of before": {[]*messages.JobEvent{merged(1, 6), goesOn(2, 3, 1, 5)}, goesOn(3, 3, 1, 5), "goes on in epoch 3, after round 2"},
		"an end of what was seen":         {[]*messages.JobEvent{epoch(1, 5, 2)}, ends(1, 2), ""},
		"an end by nobody who ran it":     {[]*messages.JobEvent{epoch(1, 5, 2)}, ends(2, 2), ""},
		"an end of less than was seen": {
			[]*messages.JobEvent{epoch(1, 5, 2), merged(1, 6)},
			ends(2, 1),
			"has ended with what was stored of it: what was seen of it after epoch 1 does not count",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := seen{}
			for _, e := range c.seen {
				s.add(e)
			}
			require.Equal(t, c.says, s.add(c.next))
		})
	}
}
