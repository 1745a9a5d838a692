package train_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// measure is what a validation finds of a model, by its version.
type measure struct {
	accuracy float64 // percent; below 0: none
	loss     float64
}

// ending returns a task of so many epochs of two rounds each, validated after
// each epoch unless change says otherwise.
func ending(epochs uint32, change func(o *messages.TrainOptions)) *messages.TrainTask {
	return taskOf(2, func(task *messages.TrainTask) {
		task.Epochs, task.TestSamples, task.Options.ValidateEvery, task.Options.Keep = epochs, 10, 1, "last"
		change(task.Options)
	})
}

// play answers whatever comes, each round a second after it began, until the
// job has ended: the model of version v holds v, and is worth measures[v].
func (s *stage) play(measures map[uint64]measure) *messages.JobResult {
	for s.finished == nil {
		told := s.next()
		s.sim.Advance(time.Second)
		for _, inv := range told {
			version := inv.GetPlan().GetModelVersion()
			a := s.answer(inv, float32(version+1))
			if inv.GetAttempt().GetTask() == messages.Task_TASK_VALIDATE {
				m := measures[version]
				a.Loss, a.HasAccuracy = m.loss*float64(a.GetSamples()), m.accuracy >= 0
				a.Correct = m.accuracy / 100 * float64(a.GetSamples())
			}
			s.sim.Send(s.job, &messages.FunctionFinished{Answer: a})
		}
		s.sim.Drain()
		require.Nil(s.t, s.crash)
		require.Less(s.t, len(s.events), 1000, "the job does not end")
	}
	return s.finished.GetResult()
}

// whyEnded returns the reasons that the job gave for ending early.
func (s *stage) whyEnded() (out []string) {
	for _, e := range s.events {
		if m := e.GetTrainingEnded(); m != nil {
			out = append(out, m.GetReason())
		}
	}
	return out
}

