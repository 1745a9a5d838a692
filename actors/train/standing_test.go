package train_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

// Two nodes that do not reach each other, though the leader hears both: the job
// asks the one that it does not hear again after a while only, which doubles, and
// as of old once it answers. Each time costs a round ten seconds.
func TestANodeThatTheJobDoesNotHearIsLeftAloneForAWhile(t *testing.T) {
	size := &messages.JobSize{Term: 1, Seq: 1, Parallelism: 2, Grants: []*messages.SlotGrant{{Node: "n1", Slots: 1}, {Node: "far", Slots: 1}}}
	s := newStageOf(t, 1, size, taskOf(1000, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
	round := s.begin()
	far := func(invs []*messages.Invoke) int {
		return slices.IndexFunc(invs, func(inv *messages.Invoke) bool { return inv.GetNode() == "far" })
	}
	// goOn does the rest of a round on slots of the other node.
	goOn := func() {
		for range 2 {
			invs := s.next()
			require.Len(t, invs, 1)
			require.Equal(t, "n1", invs[0].GetNode())
			s.finish(invs...)
		}
	}
	lose := func(round []*messages.Invoke) {
		require.Len(t, round, 2)
		i := far(round)
		s.sim.Send(s.job, &messages.FunctionLost{Attempt: round[i].GetAttempt(), Failure: crash()})
		s.sim.Drain()
		require.Empty(t, s.next(), "it waits for the slot of the other node")
		s.finish(round[1-i])
		again := s.next()
		require.Len(t, again, 1)
		require.Equal(t, "n1", again[0].GetNode())
		s.finish(again...)
	}
	lose(round)
	goOn()
	s.sim.Advance(19 * time.Second)
	goOn()
	s.sim.Advance(2 * time.Second)
	one := s.next()
	require.Len(t, one, 2, "it is asked again")
	lose(one)
	s.sim.Advance(39 * time.Second)
	goOn()
	s.sim.Advance(2 * time.Second)
	both := s.next()
	require.GreaterOrEqual(t, far(both), 0)
	s.finish(both...)
	require.GreaterOrEqual(t, far(s.next()), 0, "it answers: it is one of them again")
}

// Where there is no other slot, it is asked all the same.
func TestAJobWithNoOtherSlotsAsksWhomItDoesNotHear(t *testing.T) {
	size := &messages.JobSize{Term: 1, Seq: 1, Parallelism: 1, Grants: []*messages.SlotGrant{{Node: "far", Slots: 1}}}
	s := newStageOf(t, 1, size, taskOf(1000, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
	round := s.begin()
	s.sim.Send(s.job, &messages.FunctionLost{Attempt: round[0].GetAttempt(), Failure: crash()})
	s.sim.Drain()
	require.Equal(t, "far", s.next()[0].GetNode())
}
