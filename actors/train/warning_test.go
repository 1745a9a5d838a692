package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// What functions warn of is told once, by those that fail too.
func TestWhatFunctionsWarnOfIsToldOnce(t *testing.T) {
	s := newStage(t, 2, taskOf(100, func(task *messages.TrainTask) { task.Epochs, task.Options.K = 2, -1 }))
	round := s.begin()
	require.Len(t, round, 2)
	for _, inv := range round {
		answer := s.answer(inv, 1)
		answer.Warnings = []string{"it is slow", "it is odd"}
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: answer})
	}
	round = s.next()
	for range 2 {
		s.sim.Send(s.job, &messages.FunctionStarted{Attempt: round[0].GetAttempt(), Warnings: []string{"its node is odd"}})
	}
	broken := round[0].GetAttempt()
	s.sim.Send(s.invokers[broken.GetFunction()], failed{
		attempt: broken, failure: &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_USER_CODE, Text: "raised"},
		warnings: []string{"it is odd", "it is about to raise"},
	})
	s.sim.Drain()
	s.finish(round[1])
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
	require.Equal(t, []string{"it is slow", "it is odd", "its node is odd", "it is about to raise"}, s.warnings())
}
