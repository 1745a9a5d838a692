package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// Reported: all functions report 0 samples, and the mean of nothing becomes the
// model. Here assignments have one sample each and functions report one less:
// no such answer is merged, the model stays that of the round before, and the
// job ends with what is wrong.
func TestARoundOfZeroSamplesIsNotMerged(t *testing.T) {
	s := newSceneOf(t, 1, func(c *sim.Config) {
		c.Slots, c.Data = 4, data(t, 8, 0)
		c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
			if inv.Task == functions.Train && inv.Round == 1 {
				b.Garbage = fake.FewSamples
			}
			return b
		}
	})
	task := small(func(o *messages.TrainOptions) { o.K = 1 })
	task.BatchSize = 1
	id := s.submit(t, task)
	s.Sim.RunUntil(s.allEnded, time.Minute)
	w := s.watches[id]
	require.Equal(t, messages.Phase_PHASE_FAILED, w.Result.GetPhase())
	require.Contains(t, w.Result.GetFailure().GetText(), "epoch 1, round 2, function 1): the function reports 0 samples, its assignment has 1")
	require.NotZero(t, w.Result.GetRejectedResults())
	merges := 0
	for _, e := range w.Events {
		if m := e.GetRoundMerged(); m != nil {
			merges++
			require.EqualValues(t, 1, m.GetRound(), "only the first round was merged")
		}
	}
	require.Equal(t, 1, merges)
	_, saved := s.Models.Get(id)
	require.False(t, saved)
	s.leaves(t)
}

// When one of them does so once, it is tried again, and no sample is missing.
func TestAnAnswerOfTooFewSamplesIsTriedAgain(t *testing.T) {
	s := newSceneOf(t, 1, func(c *sim.Config) {
		c.Slots, c.Data = 4, data(t, 80, 0)
		c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
			if inv.Task == functions.Train && inv.Index == 2 && inv.Attempt == 0 {
				b.Garbage = fake.FewSamples
			}
			return b
		}
	})
	id := s.submit(t, small(func(*messages.TrainOptions) {}))
	s.Sim.RunUntil(s.allEnded, time.Minute)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.watches[id].Result.GetPhase())
	require.Equal(t, s.watches[id].Result.GetRetries(), s.watches[id].Result.GetRejectedResults())
	s.verify(t, id)
}