// Models of versions 2, 4, 6, … are those at the ends of epochs.
func TestEndsOfTraining(t *testing.T) {
	rising := map[uint64]measure{1: {10, 5}, 2: {50, 2}, 3: {60, 1.5}, 4: {80, 1}, 5: {85, 0.9}, 6: {90, 0.5}, 8: {95, 0.4}, 10: {96, 0.3}}
	falling := map[uint64]measure{2: {50, 2}, 4: {80, 1}, 6: {70, 3}, 8: {79, 0.1}, 10: {81, 1}}
	silent := map[uint64]measure{2: {-1, 2}, 4: {-1, 1}, 6: {-1, 1}, 8: {-1, 1.5}, 10: {-1, 0.5}}
	for name, c := range map[string]struct {
		change   func(o *messages.TrainOptions)
		measures map[uint64]measure
		rounds   []uint32 // of each epoch
		why      string
		saved    float32
		accuracy float64
		loss     float64
	}{
		"nothing asked for":        {func(*messages.TrainOptions) {}, falling, []uint32{2, 2, 2, 2, 2}, "", 10, 81, 1},
		"a goal":                   {func(o *messages.TrainOptions) { o.GoalAccuracy = 80 }, rising, []uint32{2, 2}, "epoch 2 has reached 80.00 % accuracy, the goal is 80 %", 4, 80, 1},
		"a goal within an epoch":   {func(o *messages.TrainOptions) { o.GoalAccuracy, o.ValidateEvery = 82.5, 0.5 }, rising, []uint32{2, 2, 1}, "epoch 3 has reached 85.00 % accuracy, the goal is 82.5 %", 5, 85, 0.9},
		"a goal that is too high":  {func(o *messages.TrainOptions) { o.GoalAccuracy = 99 }, rising, []uint32{2, 2, 2, 2, 2}, "", 10, 96, 0.3},
		"a goal at the end":        {func(o *messages.TrainOptions) { o.GoalAccuracy = 96 }, rising, []uint32{2, 2, 2, 2, 2}, "", 10, 96, 0.3},
		"patience":                 {func(o *messages.TrainOptions) { o.Patience = 2 }, falling, []uint32{2, 2, 2, 2}, "no epoch was better than epoch 2 (80.00 % accuracy), the last 2", 8, 79, 0.1},
		"more patience":            {func(o *messages.TrainOptions) { o.Patience = 3 }, falling, []uint32{2, 2, 2, 2, 2}, "", 10, 81, 1},
		"patience without numbers": {func(o *messages.TrainOptions) { o.Patience = 1 }, silent, []uint32{2, 2, 2}, "no epoch was better than epoch 2 (validation loss 1), the last 1", 6, -1, 1},
		"patience, seldom validated": {
			func(o *messages.TrainOptions) { o.Patience, o.ValidateEvery = 1, 2 },
			map[uint64]measure{4: {80, 1}, 8: {70, 2}, 10: {60, 3}},
			[]uint32{2, 2, 2, 2},
			"no epoch was better than epoch 2 (80.00 % accuracy), the last 1", 8, 70, 2,
		},
		"the best is kept":         {func(o *messages.TrainOptions) { o.Keep, o.Patience = "best", 2 }, falling, []uint32{2, 2, 2, 2}, "no epoch was better than epoch 2 (80.00 % accuracy), the last 2", 4, 80, 1},
		"the best is the last":     {func(o *messages.TrainOptions) { o.Keep = "best" }, falling, []uint32{2, 2, 2, 2, 2}, "", 10, 81, 1},
		"the best by loss":         {func(o *messages.TrainOptions) { o.Keep, o.Patience = "best", 2 }, silent, []uint32{2, 2, 2, 2}, "no epoch was better than epoch 2 (validation loss 1), the last 2", 4, -1, 1},
		"a goal, and the best":     {func(o *messages.TrainOptions) { o.Keep, o.GoalAccuracy = "best", 90 }, rising, []uint32{2, 2, 2}, "epoch 3 has reached 90.00 % accuracy, the goal is 90 %", 6, 90, 0.5},
		"time that is long enough": {func(o *messages.TrainOptions) { o.MaxTimeMs = 60_000 }, rising, []uint32{2, 2, 2, 2, 2}, "", 10, 96, 0.3},
		// The init takes a second, so do a round and a validation.
		"time, within an epoch":         {func(o *messages.TrainOptions) { o.MaxTimeMs = 5000 }, rising, []uint32{2, 1}, "the job has run for 5s, it may for 5s", 3, 60, 1.5},
		"time, at an epoch's end":       {func(o *messages.TrainOptions) { o.MaxTimeMs = 5500 }, rising, []uint32{2, 2}, "the job has run for 7s, it may for 5.5s", 4, 80, 1},
		"time, and one validation":      {func(o *messages.TrainOptions) { o.MaxTimeMs, o.ValidateEvery = 4000, -1 }, rising, []uint32{2, 1}, "the job has run for 4s, it may for 4s", 3, 60, 1.5},
		"hardly any time, and a round":  {func(o *messages.TrainOptions) { o.MaxTimeMs = 1 }, rising, []uint32{1}, "the job has run for 2s, it may for 1ms", 1, 10, 5},
		"time, and the best is earlier": {func(o *messages.TrainOptions) { o.MaxTimeMs, o.Keep = 8000, "best" }, falling, []uint32{2, 2, 1}, "the job has run for 8s, it may for 8s", 4, 80, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, ending(5, c.change))
			check := func(s *stage) {
				result := s.play(c.measures)
				require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), "%v", result.GetFailure())
				var rounds []uint32
				for i, e := range result.GetEpochs() {
					require.EqualValues(t, i+1, e.GetEpoch())
					require.EqualValues(t, e.GetRounds(), e.GetSamples(), "what was trained, no more")
					rounds = append(rounds, e.GetRounds())
				}
				require.Equal(t, c.rounds, rounds)
				require.Equal(t, c.why, result.GetEndedEarly())
				require.InDelta(t, c.saved, s.models.saved, 1e-6)
				require.Equal(t, uint32(c.saved+1)/2, result.GetModelEpoch())
				require.InDelta(t, c.loss, result.GetValidationLoss(), 1e-9)
				if c.accuracy < 0 {
					require.Nil(t, result.Accuracy)
				} else {
					require.InDelta(t, c.accuracy, result.GetAccuracy(), 1e-9)
				}
				s.gone()
			}
			check(s)
			if c.why == "" {
				require.Empty(t, s.whyEnded())
			} else {
				require.Equal(t, []string{c.why}, s.whyEnded(), "said once")
			}
			require.Empty(t, s.warnings())

			// Whatever the store has last when the job's process is lost, the next
			// incarnation ends alike.
			for i, saved := range s.vault.saves {
				if saved.GetResult() != nil || saved.GetModelVersion() == 0 {
					continue
				}
				t.Run(fmt.Sprintf("resumed from save %d", i), func(t *testing.T) {
					check(newStageFrom(t, 1, sizeOf(1, 1, 1), ending(5, c.change), &vault{from: saved, files: s.vault.files}, nil))
				})
			}
		})
	}
}

