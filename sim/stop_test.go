package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// A job that is stopped while a node with states of its functions is lost ends
// soon, whether that is known yet or not, with all that there is; what it was
// trained is kept, people hear of the node and of nothing else, and a resume goes
// on at once, with fresh states for those functions.
func TestAJobStopsBesideALostNode(t *testing.T) {
	for _, found := range []time.Duration{100 * time.Millisecond, 2 * time.Second, time.Hour} {
		t.Run(found.String(), func(t *testing.T) {
			s := steady(t, 4)
			n := s.join(t, "n1", 2)
			s.Sim.Advance(3 * time.Second)
			task := rounds(6)
			task.Options.K, task.Options.CheckpointEveryMs = 10, uint64(time.Hour/time.Millisecond)
			id := s.submit(t, task)
			watch := s.watches[id]
			s.Sim.RunUntil(func() bool { return len(merges(watch)) == 2 }, time.Minute)
			s.Sim.Advance(200 * time.Millisecond)
			s.KillNode(n, found)
			s.Sim.At(500*time.Millisecond, func() {
				s.Sim.Send(s.Tree.Scheduler, &messages.StopJob{JobId: id, Reason: "enough"})
			})
			s.Sim.RunUntil(watch.Ended, 4*time.Second)
			require.True(t, watch.Ended())
			require.Equal(t, messages.Phase_PHASE_STOPPED, watch.Result.GetPhase(), "%v", watch.Result.GetFailure())
			for _, e := range watch.Events {
				if text := e.GetWarned().GetText(); text != "" {
					require.Contains(t, text, `node "n1"`)
					require.NotContains(t, text, "store")
				}
			}
			stored, err := s.Stored(id)
			require.NoError(t, err)
			require.EqualValues(t, 2, stored.State.GetModelVersion())
			require.Len(t, stored.State.GetOptimizers(), 4)

			began := s.Sim.Now()
			var again *sim.Watch
			s.Sim.RunUntil(func() bool { again, err = s.Resume(id); return err == nil }, 2*time.Second)
			resumed := s.Sim.Now()
			s.watches[id] = again
			s.Sim.RunUntil(func() bool { return s.Runner.Running > 0 }, time.Minute)
			require.LessOrEqual(t, s.Sim.Now().Sub(began), 2*time.Second, "it goes on at once")
			s.Sim.RunUntil(s.allEnded, time.Hour)
			for _, e := range again.Events {
				if started := e.GetStarted(); started != nil {
					require.EqualValues(t, e.GetTimeMs()-resumed.UnixMilli(), started.GetQueuedMs(), "it says how long it has waited")
				}
			}
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, again.Result.GetPhase(), "%v", again.Result.GetFailure())
			s.proves(t, id, task, again.Result)
			require.Len(t, again.Result.GetEpochs()[0].GetFreshOptimizers(), 2)
		})
	}
}
