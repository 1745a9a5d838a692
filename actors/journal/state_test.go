package journal_test

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/journal"
	"github.com/troupe-ml/troupe/messages"
)

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
			s := journal.NewState()
			for i, step := range steps {
				answered, shown, skipped := s.Add(event("j", step.incarnation, step.seq))
				require.Equal(t, step.answered, answered, "step %d", i)
				require.Equal(t, step.shown, places(shown), "step %d", i)
				require.Zero(t, skipped)
				require.NoError(t, s.Check())
			}
		})
	}
}

func TestWatchersGetWhatIsBeyondTheirCursor(t *testing.T) {
	s := journal.NewState()
	for _, e := range []*messages.JobEvent{event("j", 0, 1), event("j", 1, 1), event("j", 1, 2), event("j", 2, 1)} {
		s.Add(e)
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
			got := s.After(&messages.WatchJob{JobId: "j", AfterIncarnation: test.incarnation, AfterSeq: test.seq})
			require.Equal(t, test.want, places(got))
		})
	}
	require.Empty(t, s.After(&messages.WatchJob{JobId: "unheard of"}))
}

func TestAGapThatTheSenderCannotFillIsGivenUp(t *testing.T) {
	s := journal.NewState()
	for range journal.Patience {
		answered, shown, skipped := s.Add(event("j", 1, 57))
		require.Zero(t, answered)
		require.Empty(t, shown)
		require.Zero(t, skipped)
		s.Add(event("j", 1, 58)) // later ones do not count
	}
	answered, shown, skipped := s.Add(event("j", 1, 57))
	require.EqualValues(t, 58, answered)
	require.Len(t, shown, 58)
	require.Equal(t, []string{"1/1", "1/2"}, places(shown[:2]), "empty ones")
	require.Equal(t, []string{"1/57", "1/58"}, places(shown[56:]))
	require.Equal(t, places(shown), places(s.After(&messages.WatchJob{JobId: "j"})), "again for who asks")
	require.EqualValues(t, 56, skipped)
	require.NoError(t, s.Check())
}

func TestOfTooManyEventsTheOldestRoundsGoFirst(t *testing.T) {
	s := journal.NewState()
	s.Add(event("j", 1, 1))
	s.Add(merged("j", 1, 2))
	s.Add(event("j", 1, 3))
	for seq := uint64(4); seq <= journal.EventsKept+1; seq++ {
		s.Add(merged("j", 1, seq))
	}
	events := s.After(&messages.WatchJob{JobId: "j"})
	require.Len(t, events, journal.EventsKept+1)
	require.NotNil(t, events[0].GetWarned())
	require.Equal(t, "1/2", places(events)[1])
	require.Nil(t, events[1].GetWhat(), "round 2 has gone, and its place is empty")
	require.NotNil(t, events[2].GetWarned())
	require.NotNil(t, events[3].GetRoundMerged())
	require.NoError(t, s.Check())
}

func TestOfTooManyEventsWithoutRoundsTheOldestGoes(t *testing.T) {
	s := journal.NewState()
	for seq := uint64(1); seq <= journal.EventsKept+2; seq++ {
		s.Add(event("j", 1, seq))
	}
	events := s.After(&messages.WatchJob{JobId: "j"})
	require.Len(t, events, journal.EventsKept+2)
	require.Nil(t, events[0].GetWhat())
	require.Nil(t, events[1].GetWhat())
	require.NotNil(t, events[2].GetWhat())
	require.Equal(t, journal.EventsKept, s.Kept("j"))
	require.Equal(t, []string{"1/2", "1/3"}, places(s.After(&messages.WatchJob{JobId: "j", AfterIncarnation: 1, AfterSeq: 1})[:2]))
	require.NoError(t, s.Check())
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	s := journal.NewState()
	for seq := uint64(2); seq <= journal.EventsHeld+10; seq++ {
		s.Add(event("j", 1, seq))
	}
	answered, _, _ := s.Add(event("j", 1, 1))
	require.EqualValues(t, journal.EventsHeld+1, answered, "the sender repeats the rest")
	require.NoError(t, s.Check())
}

func TestOfEndedJobsTheLastAreKept(t *testing.T) {
	s := journal.NewState()
	s.Watch("job 0", actor.NewPID("here", "watcher"))
	for i := range journal.EndedKept + 2 {
		id := fmt.Sprintf("job %d", i)
		s.Add(event(id, 1, 1))
		s.Add(ended(id, 1, 2))
		s.Add(ended(id, 1, 2))
	}
	require.NoError(t, s.Check())
	require.Empty(t, s.After(&messages.WatchJob{JobId: "job 0"}))
	require.Empty(t, s.After(&messages.WatchJob{JobId: "job 1"}))
	require.Len(t, s.After(&messages.WatchJob{JobId: "job 2"}), 2)
	all, _ := s.Jobs()
	require.Equal(t, journal.EndedKept+1, all, "job 0 is still watched")

	s.Unwatch(actor.NewPID("here", "watcher"))
	all, _ = s.Jobs()
	require.Equal(t, journal.EndedKept, all)
	require.NoError(t, s.Check())
}

func TestAResumedJobCountsAsRunning(t *testing.T) {
	s := journal.NewState()
	s.Add(ended("j", 1, 1))
	s.Add(event("j", 2, 1))
	require.NoError(t, s.Check())
	_, over := s.Jobs()
	require.Zero(t, over)
	require.Equal(t, []string{"1/1", "2/1"}, places(s.After(&messages.WatchJob{JobId: "j"})))
	s.Add(ended("j", 2, 2))
	_, over = s.Jobs()
	require.Equal(t, 1, over)
	require.NoError(t, s.Check())
}

func requireNothing(t *testing.T, s journal.State) {
	t.Helper()
	all, _ := s.Jobs()
	require.Zero(t, all)
}

func TestAWatcherOfNothingLeavesNothingBehind(t *testing.T) {
	s := journal.NewState()
	watcher := actor.NewPID("here", "watcher")
	require.True(t, s.Watch("unheard of", watcher))
	require.False(t, s.Watch("unheard of", actor.NewPID("here", "watcher")), "the same one")
	s.Unwatch(watcher)
	requireNothing(t, s)
	s.Add(event("j", 1, 0)) // seq counts from 1: not an event
	requireNothing(t, s)
}
