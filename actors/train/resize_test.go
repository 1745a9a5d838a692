package train_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

func resize(seq uint64, n, slots uint32) *messages.ResizeJob {
	return &messages.ResizeJob{Job: &messages.JobRef{Id: "j", Incarnation: 2}, Size: sizeOf(seq, n, slots)}
}

func (s *stage) resize(m *messages.ResizeJob) *messages.ResizeJobReply {
	return testkit.Ask[*messages.ResizeJobReply](s.sim, s.job, m)
}

// A size may come at any moment; the round that runs keeps its own.
func TestAResizeTakesEffectAtTheNextRound(t *testing.T) {
	for _, n := range []uint32{1, 2, 3, 7} {
		t.Run(fmt.Sprintf("to %d", n), func(t *testing.T) {
			s := newStage(t, 3, taskOf(40, nil))
			first := s.begin()
			require.Len(t, first, 3)
			s.finish(first[0])
			reply := s.resize(resize(2, n, n))
			require.Nil(t, reply.GetFailure())
			require.EqualValues(t, 2, reply.GetSeq())
			require.Equal(t, []uint32{1, 2}, []uint32{reply.GetEffectiveEpoch(), reply.GetEffectiveRound()})
			require.Empty(t, s.next(), "the running round keeps its size")
			s.finish(first[1:]...)
			second := s.next()
			require.Len(t, second, int(n))
			for _, inv := range second {
				require.EqualValues(t, n, inv.GetPlan().GetParallelism())
			}
			s.finish(second...)
			require.EqualValues(t, 40, s.end().GetEpochs()[0].GetSamples())
			require.Equal(t, []uint32{3, n}, s.finished.GetResult().GetEpochs()[0].GetRoundParallelism()[:2], "history is true")
		})
	}
}

// Sizes are numbered: a late or repeated one changes nothing.
func TestOfTwoSizesTheNewerCounts(t *testing.T) {
	s := newStage(t, 2, taskOf(100, nil))
	round := s.begin()
	s.resize(resize(5, 4, 4))
	require.EqualValues(t, 5, s.resize(resize(3, 7, 7)).GetSeq(), "late")
	require.EqualValues(t, 5, s.resize(resize(5, 6, 6)).GetSeq(), "repeated, and changed")
	old := resize(9, 3, 3)
	old.Size.Term = 0
	require.EqualValues(t, 5, s.resize(old).GetSeq(), "of an earlier term")
	s.finish(round...)
	round = s.next()
	require.Len(t, round, 4)
	new := resize(1, 3, 3)
	new.Size.Term = 2
	require.EqualValues(t, 1, s.resize(new).GetSeq(), "of a later term")
	s.finish(round...)
	require.Len(t, s.next(), 3)
}

// What a size may not be is refused, and leaves N as it is.
func TestASizeThatCannotBeIsRefused(t *testing.T) {
	s := newStage(t, 2, taskOf(20, nil))
	round := s.begin()
	for _, n := range []uint32{0, 65537, 1 << 31} {
		reply := s.resize(resize(7, n, 2))
		require.Equal(t, messages.FailureKind_FAILURE_KIND_INVALID, reply.GetFailure().GetKind())
		require.Contains(t, reply.GetFailure().GetText(), fmt.Sprint(n))
	}
	later := resize(7, 3, 3)
	later.Job.Incarnation = 3
	require.Equal(t, messages.FailureKind_FAILURE_KIND_NOT_FOUND, s.resize(later).GetFailure().GetKind())
	s.finish(round...)
	require.Len(t, s.next(), 2)
}

// However wrong the size that a job starts with, it runs at least one function.
func TestTheFirstSizeIsClamped(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 0, 2), taskOf(3, nil))
	round := s.begin()
	require.Len(t, round, 1)
	s.finish(round...)
	require.EqualValues(t, 3, s.end().GetEpochs()[0].GetSamples())
}

func elastic(task *messages.TrainTask) {
	task.Epochs = 2
	task.Options.K, task.Options.StaticParallelism = -1, false
}

// The Scheduler says N between epochs. While it is silent the job asks again,
// each second, and after two seconds goes on as it was.
func TestWithoutAnAnswerNStays(t *testing.T) {
	s := newStage(t, 3, taskOf(30, elastic))
	s.finish(s.begin()...)
	asked := testkit.Expect[*messages.RequestParallelism](s.scheduler)
	require.EqualValues(t, 1, asked.GetEpoch())
	require.EqualValues(t, 3, asked.GetParallelism())
	require.EqualValues(t, 30, asked.GetSamples())
	s.sim.Advance(1999 * time.Millisecond)
	require.Empty(t, s.next(), "it waits for two seconds")
	testkit.Expect[*messages.RequestParallelism](s.scheduler)
	s.sim.Advance(time.Millisecond)
	require.Len(t, s.next(), 3)
}

// An answer counts for the epoch it was asked for, once.
func TestAnAnswerSetsN(t *testing.T) {
	s := newStage(t, 3, taskOf(30, elastic))
	round := s.begin()
	reply := func(epoch uint32, incarnation, seq uint64, n uint32) {
		s.sim.Send(s.job, &messages.RequestParallelismReply{
			Job: &messages.JobRef{Id: "j", Incarnation: incarnation}, Epoch: epoch, Size: sizeOf(seq, n, n), Warning: "clamped",
		})
		s.sim.Drain()
	}
	reply(1, 2, 8, 8) // before it asked
	s.finish(round...)
	reply(2, 2, 9, 9)
	reply(1, 1, 9, 9)
	require.Empty(t, s.next(), "another epoch's and another incarnation's answers are none")
	reply(1, 2, 2, 5)
	reply(1, 2, 7, 7) // repeated, and changed
	second := s.next()
	require.Len(t, second, 5)
	require.Equal(t, []string{"clamped"}, s.warnings())
	s.finish(second...)
	require.EqualValues(t, []uint32{5}, s.end().GetEpochs()[1].GetRoundParallelism())
}
