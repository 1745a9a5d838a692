package train_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// full answers the first round with no room left for the merge.
func full(s *stage) {
	round := s.begin()
	answers := []*messages.Invoked{s.answer(round[0], 1), s.answer(round[1], 2)}
	s.space.SetLimit(1)
	for _, a := range answers {
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: a})
	}
	s.sim.Drain()
}

// A merge that finds no room is tried again, with a warning that says what to
// do; once there is room the job goes on as if nothing had been.
func TestAMergeWithoutRoomIsTriedAgain(t *testing.T) {
	for _, how := range []string{"reset", "average"} {
		t.Run(how, func(t *testing.T) {
			s := newStage(t, 2, taskOf(4, keeping(how)))
			full(s)
			require.Empty(t, s.merges())
			require.Len(t, s.warnings(), 1)
			require.Contains(t, s.warnings()[0], "merging failed and is tried again")
			require.Contains(t, s.warnings()[0], "raise the limit")
			s.sim.Advance(time.Second)
			require.Len(t, s.warnings(), 3)
			require.Empty(t, s.space.List("j/2/merged/"))
			s.space.SetLimit(0)
			s.sim.Advance(2 * time.Second)
			require.Len(t, s.merges(), 1)
			require.InDelta(t, 1.5, s.value(s.next()[0].GetPlan().GetModel()), 1e-6)
		})
	}
}

// Room for the model but not for the optimizer state is no room.
func TestAMergeIsWholeOrNone(t *testing.T) {
	s := newStage(t, 2, taskOf(4, keeping("average")))
	round := s.begin()
	answers := []*messages.Invoked{s.answer(round[0], 1), s.answer(round[1], 2)}
	used := s.space.Usage().Bytes
	s.space.SetLimit(used + used/5 + 1) // five tensors are there: the first model and two answers of two
	for _, a := range answers {
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: a})
	}
	s.sim.Drain()
	require.Empty(t, s.merges())
	require.Empty(t, s.space.List("j/2/merged/"))
	s.space.SetLimit(0)
	s.sim.Advance(time.Second)
	require.Len(t, s.merges(), 1)
	require.Len(t, s.space.List("j/2/merged/"), 2)
}

// A merge that never finds room ends the job with the reason.
func TestAMergeWithoutRoomEndsTheJob(t *testing.T) {
	s := newStage(t, 2, taskOf(4, nil))
	full(s)
	s.sim.Advance(time.Minute)
	require.Equal(t, messages.Phase_PHASE_FAILED, s.finished.GetResult().GetPhase())
	require.Equal(t, messages.FailureKind_FAILURE_KIND_UNAVAILABLE, s.finished.GetResult().GetFailure().GetKind())
	require.Contains(t, s.finished.GetResult().GetFailure().GetText(), "raise the limit")
	require.Len(t, s.warnings(), 5)
	s.gone()
}

// A store that is away for a while costs nothing but time.
func TestASaveThatFailsIsTriedAgain(t *testing.T) {
	s := newStage(t, 1, taskOf(1, nil))
	away := fault.New("store.put", fault.Unavailable, "the disk is full")
	s.models.fails = []error{away, errors.New("unplugged"), away}
	s.finish(s.begin()...)
	s.sim.Advance(10 * time.Second)
	result := s.finished.GetResult()
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase())
	require.Equal(t, "mem:///models/j.2.safetensors", result.GetModel())
	require.Equal(t, 4, s.models.calls)
	require.Len(t, s.warnings(), 2, "one a minute about a store that is away")
	require.Contains(t, s.warnings()[0], "storing the result failed and is tried again: the disk is full")
	s.gone()
}

// One that stays away is waited for, however long that takes: the result is not
// lost for it, and a person who does not want to wait may stop the job.
func TestAResultWaitsForItsStore(t *testing.T) {
	away := func(tries int) (fails []error) {
		for range tries {
			fails = append(fails, fault.New("store.put", fault.Unavailable, "the disk is full"))
		}
		return fails
	}
	t.Run("until it is back", func(t *testing.T) {
		s := newStage(t, 1, taskOf(1, nil))
		s.models.fails = away(200)
		s.finish(s.begin()...)
		s.sim.Advance(10 * time.Minute)
		require.Nil(t, s.finished)
		require.InDelta(t, 10, len(s.warnings()), 1, "one a minute")
		s.sim.Advance(10 * time.Minute)
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.finished.GetResult().GetPhase())
		s.gone()
	})
	t.Run("until it is stopped", func(t *testing.T) {
		s := newStage(t, 1, taskOf(1, nil))
		s.models.fails = away(1000)
		s.finish(s.begin()...)
		require.Nil(t, s.stop().GetFailure())
		s.sim.Drain()
		require.Equal(t, messages.Phase_PHASE_STOPPED, s.finished.GetResult().GetPhase())
		require.EqualValues(t, 1, s.vault.last().GetModelVersion(), "it is taken up after its last merge")
		s.gone()
	})
}

// One that refuses ends the job with the reason.
func TestASaveThatCannotWorkEndsTheJob(t *testing.T) {
	s := newStage(t, 1, taskOf(1, nil))
	s.models.fails = []error{fault.New("model.save", fault.Conflict, "another one is there")}
	s.finish(s.begin()...)
	s.sim.Drain()
	require.Equal(t, "another one is there", s.finished.GetResult().GetFailure().GetText())
	require.Equal(t, 1, s.models.calls)
	s.gone()
}
