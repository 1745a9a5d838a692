package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// answerFrom is an answer whose optimizer state lies on another node, which
// nobody reaches.
func (s *stage) answerFrom(inv *messages.Invoke, node string) *messages.Invoked {
	a := s.answer(inv, 1)
	a.Optimizer.Node = node
	return a
}

// A state that its node does not give keeps nothing from being stored but itself,
// and people hear of the node, not of the store.
func TestACheckpointDoesWithoutWhatANodeDoesNotGive(t *testing.T) {
	s := newStage(t, 2, taskOf(100, keeping("keep")))
	round := s.begin()
	s.finish(round[0])
	s.sim.Send(s.job, &messages.FunctionFinished{Answer: s.answerFrom(round[1], "n2")})
	s.next()
	s.sim.Advance(3 * time.Second)
	require.Len(t, s.warnings(), 1)
	require.Contains(t, s.warnings()[0], `node "n2" does not give the states of functions that lie there`)
	require.Contains(t, s.warnings()[0], "functions 1 start from none")
	last := s.vault.last()
	require.EqualValues(t, 1, last.GetModelVersion())
	require.Len(t, last.GetOptimizers(), 1)
	require.Equal(t, []uint32{1}, last.GetBereft())
}

// A job that goes on from a state that was left out names the function in its
// history, even if no other one has a state.
func TestWhatWasLeftOutIsNamed(t *testing.T) {
	s := newStage(t, 1, taskOf(2, keeping("keep")))
	s.sim.Send(s.job, &messages.FunctionFinished{Answer: s.answerFrom(s.begin()[0], "n2")})
	s.next()
	require.Nil(t, s.stop().GetFailure())
	s.sim.Advance(time.Second)
	require.Equal(t, messages.Phase_PHASE_STOPPED, s.finished.GetResult().GetPhase())
	last := s.vault.last()
	require.EqualValues(t, 1, last.GetModelVersion(), "stored at once")

	again := newStageFrom(t, 1, sizeOf(1, 1, 1), taskOf(2, keeping("keep")), &vault{from: last, files: s.vault.files}, nil)
	again.sim.Advance(2 * time.Second)
	require.Equal(t, []uint32{0}, again.end().GetEpochs()[0].GetFreshOptimizers())
}
