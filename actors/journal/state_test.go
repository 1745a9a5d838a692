package journal

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// These tests drive the decisions directly; those through the actor are in
// journal_test.go.

func event(id string, incarnation, seq uint64) *messages.JobEvent {
	return &messages.JobEvent{
		Job: &messages.JobRef{Id: id, Incarnation: incarnation}, Seq: seq,
		What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{}},
	}
}

func merged(id string, incarnation, seq uint64) *messages.JobEvent {
	e := event(id, incarnation, seq)
	e.What = &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{}}
	return e
}

func ended(id string, incarnation, seq uint64) *messages.JobEvent {
	e := event(id, incarnation, seq)
	e.What = &messages.JobEvent_Ended{Ended: &messages.JobEnded{}}
	return e
}

func places(events []*messages.JobEvent) []string {
	out := []string{}
	for _, e := range events {
		out = append(out, fmt.Sprintf("%d/%d", e.GetJob().GetIncarnation(), e.GetSeq()))
	}
	return out
}

func TestEventsAreShownInOrderOnce(t *testing.T) {
	type step struct {
		incarnation, seq uint64
		answered         uint64
		shown            []string
	}
	tests := map[string][]step{
		"in order": {
			{1, 1, 1, []string{"1/1"}},
			{1, 2, 2, []string{"1/2"}},
		},
		"a repeat is answered and not shown": {
			{1, 1, 1, []string{"1/1"}},
			{1, 1, 1, []string{}},
		},
		"what comes ahead waits for the gap to be filled": {
			{1, 3, 0, []string{}},
			{1, 2, 0, []string{}},
			{1, 1, 3, []string{"1/1", "1/2", "1/3"}},
		},
		"a lower incarnation is answered, so that it stops, and not shown": {
			{2, 1, 1, []string{"2/1"}},
			{1, 7, 7, []string{}},
			{2, 2, 2, []string{"2/2"}},
		},
		"a higher incarnation takes over, and what the lower one had ahead is not shown": {
			{0, 1, 1, []string{"0/1"}},
			{1, 2, 0, []string{}},
			{2, 1, 1, []string{"2/1"}},
			{1, 1, 1, []string{}},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			s := newState()
			for i, step := range steps {
				answered, shown, skipped := s.add(event("j", step.incarnation, step.seq))
				require.Equal(t, step.answered, answered, "step %d", i)
				require.Equal(t, step.shown, places(shown), "step %d", i)
				require.Zero(t, skipped)
				require.NoError(t, s.check())
			}
		})
	}
}

func TestWatchersGetWhatIsBeyondTheirCursor(t *testing.T) {
	s := newState()
	for _, e := range []*messages.JobEvent{event("j", 0, 1), event("j", 1, 1), event("j", 1, 2), event("j", 2, 1)} {
		s.add(e)
	}
	tests := map[string]struct {
		incarnation, seq uint64
		want             []string
	}{
		"from the beginning":           {0, 0, []string{"0/1", "1/1", "1/2", "2/1"}},
		"within an incarnation":        {1, 1, []string{"1/2", "2/1"}},
		"at the end of an incarnation": {1, 2, []string{"2/1"}},
		"beyond all":                   {2, 1, []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.after(&messages.WatchJob{JobId: "j", AfterIncarnation: test.incarnation, AfterSeq: test.seq})
			require.Equal(t, test.want, places(got))
		})
	}
	require.Empty(t, s.after(&messages.WatchJob{JobId: "unheard of"}))
}

func TestAGapThatTheSenderCannotFillIsGivenUp(t *testing.T) {
	s := newState()
	for range patience {
		answered, shown, skipped := s.add(event("j", 1, 57))
		require.Zero(t, answered)
		require.Empty(t, shown)
		require.Zero(t, skipped)
		s.add(event("j", 1, 58)) // later ones do not count
	}
	answered, shown, skipped := s.add(event("j", 1, 57))
	require.EqualValues(t, 58, answered)
	require.Len(t, shown, 58)
	require.Equal(t, []string{"1/1", "1/2"}, places(shown[:2]), "empty ones")
	require.Equal(t, []string{"1/57", "1/58"}, places(shown[56:]))
	require.Equal(t, places(shown), places(s.after(&messages.WatchJob{JobId: "j"})), "again for who asks")
	require.EqualValues(t, 56, skipped)
	require.NoError(t, s.check())
}

