package train_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/messages"
)

func (s *stage) stop() *messages.StopJobReply {
	return testkit.Ask[*messages.StopJobReply](s.sim, s.job, &messages.StopJob{JobId: "j", Reason: "enough"})
}

// A job can be stopped whatever it is doing; it ends at once, with its history,
// and nothing of it is left.
func TestAJobCanBeStoppedInEveryPhase(t *testing.T) {
	phases := map[string]func(s *stage){
		"before the first model": func(*stage) {},
		"in a round":             func(s *stage) { s.begin() },
		"in a round, some done":  func(s *stage) { s.finish(s.begin()[0]) },
		"while a retry waits": func(s *stage) {
			round := s.begin()
			s.fail(round[0], crash())
			s.fail(s.next()[0], crash())
		},
		"while a merge has no room": func(s *stage) {
			round := s.begin()
			answers := []*messages.Invoked{s.answer(round[0], 1), s.answer(round[1], 2)}
			s.space.SetLimit(1)
			for _, a := range answers {
				s.sim.Send(s.job, &messages.FunctionFinished{Answer: a})
			}
			s.sim.Drain()
		},
		"in a validation": func(s *stage) {
			s.finish(s.begin()...)
			s.finish(s.next()[0])
		},
		"while it asks for its N": func(s *stage) {
			s.finish(s.begin()...)
			s.finish(s.next()...)
		},
		"in the second epoch": func(s *stage) {
			s.finish(s.begin()...)
			s.finish(s.next()...)
			s.sim.Advance(2 * time.Second)
			s.next()
		},
	}
	for name, reach := range phases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 2, taskOf(100, func(task *messages.TrainTask) {
				validating(task)
				retries := uint32(3)
				task.Options.StaticParallelism, task.Options.Retries = false, &retries
			}))
			reach(s)
			require.Nil(t, s.finished)
			require.Nil(t, s.stop().GetFailure())
			s.sim.Drain()
			result := s.finished.GetResult()
			require.Equal(t, messages.Phase_PHASE_STOPPED, result.GetPhase())
			require.Equal(t, "enough", result.GetFailure().GetText())
			require.Equal(t, result, s.events[len(s.events)-1].GetEnded().GetResult())
			s.sim.Advance(10 * time.Second)
			require.Nil(t, s.crash)
			s.gone()
		})
	}
}

// gone fails the test if anything of the job is left but what hosts hold.
func (s *stage) gone() {
	require.False(s.t, s.sim.Alive(s.job))
	for _, pid := range s.invokers {
		require.False(s.t, s.sim.Alive(pid))
	}
	require.Empty(s.t, s.space.List("j/2/merged/"))
}

// Whatever the order of a stop, answers and merges: nothing merged is left.
func TestAStopLeavesNoMerge(t *testing.T) {
	for seed := range testkit.Seeds(t, 50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStageOf(t, seed, sizeOf(1, 2, 2), taskOf(100, keeping("average")))
			round := s.begin()
			s.finish(round...)
			round = s.next()
			for _, inv := range round {
				s.sim.Send(s.job, &messages.FunctionFinished{Answer: s.answer(inv, 1)})
			}
			stopper := s.sim.Probe("stopper") // its message has an order of its own
			stopper.Send(s.job, &messages.StopJob{JobId: "j", Reason: "enough"})
			s.sim.Drain()
			require.Equal(t, messages.Phase_PHASE_STOPPED, s.finished.GetResult().GetPhase())
			s.gone()
		})
	}
}

// A job that crashes leaves the state that its hosts were last told of whole,
// whatever was under way.
func TestACrashLeavesWhatTheNextIncarnationNeeds(t *testing.T) {
	for seed := range testkit.Seeds(t, 50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStageOf(t, seed, sizeOf(1, 2, 2), taskOf(100, keeping("average")))
			round := s.begin()
			s.finish(round...)
			round = s.next()
			for _, inv := range round {
				s.sim.Send(s.job, &messages.FunctionFinished{Answer: s.answer(inv, 1)})
			}
			s.sim.At(0, func() { s.sim.CrashAfter(s.job, errors.New("a bug")) })
			s.sim.Send(s.job, &messages.JobEventReply{})
			s.sim.Run(time.Minute)
			require.NotNil(t, s.crash)
			require.False(t, s.sim.Alive(s.job))
			var kept *messages.JobState
			for _, m := range s.host.Messages() {
				if m, ok := m.(*messages.KeepState); ok {
					kept = m.GetState()
				}
			}
			require.NotZero(t, kept.GetModelVersion())
			var needed []string
			for _, place := range train.Tensors(kept) {
				s.value(place.Ref)
				needed = append(needed, place.Ref.GetKey())
			}
			require.Subset(t, s.space.List("j/2/merged/"), needed)
			require.False(t, s.released, "hosts keep it for the next incarnation")
		})
	}
}

// A job that dies, or is told to stop by its parent, takes its invokers with it:
// the goodbye of one is no reason to try its assignment again.
func TestADyingJobStartsNothing(t *testing.T) {
	for name, end := range map[string]func(s *stage){
		"of a bug": func(s *stage) {
			s.sim.CrashAfter(s.job, errors.New("a bug"))
			s.sim.Send(s.job, &messages.JobEventReply{})
		},
		"with its node":  func(s *stage) { s.sim.Stop(s.job) },
		"and an invoker": func(s *stage) { s.sim.Stop(s.job); s.fail(s.told[len(s.told)-1], crash()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 2, taskOf(100, func(task *messages.TrainTask) {
				retries := uint32(3)
				task.Options.Retries = &retries
			}))
			require.Len(t, s.begin(), 2)
			end(s)
			s.sim.Run(time.Minute) // no timer goes on
			require.Empty(t, s.next())
			s.gone()
		})
	}
}

// A job that has ended is not stopped any more.
func TestAJobThatHasEndedIsNotStopped(t *testing.T) {
	s := newStage(t, 1, taskOf(1, nil))
	round := s.begin()
	s.host.Answer = nil // so that the job stays after its end
	s.finish(round...)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
	require.Equal(t, messages.FailureKind_FAILURE_KIND_CONFLICT, s.stop().GetFailure().GetKind())
	s.sim.Advance(30 * time.Second) // the host is gone for good
	s.sim.Advance(time.Second)
	s.gone()
}

// A stop that is repeated is accepted again.
func TestAStopMayBeRepeated(t *testing.T) {
	s := newStage(t, 1, taskOf(1, nil))
	s.begin()
	s.host.Answer = nil
	require.Nil(t, s.stop().GetFailure())
	require.Nil(t, s.stop().GetFailure())
	s.sim.Drain()
	ended := 0
	for _, e := range s.events {
		if e.GetEnded() != nil {
			ended++
		}
	}
	require.Equal(t, 1, ended)
}
