package paramserver_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// away is a store that cannot be reached.
func away(store.Sighting) (store.Sighting, error) {
	return store.Sighting{}, fault.New("job.claim", fault.Unavailable, "the store is away")
}

// dying begins j1, which dies at once until it has FAILED, unless it is stopped
// between two incarnations; from then on the store is as refuse says.
func (s *stage) dying(stop bool, refuse func(store.Sighting) (store.Sighting, error)) {
	s.act = bornToPanic(99, errBug)
	s.start("j1", 1, 1)
	if stop {
		s.sim.Drain()
		s.refuse = refuse
		s.sim.Send(s.server, &messages.StopJob{JobId: "j1", Reason: "enough"})
		s.sim.Drain()
		return
	}
	for len(s.born) < 4 {
		s.sim.Advance(time.Second)
	}
	s.refuse = refuse
}

// How a job ends that nobody runs is in the store before anybody hears of it,
// under the number that everybody hears.
func TestAnEndThatIsDecidedHereIsStoredFirst(t *testing.T) {
	for name, stop := range map[string]bool{"STOPPED": true, "FAILED": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1)
			s.sim.Work = func(*actor.PID) time.Duration { return 3 * time.Second }
			s.scheduler.Answer = func(msg any) any {
				if m, is := msg.(*messages.JobFinished); is {
					require.Len(t, s.sealed, 1)
					require.Same(t, s.sealed[0].Result, m.GetResult())
					require.Equal(t, s.sealed[0].Incarnation, m.GetJob().GetIncarnation())
				}
				return nil
			}
			s.dying(stop, nil)
			s.sim.Advance(10 * time.Second)
			require.Len(t, s.sealed, 1)
			require.Equal(t, name, testkit.Expect[*messages.JobFinished](s.scheduler).GetResult().GetPhase().String()[len("PHASE_"):])
			event := testkit.Expect[*messages.JobEvent](s.journal)
			require.Equal(t, s.sealed[0].Incarnation, event.GetJob().GetIncarnation())
			require.Equal(t, []uint64{uint64(len(s.born))}, s.discarded)
		})
	}
}

// A store that is away does not keep people from the end for long: they hear that
// it has not got there, and it gets there once the store is back.
func TestAnEndThatTheStoreDoesNotTakeIsToldAndTriedAgain(t *testing.T) {
	for name, refuse := range map[string]func(store.Sighting) (store.Sighting, error){
		"away": away,
		"an owner that gives no sign of life": func(store.Sighting) (store.Sighting, error) {
			return another(1), fault.New("job.claim", fault.Conflict, "the store is away")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1)
			s.dying(true, refuse)
			began := s.sim.Now()
			s.sim.Advance(14 * time.Second)
			testkit.ExpectNone[*messages.JobFinished](s.scheduler)
			require.Nil(t, testkit.Ask[*messages.StopJobReply](s.sim, s.server, &messages.StopJob{JobId: "j1"}).GetFailure(), "a repeat")
			require.Equal(t, messages.Phase_PHASE_RUNNING, s.start("j1", 1, 2).GetPhase())
			end := testkit.Expect[*messages.JobFinished](s.scheduler)
			require.LessOrEqual(t, s.sim.Now().Sub(began), 17*time.Second)
			require.Equal(t, messages.Phase_PHASE_STOPPED, end.GetResult().GetPhase())
			require.Equal(t, "enough; the store has not taken this end: the store is away; it is tried again", end.GetResult().GetFailure().GetText())
			require.EqualValues(t, 2, end.GetJob().GetIncarnation())
			s.sim.Send(s.server, &messages.JobFinishedReply{Job: end.GetJob()})
			s.sim.Advance(time.Minute)
			require.Empty(t, s.sealed)
			s.refuse = nil
			s.sim.Advance(3 * time.Second)
			require.Len(t, s.sealed, 1)
			require.EqualValues(t, 2, s.sealed[0].Incarnation)
			require.Equal(t, "enough", s.sealed[0].Result.GetFailure().GetText())
			tries := s.ends
			s.sim.Advance(time.Minute)
			require.Equal(t, tries, s.ends)
		})
	}
}

// A store that does not even answer is waited for no longer.
func TestAnEndIsToldThoughTheStoreHangs(t *testing.T) {
	s := newStage(t, 1)
	s.dying(true, func(store.Sighting) (store.Sighting, error) {
		s.sim.Work = func(*actor.PID) time.Duration { return time.Hour }
		return away(store.Sighting{})
	})
	s.sim.Work = func(*actor.PID) time.Duration { return time.Hour }
	s.sim.Advance(20 * time.Second)
	require.Equal(t, messages.Phase_PHASE_STOPPED, testkit.Expect[*messages.JobFinished](s.scheduler).GetResult().GetPhase())
}

// A job that begins anew is not ended by what its last life had still to store.
func TestAnEndIsNotStoredOnceTheJobBeginsAnew(t *testing.T) {
	s := newStage(t, 1)
	s.dying(true, away)
	end := testkit.Expect[*messages.JobFinished](s.scheduler)
	s.sim.Send(s.server, &messages.JobFinishedReply{Job: end.GetJob()})
	s.sim.Drain()
	s.act, s.refuse = nil, nil
	again := startJob("j1", 1, 5)
	again.Key, again.AfterIncarnation = "b", end.GetJob().GetIncarnation()
	s.sim.Send(s.server, again)
	s.sim.Advance(time.Minute)
	require.Len(t, s.born, 2)
	require.Empty(t, s.sealed)
}

// What the store has of an end counts, whatever was decided meanwhile; and a job
// that somebody else runs has not ended.
func TestAnEndIsNotDecidedAgainstTheStore(t *testing.T) {
	t.Run("it has ended", func(t *testing.T) {
		s := newStage(t, 1)
		s.act = bornToPanic(99, errBug)
		s.start("j1", 1, 1)
		s.sim.Drain()
		s.ended = &messages.JobResult{Phase: messages.Phase_PHASE_SUCCEEDED}
		s.sim.Send(s.server, &messages.StopJob{JobId: "j1", Reason: "enough"})
		require.Same(t, s.ended, testkit.Expect[*messages.JobFinished](s.scheduler).GetResult())
	})
	t.Run("it is another's", func(t *testing.T) {
		s := newStage(t, 1)
		s.dying(true, func(store.Sighting) (store.Sighting, error) {
			return another(int(s.sim.Now().Sub(testkit.Epoch) / (3 * time.Second))), fault.New("job.claim", fault.Conflict, "it runs on n9")
		})
		end := testkit.Expect[*messages.JobFinished](s.scheduler)
		require.Equal(t, messages.Phase_PHASE_TAKEN_OVER, end.GetResult().GetPhase())
		require.Contains(t, end.GetResult().GetFailure().GetText(), "was taken over by pid 4 (node n9)")
		require.NotNil(t, testkit.Expect[*messages.JobEvent](s.journal).GetTakenOver())
		tries := s.ends
		s.sim.Advance(time.Minute)
		require.Equal(t, tries, s.ends)
	})
}
