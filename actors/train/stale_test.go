package train_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

// What does not name the open attempt of an assignment never enters a merge:
// be it late, repeated or forged.
func TestNoStaleAnswerEntersAMerge(t *testing.T) {
	for name, change := range map[string]func(a *messages.AttemptRef){
		"another job":             func(a *messages.AttemptRef) { a.Job = &messages.JobRef{Id: "k", Incarnation: 2} },
		"an earlier incarnation":  func(a *messages.AttemptRef) { a.Job = &messages.JobRef{Id: "j", Incarnation: 1} },
		"a later incarnation":     func(a *messages.AttemptRef) { a.Job = &messages.JobRef{Id: "j", Incarnation: 3} },
		"an earlier epoch":        func(a *messages.AttemptRef) { a.Epoch-- },
		"a later epoch":           func(a *messages.AttemptRef) { a.Epoch++ },
		"an earlier round":        func(a *messages.AttemptRef) { a.Round-- },
		"a later round":           func(a *messages.AttemptRef) { a.Round++ },
		"a validation":            func(a *messages.AttemptRef) { a.Task = messages.Task_TASK_VALIDATE },
		"no such function":        func(a *messages.AttemptRef) { a.Function = 3 },
		"a function far off":      func(a *messages.AttemptRef) { a.Function = math.MaxUint32 },
		"an earlier attempt":      func(a *messages.AttemptRef) { a.Attempt-- },
		"a later attempt":         func(a *messages.AttemptRef) { a.Attempt++ },
		"a function that is done": func(a *messages.AttemptRef) { a.Function = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			task := taskOf(3, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) })
			s := newStage(t, 3, task)
			round := s.begin()
			s.finish(round[0])
			s.fail(round[1], &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_UNAVAILABLE, Text: "killed"})
			second := s.next() // the second attempt of function 1
			require.Len(t, second, 1)
			require.EqualValues(t, 2, second[0].GetAttempt().GetAttempt())

			forged := s.answer(second[0], 1e6)
			forged.Attempt = proto.CloneOf(forged.GetAttempt())
			change(forged.GetAttempt())
			forged.Loss = 1e6
			for range 2 {
				s.sim.Send(s.job, &messages.FunctionFinished{Answer: forged})
				s.sim.Send(s.job, &messages.FunctionLost{Attempt: forged.GetAttempt(), Failure: &messages.Failure{Text: "forged"}})
			}
			s.sim.Drain()
			require.Empty(t, s.merges(), "the round waits for the true answers")
			require.Empty(t, s.next(), "nothing is tried again")

			s.space.Remove(forged.GetModel().GetKey())
			s.finish(second[0], round[2])
			require.Len(t, s.merges(), 1)
			require.EqualValues(t, 3, s.merges()[0].GetAnswers())
			result := s.end()
			require.InDelta(t, 1, s.models.saved, 1e-6, "the mean of 0, 1 and 2")
			require.EqualValues(t, 1, result.GetRetries())
			require.EqualValues(t, 3, result.GetEpochs()[0].GetSamples())
			require.Less(t, result.GetEpochs()[0].GetTrainLoss(), 1e3, "the forged loss counts nowhere")
		})
	}
}

// An answer that arrives again, changed, after its attempt was accepted does
// not replace the first, before the merge or during it.
func TestTheFirstAcceptedAnswerCounts(t *testing.T) {
	s := newStage(t, 2, taskOf(4, nil))
	round := s.begin()
	s.finish(round[0])
	again := func(inv *messages.Invoke) {
		answer := proto.CloneOf(s.answerAt(inv, 1e6))
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: answer})
	}
	again(round[0])
	s.finish(round[1])
	again(round[1])
	s.sim.Drain()
	require.Len(t, s.merges(), 1)
	require.EqualValues(t, 2, s.merges()[0].GetSamples())
	next := s.next()
	require.InDelta(t, 0.5, s.value(next[0].GetPlan().GetModel()), 1e-6)
}

// answerAt is answer with a model of its own, so that a second one does not
// clash with the first.
func (s *stage) answerAt(inv *messages.Invoke, value float32) *messages.Invoked {
	other := proto.CloneOf(inv)
	other.Attempt.Attempt += 100
	a := s.answer(other, value)
	a.Attempt = inv.GetAttempt()
	return a
}

// An answer that breaks its promises is rejected and tried again, though the
// host let it through: nobody waits for it for ever.
func TestABrokenAnswerIsRejectedAndTriedAgain(t *testing.T) {
	for name, spoil := range map[string]func(*messages.Invoked){
		"it counts too few samples":  func(a *messages.Invoked) { a.Samples = 0 },
		"it counts too many samples": func(a *messages.Invoked) { a.Samples++ },
		"it has no model":            func(a *messages.Invoked) { a.Model = nil },
		"its loss is NaN":            func(a *messages.Invoked) { a.Loss = math.NaN() },
		"its loss is infinite":       func(a *messages.Invoked) { a.Loss = math.Inf(-1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 2, taskOf(4, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
			round := s.begin()
			answer := s.answerAt(round[0], 1e6)
			spoil(answer)
			s.sim.Send(s.job, &messages.FunctionFinished{Answer: answer})
			again := s.next()
			require.Len(t, again, 1, "it is tried again at once")
			require.EqualValues(t, 2, again[0].GetAttempt().GetAttempt())
			s.finish(again[0], round[1])
			result := s.end()
			require.EqualValues(t, 1, result.GetRejectedResults())
			require.EqualValues(t, 4, result.GetEpochs()[0].GetSamples())
			require.Less(t, s.models.saved, float32(2))
		})
	}
}

// Of an assignment that cannot be tried again, a broken answer is a loss.
func TestABrokenAnswerWithoutRetriesIsALoss(t *testing.T) {
	s := newStage(t, 2, taskOf(2, nil))
	round := s.begin()
	answer := s.answer(round[0], 1)
	answer.Samples = 0
	s.sim.Send(s.job, &messages.FunctionFinished{Answer: answer})
	s.finish(round[1])
	require.EqualValues(t, 2, s.end().GetEpochs()[0].GetSamples())
	require.EqualValues(t, 1, s.finished.GetResult().GetLostFunctions())
}

// The failure of an attempt that was over already says nothing about the one
// that is open: here the invoker has repeated it, late, after a restart.
func TestALateFailureIsNotTheOpenAttempts(t *testing.T) {
	s := newStage(t, 1, taskOf(1, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
	round := s.begin()
	raised := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_USER_CODE, Text: "boom"}
	s.fail(round[0], raised)
	second := s.next()
	require.Len(t, second, 1)
	s.fail(round[0], raised) // once raised, twice told
	require.Nil(t, s.finished, "the function has raised once")
	s.sim.Advance(time.Second) // the attempt is told again to the restarted invoker
	s.finish(second...)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
	require.EqualValues(t, 1, s.finished.GetResult().GetRetries())
}
