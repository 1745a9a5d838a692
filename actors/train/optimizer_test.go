package train_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

func keeping(how string) func(*messages.TrainTask) {
	return func(task *messages.TrainTask) { task.Options.OptimizerState = how }
}

// optimizers returns the value of the state that each invocation starts from,
// -1 for none.
func (s *stage) optimizers(invs []*messages.Invoke) []float32 {
	return s.valuesOf(invs, (*messages.Invoke).GetOptimizer)
}

// valuesOf returns the value of a tensor of each invocation, -1 for none.
func (s *stage) valuesOf(invs []*messages.Invoke, of func(*messages.Invoke) *messages.TensorRef) (out []float32) {
	for _, inv := range invs {
		if of(inv) == nil {
			out = append(out, -1)
			continue
		}
		out = append(out, s.value(of(inv)))
	}
	return out
}

// finishWith lets invocations succeed with a value and ten times that as the
// optimizer state.
func (s *stage) finishWith(value float32, invs ...*messages.Invoke) {
	for _, inv := range invs {
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: s.answer(inv, value+float32(inv.GetAttempt().GetFunction()))})
	}
	s.sim.Drain()
}

// keep: a function goes on from the state of its own last accepted answer,
// which is not that of a round in which it was given up.
func TestKeepGoesOnFromTheLastAcceptedAnswer(t *testing.T) {
	s := newStage(t, 3, taskOf(100, keeping("keep")))
	round := s.begin()
	require.Equal(t, []float32{-1, -1, -1}, s.optimizers(round))
	require.True(t, round[0].GetPlan().GetWantOptimizer())
	s.finishWith(100, round...)
	round = s.next()
	require.Equal(t, []float32{1000, 1010, 1020}, s.optimizers(round))
	s.fail(round[1], crash())
	s.finishWith(200, round[0], round[2])
	require.Equal(t, []float32{2000, 1010, 2020}, s.optimizers(s.next()))
}

// reset: every round starts from none, and no state is asked for.
func TestResetStartsFromNone(t *testing.T) {
	s := newStage(t, 2, taskOf(100, keeping("reset")))
	for round, rounds := s.begin(), 0; rounds < 3; round, rounds = s.next(), rounds+1 {
		require.Equal(t, []float32{-1, -1}, s.optimizers(round))
		require.False(t, round[0].GetPlan().GetWantOptimizer())
		s.finish(round...)
	}
}

// average: every function starts from the merged state, new ones too.
func TestAverageStartsFromTheMergedState(t *testing.T) {
	s := newStage(t, 3, taskOf(100, keeping("average")))
	round := s.begin()
	require.Equal(t, []float32{-1, -1, -1}, s.optimizers(round))
	s.finishWith(100, round...)
	round = s.next()
	require.Equal(t, []float32{1010, 1010, 1010}, s.optimizers(round))
	s.resize(resize(2, 4, 4))
	s.finishWith(200, round...)
	require.Equal(t, []float32{2010, 2010, 2010, 2010}, s.optimizers(s.next()))
	require.Len(t, s.space.List("j/2/merged/"), 2, "of merged models and states the newest is kept")
}

// Reported: N goes 4, 2, 5, and state is lost or mixed up without a word. A
// function that a smaller round left without work is new when it comes back:
// it starts from none, and the history names it.
func TestFunctionsThatAreNewStartFromNoneAndAreNamed(t *testing.T) {
	s := newStage(t, 4, taskOf(100, keeping("keep")))
	round := s.begin()
	s.resize(resize(2, 2, 2))
	s.finishWith(100, round...)
	round = s.next()
	require.Equal(t, []float32{1000, 1010}, s.optimizers(round))
	s.resize(resize(3, 5, 5))
	s.finishWith(200, round...)
	round = s.next()
	require.Equal(t, []float32{2000, 2010, -1, -1, -1}, s.optimizers(round))
	s.finishWith(300, round...)
	round = s.next()
	require.Equal(t, []float32{3000, 3010, 3020, 3030, 3040}, s.optimizers(round))
	s.finish(round...)
	require.Equal(t, []uint32{2, 3, 4}, s.end().GetEpochs()[0].GetFreshOptimizers())
}

// A round with less work than functions takes no state from those that rest.
func TestARestingFunctionKeepsItsState(t *testing.T) {
	s := newStage(t, 4, taskOf(5, func(task *messages.TrainTask) {
		keeping("keep")(task)
		task.Epochs = 2
	}))
	round := s.begin()
	s.fail(round[1], crash())
	s.finishWith(100, round[0], round[2], round[3])
	last := s.next()
	require.Len(t, last, 1, "one sample is left of the epoch")
	s.finishWith(200, last...)
	round = s.next()
	require.Equal(t, []float32{2000, -1, 1020, 1030}, s.optimizers(round))
	s.finish(round...)
	require.Equal(t, []uint32{1}, s.end().GetEpochs()[1].GetFreshOptimizers())
}

// What hosts hold is let go of after each merge: all but the states and the model
// that the next round starts from.
func TestHostsAreToldWhatIsStillNeeded(t *testing.T) {
	s := newStage(t, 2, taskOf(100, keeping("keep")))
	s.finishWith(100, s.begin()...)
	var told *messages.ReleaseTensors
	for _, msg := range s.host.Messages() {
		if m, ok := msg.(*messages.ReleaseTensors); ok {
			told = m
		}
	}
	require.Equal(t, []uint32{1, 1}, []uint32{told.GetStep().GetEpoch(), told.GetStep().GetRound()})
	require.ElementsMatch(t, []string{"j/2/merged/model-1", "j/2/1-1-0-1/optimizer", "j/2/1-1-1-1/optimizer"}, told.GetKeep())
	require.False(t, told.GetEverything())
}
