package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

// validated plays a job to its end and returns after which epoch and round it
// validated.
func validated(t *testing.T, samples uint64, epochs uint32, every float64) (at [][2]uint32, s *stage) {
	s = newStage(t, 1, taskOf(samples, func(task *messages.TrainTask) {
		task.Epochs, task.TestSamples, task.Options.ValidateEvery = epochs, 3, every
	}))
	for told := s.begin(); len(told) > 0; told = s.next() {
		for _, inv := range told {
			if a := inv.GetAttempt(); a.GetTask() == messages.Task_TASK_VALIDATE {
				at = append(at, [2]uint32{a.GetEpoch(), a.GetRound()})
			}
		}
		s.finish(told...)
	}
	s.end()
	return at, s
}

// Rounds of one sample: the epoch of four samples has four rounds.
func TestValidationIsDueSoOften(t *testing.T) {
	for name, c := range map[string]struct {
		epochs uint32
		every  float64
		want   [][2]uint32
	}{
		"each epoch":              {3, 1, [][2]uint32{{1, 4}, {2, 4}, {3, 4}}},
		"every other, and at end": {5, 2, [][2]uint32{{2, 4}, {4, 4}, {5, 4}}},
		"twice an epoch":          {2, 0.5, [][2]uint32{{1, 2}, {1, 4}, {2, 2}, {2, 4}}},
		"thirds":                  {1, 1.0 / 3, [][2]uint32{{1, 2}, {1, 3}, {1, 4}}},
		"one and a half":          {3, 1.5, [][2]uint32{{2, 2}, {3, 4}}},
		"more often than rounds":  {1, 0.01, [][2]uint32{{1, 1}, {1, 2}, {1, 3}, {1, 4}}},
		"only at the end":         {3, -1, [][2]uint32{{3, 4}}},
		"later than the end":      {2, 7, [][2]uint32{{2, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			at, s := validated(t, 4, c.epochs, c.every)
			require.Equal(t, c.want, at)
			measured := map[uint32]bool{}
			for _, place := range c.want {
				measured[place[0]] = true
			}
			for _, e := range s.finished.GetResult().GetEpochs() {
				require.Equal(t, measured[e.GetEpoch()], e.ValidationLoss != nil, "epoch %d", e.GetEpoch())
				require.Equal(t, measured[e.GetEpoch()], e.Accuracy != nil, "epoch %d", e.GetEpoch())
			}
			require.InDelta(t, 0.5, s.finished.GetResult().GetValidationLoss(), 0)
			require.InDelta(t, 100, s.finished.GetResult().GetAccuracy(), 0)
		})
	}
}

func validating(task *messages.TrainTask) {
	task.Epochs, task.TestSamples, task.BatchSize = 2, 1100, 100
	task.Options.ValidateEvery, task.Options.K = 1, -1
}

// Blocks run beside each other, on the model that was merged, and end before
// the next epoch starts; sums are by sample.
func TestAValidationRunsInFixedBlocks(t *testing.T) {
	for _, n := range []uint32{1, 2, 7} {
		s := newStage(t, n, taskOf(100, validating))
		s.finish(s.begin()...)
		var blocks [][2]uint64
		for len(blocks) < 2 {
			for _, inv := range s.next() {
				require.Equal(t, messages.Task_TASK_VALIDATE, inv.GetAttempt().GetTask())
				require.Equal(t, s.merges()[0].GetModelVersion(), inv.GetPlan().GetModelVersion())
				require.False(t, inv.GetPlan().GetShuffle())
				blocks = append(blocks, spans(inv)...)
				s.finish(inv)
			}
		}
		require.Equal(t, [][2]uint64{{0, 600}, {600, 1100}}, blocks, "whatever N is")
		for _, inv := range s.next() {
			require.Equal(t, []uint32{2, 1}, []uint32{inv.GetAttempt().GetEpoch(), inv.GetAttempt().GetRound()})
		}
	}
}

// A block that is given up makes that epoch's validation null, with one
// warning; the job goes on, and a later validation counts.
func TestAGivenUpBlockIsNoValidation(t *testing.T) {
	s := newStage(t, 2, taskOf(100, validating))
	s.finish(s.begin()...)
	blocks := s.next()
	s.fail(blocks[1], crash())
	require.Empty(t, s.next(), "the other block ends first")
	s.finish(blocks[0])
	require.Equal(t, []string{"epoch 1 was not validated: the worker was killed"}, s.warnings())
	result := s.end()
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase())
	require.Nil(t, result.GetEpochs()[0].ValidationLoss)
	require.Nil(t, result.GetEpochs()[0].Accuracy)
	require.InDelta(t, 0.5, result.GetEpochs()[1].GetValidationLoss(), 1e-12)
	require.InDelta(t, 100, result.GetAccuracy(), 0)
	require.Len(t, s.warnings(), 1)
}

// A block that fails is retried like an assignment.
func TestAFailedBlockIsTriedAgain(t *testing.T) {
	s := newStage(t, 2, taskOf(100, func(task *messages.TrainTask) {
		validating(task)
		task.Options.Retries = proto.Uint32(1)
	}))
	s.finish(s.begin()...)
	blocks := s.next()
	s.fail(blocks[0], crash())
	again := s.next()
	require.Equal(t, []uint32{0}, functions(again))
	s.finish(again[0], blocks[1])
	result := s.end()
	require.NotNil(t, result.GetEpochs()[0].ValidationLoss)
	require.Empty(t, s.warnings())
	require.EqualValues(t, 1, result.GetEpochs()[0].GetRetries())
}

// Without a test set nothing is validated; a function that knows no accuracy
// has none in the history.
func TestWhatIsNotMeasuredIsNull(t *testing.T) {
	s := newStage(t, 1, taskOf(2, func(task *messages.TrainTask) { task.Options.ValidateEvery = 1 }))
	s.finish(s.begin()...)
	result := s.end()
	require.Nil(t, result.ValidationLoss)

	s = newStage(t, 1, taskOf(1, func(task *messages.TrainTask) { task.TestSamples = 4 }))
	s.finish(s.begin()...)
	block := s.next()
	answer := s.answer(block[0], 0)
	answer.HasAccuracy, answer.Correct = false, 0
	s.sim.Send(s.job, &messages.FunctionFinished{Answer: answer})
	result = s.end()
	require.NotNil(t, result.ValidationLoss)
	require.Nil(t, result.Accuracy)
	require.Nil(t, result.GetEpochs()[0].Accuracy)
}
