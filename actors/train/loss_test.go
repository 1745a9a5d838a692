package train_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// A function that does not say its loss counts in everything but the loss: that
// is the mean over those who did, and none where nobody did.
func TestALossThatNobodySaidIsNoLoss(t *testing.T) {
	s := newStage(t, 2, taskOf(100, func(task *messages.TrainTask) { task.Epochs, task.Options.K = 2, -1 }))
	round := s.begin()
	for _, losses := range [][]float64{{0.5, math.NaN()}, {math.NaN(), math.NaN()}} {
		require.Len(t, round, 2)
		for i, inv := range round {
			answer := s.answer(inv, 1)
			answer.Loss, answer.NoLoss = losses[i], math.IsNaN(losses[i])
			if answer.GetNoLoss() {
				answer.Loss = 0
			}
			s.sim.Send(s.job, &messages.FunctionFinished{Answer: answer})
		}
		round = s.next()
	}
	s.finish(round...)
	merges, epochs := s.merges(), s.end().GetEpochs()
	require.Len(t, merges, 2)
	require.InDelta(t, 0.5, merges[0].GetLoss(), 1e-12)
	require.True(t, math.IsNaN(merges[1].GetLoss()))
	require.InDelta(t, 0.5, epochs[0].GetTrainLoss(), 1e-12)
	require.EqualValues(t, 100, epochs[0].GetSamples(), "its samples count")
	require.True(t, math.IsNaN(epochs[1].GetTrainLoss()))
}
