package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

func reject() *messages.Failure {
	return &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED, Op: "tensor.check", Text: `tensor "w": NaN at index 3`}
}

// dropping is a task that drops bad samples.
func dropping(samples uint64, change func(*messages.TrainTask)) *messages.TrainTask {
	return taskOf(samples, func(task *messages.TrainTask) {
		task.Options.Retries, task.Options.OnBadSamples = proto.Uint32(3), "drop"
		if change != nil {
			change(task)
		}
	})
}

// failTwice lets an assignment fail for good, and returns what came meanwhile.
func (s *stage) failTwice(inv *messages.Invoke, failure *messages.Failure) []*messages.Invoke {
	var other []*messages.Invoke
	s.fail(inv, failure)
	for _, again := range s.next() {
		if again.GetAttempt().GetFunction() == inv.GetAttempt().GetFunction() {
			s.fail(again, failure)
		} else {
			other = append(other, again)
		}
	}
	return other
}

// What fails deterministically is dropped on request, whichever way it fails:
// the round is merged without it, it is counted, and never comes back.
func TestBadSamplesAreDropped(t *testing.T) {
	for name, failure := range map[string]*messages.Failure{"rejected": reject(), "raised": raise("bad image")} {
		t.Run(name, func(t *testing.T) {
			s := newStageOf(t, 1, sizeOf(1, 2, 3), dropping(5, func(task *messages.TrainTask) { task.Epochs = 2 }))
			round := s.begin()
			s.failTwice(round[0], failure)
			s.finish(round[1])
			require.EqualValues(t, 1, s.merges()[0].GetAnswers())
			second := s.next()
			require.Equal(t, [][2]uint64{{2, 4}}, spans(second[0]), "the next round goes on behind them")
			s.finish(second...)
			result := s.end()
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase())
			for i, want := range [][]uint64{{4, 1}, {5, 0}} { // another epoch, another try
				epoch := result.GetEpochs()[i]
				require.Equal(t, want, []uint64{epoch.GetSamples(), epoch.GetDroppedSamples()})
			}
			require.Zero(t, result.GetLostFunctions())
			require.Equal(t, []string{"1 sample is dropped (epoch 1, round 1, function 0, positions [0,1): " + failure.GetText() +
				"); of more, the end of each epoch tells"}, s.warnings())
		})
	}
}

// However much is dropped, people hear of it once at first, and once an epoch.
func TestWhatIsDroppedIsToldOnceAnEpoch(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 2, 3), dropping(10, func(task *messages.TrainTask) { task.Epochs = 3 }))
	round := s.begin()
	for epoch := uint32(1); epoch < 3; epoch++ {
		for round[0].GetAttempt().GetEpoch() == epoch { // half of it
			s.failTwice(round[0], raise("bad image"))
			s.finish(round[1:]...)
			round = s.next()
			if len(round) == 0 { // the Scheduler does not answer
				s.sim.Advance(2 * time.Second)
				round = s.next()
			}
		}
	}
	s.failTwice(round[0], raise("bad image"))
	s.finish(round[1])
	s.finish(s.next()...)
	for round = s.next(); s.finished == nil; round = s.next() {
		s.finish(round...)
	}
	require.Equal(t, []string{
		"1 sample is dropped (epoch 1, round 1, function 0, positions [0,1): bad image); of more, the end of each epoch tells",
		"epoch 1: 5 samples were dropped; the last: epoch 1, round 5, function 0, positions [8,9): bad image",
		"epoch 2: 5 samples were dropped; the last: epoch 2, round 5, function 0, positions [8,9): bad image",
		"epoch 3: 1 sample was dropped; the last: epoch 3, round 1, function 0, positions [0,1): bad image",
	}, s.warnings())
}

// A round of which nothing is left is not merged: the model stays, and the
// epoch goes on.
func TestARoundThatIsDroppedLeavesTheModel(t *testing.T) {
	for name, static := range map[string]bool{"static": true, "elastic": false} {
		t.Run(name, func(t *testing.T) {
			s := newStageOf(t, 1, sizeOf(1, 2, 4), dropping(4, func(task *messages.TrainTask) {
				task.Epochs, task.Options.StaticParallelism = 2, static
			}))
			first := s.begin()
			s.finish(first...)
			model := s.merges()[0]
			second := s.next()
			require.EqualValues(t, 1, second[0].GetPlan().GetModelVersion())
			for _, inv := range second { // the last round of the epoch
				s.failTwice(inv, reject())
			}
			require.Len(t, s.merges(), 1)
			s.sim.Advance(2 * time.Second) // the Scheduler does not answer
			third := s.next()
			require.EqualValues(t, []uint32{2, 1}, []uint32{third[0].GetAttempt().GetEpoch(), third[0].GetAttempt().GetRound()})
			require.Equal(t, model.GetModelVersion(), third[0].GetPlan().GetModelVersion())
			require.True(t, proto.Equal(second[0].GetPlan().GetModel(), third[0].GetPlan().GetModel()))
			s.finish(third...)
			record := s.end().GetEpochs()[0]
			require.Equal(t, []uint64{2, 2}, []uint64{record.GetSamples(), record.GetDroppedSamples()})
			require.EqualValues(t, 2, record.GetRounds())
		})
	}
}

// An epoch of which nothing is left ends the job: its model would be that of
// the epoch before.
func TestAnEpochThatIsDroppedEndsTheJob(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 2, 4), dropping(4, nil))
	round := s.begin()
	for s.finished == nil {
		for _, inv := range round {
			s.failTwice(inv, reject())
		}
		round = s.next()
	}
	result := s.finished.GetResult()
	require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
	require.Contains(t, result.GetFailure().GetText(), `epoch 1: all 4 samples were dropped, so there is nothing to train on; look at the data and the function, `+
		`or lower --lr; the last failure: tensor "w": NaN at index 3`)
	require.Empty(t, s.merges())
}

// A validation is of the model, not of samples: what it cannot do ends the job.
func TestAValidationIsNotDropped(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 1, 2), dropping(1, func(task *messages.TrainTask) { task.TestSamples = 3 }))
	s.finish(s.begin()...)
	s.failTwice(s.next()[0], reject())
	require.Contains(t, s.finished.GetResult().GetFailure().GetText(), "the validation was rejected twice")
}

// As many answers as a round needs, of those that were not dropped.
func TestDroppedAssignmentsOweNoAnswer(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 2, 4), dropping(2, func(task *messages.TrainTask) { task.Options.MinFunctions = 2 }))
	round := s.begin()
	s.failTwice(round[0], reject())
	s.finish(round[1])
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
}

// However many samples are bad, dropping them is no failure of the job: what is
// dropped does not count against its budget.
func TestDroppingDoesNotUseUpTheBudget(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 1, 2), dropping(500, nil))
	round := s.begin()
	for n := 0; s.finished == nil; n++ {
		if n%10 == 0 {
			s.finish(round...)
		} else {
			s.failTwice(round[0], reject())
		}
		round = s.next()
	}
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.finished.GetResult().GetPhase())
	require.EqualValues(t, 450, s.finished.GetResult().GetEpochs()[0].GetDroppedSamples())
}
