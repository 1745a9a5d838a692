package train_test

import (
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
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
	require.Len(t, s.warnings(), 1, "one a minute")
	require.Equal(t, "training is done, but the result cannot be stored: the disk is full; it is tried again until the store takes it, "+
		"so mend that, or stop the job: resumed later it would go on where it is now", s.warnings()[0])
	s.gone()
}

// One that stays away is waited for, however long that takes: the result is not
// lost for it, and a person who does not want to wait may stop the job.
func TestAResultWaitsForItsStore(t *testing.T) {
	full := fault.New("store.put", fault.Unavailable, "the disk is full")
	t.Run("until it is back", func(t *testing.T) {
		s := newStage(t, 1, taskOf(1, nil))
		s.models.fails = repeated(full, 200)
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
		s.models.fails = repeated(full, 1000)
		s.finish(s.begin()...)
		require.Nil(t, s.stop().GetFailure())
		s.sim.Drain()
		require.Equal(t, messages.Phase_PHASE_STOPPED, s.finished.GetResult().GetPhase())
		require.EqualValues(t, 1, s.vault.last().GetModelVersion(), "it is taken up after its last merge")
		const text = "enough; training was done, but the result could not be stored: the disk is full; a resume stores it"
		require.Equal(t, text, s.finished.GetResult().GetFailure().GetText())
		require.Equal(t, text, s.vault.last().GetResult().GetFailure().GetText())
		s.gone()
	})
	t.Run("until it is stopped, and the store takes nothing at all", func(t *testing.T) {
		s := newStage(t, 1, taskOf(2, nil))
		s.finish(s.begin()...)
		require.EqualValues(t, 1, s.vault.last().GetModelVersion())
		s.vault.fails, s.models.fails = repeated(away, 1000), repeated(away, 1000)
		s.finish(s.next()...)
		s.sim.Advance(90 * time.Second)
		const back = "would go on after epoch 1, round 1"
		require.Len(t, s.warnings(), 2, "%q", s.warnings())
		for _, text := range s.warnings() {
			require.Contains(t, text, "training is done, but the result cannot be stored: the store is away; it is tried again")
			require.Contains(t, text, back)
		}
		require.Nil(t, s.stop().GetFailure())
		s.sim.Advance(20 * time.Second)
		require.Equal(t, messages.Phase_PHASE_STOPPED, s.finished.GetResult().GetPhase())
		require.Equal(t, "enough; training was done, but the result could not be stored: the store is away; a resume goes on after epoch 1, round 1",
			s.finished.GetResult().GetFailure().GetText())
	})
}

// One that says nothing for minutes is said, too.
func TestAResultThatTakesLongIsSaid(t *testing.T) {
	s := newStage(t, 1, taskOf(1, nil))
	round := s.begin()
	s.vault.saved = func(*messages.JobState) { // of the last merge: what follows is the result
		s.sim.Work = func(*actor.PID) time.Duration { s.sim.Work = nil; return 90 * time.Second }
	}
	s.finish(round...)
	s.sim.Advance(80 * time.Second)
	require.Nil(t, s.finished)
	require.Len(t, s.warnings(), 1)
	require.Contains(t, s.warnings()[0], "training is done, but the store has been taking the result for 1m0s; it is tried again")
	s.sim.Advance(20 * time.Second)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.finished.GetResult().GetPhase())
}

// Only what the store has, model and end, has SUCCEEDED: a store that goes away
// between the two is waited for as well, and both are stored once it is back.
func TestTheEndIsStoredWithTheResult(t *testing.T) {
	s := newStage(t, 1, taskOf(1, nil))
	round := s.begin()
	s.vault.ends = repeated(away, 100)
	s.finish(round...)
	s.sim.Advance(5 * time.Minute)
	require.Nil(t, s.finished)
	require.Greater(t, s.models.calls, 10, "the model may be gone with it")
	require.InDelta(t, 5, len(s.warnings()), 1)
	s.vault.ends = nil
	s.sim.Advance(6 * time.Second)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.finished.GetResult().GetPhase())
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.vault.last().GetResult().GetPhase())
	require.Equal(t, "mem:///models/j.2.safetensors", s.vault.last().GetResult().GetModel())
	s.gone()
}

// A stop that comes as the store takes the result after all is too late.
func TestAStopCrossesTheResult(t *testing.T) {
	s := newStage(t, 1, taskOf(1, nil))
	round := s.begin()
	s.models.fails = repeated(away, 1)
	s.finish(round...)
	s.sim.Work = func(*actor.PID) time.Duration { return 3 * time.Second }
	s.sim.Advance(time.Second) // the next try runs
	require.Equal(t, 1, s.models.calls)
	require.Nil(t, s.stop().GetFailure())
	s.sim.Advance(4 * time.Second)
	require.Equal(t, 2, s.models.calls)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.finished.GetResult().GetPhase())
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.vault.last().GetResult().GetPhase())
	s.sim.Work = nil
	s.sim.Advance(4 * time.Second)
	s.gone()
}

// A sign of life that is taken again shows that the store is back: what waits for
// it does not wait for its back-off.
func TestAStoreThatIsBackIsUsedAtOnce(t *testing.T) {
	t.Run("for the state", func(t *testing.T) {
		s := newStage(t, 1, taskOf(1000, nil))
		s.finish(s.begin()...)
		s.vault.beats, s.vault.fails = away, repeated(away, 1000)
		for range 40 { // a back-off of 15 s by then
			s.finish(s.next()...)
			s.sim.Advance(time.Second)
		}
		s.vault.beats, s.vault.fails = nil, nil
		s.sim.Advance(3 * time.Second)
		require.EqualValues(t, len(s.merges()), s.vault.last().GetModelVersion())
	})
	t.Run("for the result", func(t *testing.T) {
		s := newStage(t, 1, taskOf(1, nil))
		round := s.begin()
		s.vault.beats, s.vault.ends = away, repeated(away, 1000)
		s.finish(round...)
		s.sim.Advance(time.Minute)
		s.vault.beats, s.vault.ends = nil, nil
		s.sim.Advance(3 * time.Second)
		require.NotNil(t, s.finished)
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.finished.GetResult().GetPhase())
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