func TestOfTooManyEventsTheOldestRoundsGoFirst(t *testing.T) {
	s := newState()
	s.add(event("j", 1, 1))
	s.add(merged("j", 1, 2))
	s.add(event("j", 1, 3))
	for seq := uint64(4); seq <= eventsKept+1; seq++ {
		s.add(merged("j", 1, seq))
	}
	events := s.after(&messages.WatchJob{JobId: "j"})
	require.Len(t, events, eventsKept+1)
	require.NotNil(t, events[0].GetWarned())
	require.Equal(t, "1/2", places(events)[1])
	require.Nil(t, events[1].GetWhat(), "round 2 has gone, and its place is empty")
	require.NotNil(t, events[2].GetWarned())
	require.NotNil(t, events[3].GetRoundMerged())
	require.NoError(t, s.check())
}

func TestOfTooManyEventsWithoutRoundsTheOldestGoes(t *testing.T) {
	s := newState()
	for seq := uint64(1); seq <= eventsKept+2; seq++ {
		s.add(event("j", 1, seq))
	}
	events := s.after(&messages.WatchJob{JobId: "j"})
	require.Len(t, events, eventsKept+2)
	require.Nil(t, events[0].GetWhat())
	require.Nil(t, events[1].GetWhat())
	require.NotNil(t, events[2].GetWhat())
	require.Len(t, s.jobs["j"].events, eventsKept)
	require.Equal(t, []string{"1/2", "1/3"}, places(s.after(&messages.WatchJob{JobId: "j", AfterIncarnation: 1, AfterSeq: 1})[:2]))
	require.NoError(t, s.check())
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	s := newState()
	for seq := uint64(2); seq <= eventsHeld+10; seq++ {
		s.add(event("j", 1, seq))
	}
	answered, _, _ := s.add(event("j", 1, 1))
	require.EqualValues(t, eventsHeld+1, answered, "the sender repeats the rest")
	require.NoError(t, s.check())
}

func TestOfEndedJobsTheLastAreKept(t *testing.T) {
	s := newState()
	s.watch("job 0", actor.NewPID("here", "watcher"))
	for i := range endedKept + 2 {
		id := fmt.Sprintf("job %d", i)
		s.add(event(id, 1, 1))
		s.add(ended(id, 1, 2))
		s.add(ended(id, 1, 2))
	}
	require.NoError(t, s.check())
	require.Empty(t, s.after(&messages.WatchJob{JobId: "job 0"}))
	require.Empty(t, s.after(&messages.WatchJob{JobId: "job 1"}))
	require.Len(t, s.after(&messages.WatchJob{JobId: "job 2"}), 2)
	require.Len(t, s.jobs, endedKept+1, "job 0 is still watched")

	s.unwatch(actor.NewPID("here", "watcher"))
	require.Len(t, s.jobs, endedKept)
	require.NoError(t, s.check())
}

func TestAResumedJobCountsAsRunning(t *testing.T) {
	s := newState()
	s.add(ended("j", 1, 1))
	s.add(event("j", 2, 1))
	require.NoError(t, s.check())
	require.Empty(t, s.ended)
	require.Equal(t, []string{"1/1", "2/1"}, places(s.after(&messages.WatchJob{JobId: "j"})))
	s.add(ended("j", 2, 2))
	require.Equal(t, []string{"j"}, s.ended)
	require.NoError(t, s.check())
}

func TestAWatcherOfNothingLeavesNothingBehind(t *testing.T) {
	s := newState()
	watcher := actor.NewPID("here", "watcher")
	require.True(t, s.watch("unheard of", watcher))
	require.False(t, s.watch("unheard of", actor.NewPID("here", "watcher")), "the same one")
	s.unwatch(watcher)
	require.Empty(t, s.jobs)
	s.add(event("j", 1, 0)) // seq counts from 1: not an event
	require.Empty(t, s.jobs)
}