// The best model is in scratch for as long as it is the best: one more version
// than without, never two.
func TestTheBestModelStays(t *testing.T) {
	accuracy := []float64{0, 10, 50, 40, 30, 60, 60, 20, 70}
	task := taskOf(8, func(task *messages.TrainTask) {
		task.TestSamples, task.Options.ValidateEvery, task.Options.Keep = 10, 1.0/8, "best"
	})
	s := newStage(t, 1, task)
	best := map[uint64]uint64{1: 1, 2: 2, 3: 2, 4: 2, 5: 5, 6: 5, 7: 5} // by version
	for told := s.next(); len(told) > 0; told = s.next() {
		inv := told[0]
		version := inv.GetPlan().GetModelVersion()
		a := s.answer(inv, float32(version+1))
		if inv.GetAttempt().GetTask() == messages.Task_TASK_VALIDATE {
			a.Correct = accuracy[version] / 10
		} else if version > 0 {
			want := []string{fmt.Sprintf("j/2/merged/model-%d", version)}
			if b := best[version]; b != version {
				want = append([]string{fmt.Sprintf("j/2/merged/model-%d", b)}, want...)
			}
			require.Equal(t, want, s.space.List("j/2/merged/"))
			var kept *messages.JobState // what a host would hand the next incarnation
			for _, m := range s.host.Messages() {
				if m, ok := m.(*messages.KeepState); ok {
					kept = m.GetState()
				}
			}
			require.Equal(t, best[version], kept.GetBest().GetModelVersion())
			require.InDelta(t, best[version], s.value(kept.GetBest().GetModel()), 1e-6)
		}
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: a})
	}
	s.end()
	require.InDelta(t, 8, s.models.saved, 1e-6)
	s.gone()
}

// A function that measures no accuracy cannot reach a goal: one warning, and
// training goes on to its end.
func TestAGoalWithoutAccuracy(t *testing.T) {
	s := newStage(t, 1, ending(3, func(o *messages.TrainOptions) { o.GoalAccuracy = 50 }))
	result := s.play(map[uint64]measure{2: {-1, 3}, 4: {-1, 2}, 6: {-1, 1}})
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase())
	require.Len(t, result.GetEpochs(), 3)
	require.Equal(t, []string{"the goal of 50 % accuracy cannot be reached: the function measures none"}, s.warnings())
}

// A last validation that is given up does not keep a job whose time is over.
func TestTimeIsOverWithoutANumber(t *testing.T) {
	s := newStage(t, 1, ending(5, func(o *messages.TrainOptions) { o.MaxTimeMs, o.ValidateEvery = 1, -1 }))
	s.finish(s.begin()...)
	s.sim.Advance(time.Second)
	for s.finished == nil {
		for _, inv := range s.next() {
			if inv.GetAttempt().GetTask() == messages.Task_TASK_VALIDATE {
				s.fail(inv, &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_UNAVAILABLE, Text: "gone"})
			} else {
				s.finish(inv)
			}
		}
		s.sim.Advance(time.Second)
		require.Less(t, len(s.events), 100)
	}
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.finished.GetResult().GetPhase())
	require.Nil(t, s.finished.GetResult().ValidationLoss)
	require.Len(t, s.warnings(), 1)
}
