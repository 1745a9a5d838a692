package train_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

// besideSick is a job of N functions and so many retries on two slots of a node and
// so many of another one.
func besideSick(t *testing.T, n, sick, retries, samples uint32) *stage {
	size := &messages.JobSize{Term: 1, Seq: 1, Parallelism: n, Grants: []*messages.SlotGrant{{Node: "n1", Slots: 2}, {Node: "sick", Slots: sick}}}
	return newStageOf(t, 1, size, taskOf(uint64(samples), func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(retries) }))
}

// failSick fails those that run on the sick node, and returns the others.
func (s *stage) failSick(invs []*messages.Invoke, failure *messages.Failure) (others []*messages.Invoke) {
	for _, inv := range invs {
		if inv.GetNode() == "sick" {
			s.fail(inv, failure)
		} else {
			others = append(others, inv)
		}
	}
	return others
}

// Reported: a node that fails every attempt within milliseconds always has a slot
// free, draws every retry, and so ends every job. Here it gets one attempt of each
// assignment, and nothing more once it has failed three in a row, for a while that
// doubles; nothing is lost, and people are told once.
func TestANodeThatFailsWhatOthersDoIsLeftAlone(t *testing.T) {
	s := besideSick(t, 4, 2, 1, 4000)
	running := s.failSick(s.begin(), crash())
	require.Len(t, running, 2)
	require.Empty(t, s.next(), "what failed there waits for another node")
	require.Empty(t, s.warnings())
	// goOn does what there is to do for some rounds, and reports how many attempts
	// the sick node had of that.
	goOn := func() (there int) {
		for range 8 {
			others := s.failSick(running, crash())
			there += len(running) - len(others)
			s.finish(others...)
			running = s.next()
		}
		return there
	}
	require.Equal(t, 2, goOn(), "of the second round, which the good one has its part of")
	require.Equal(t, []string{`node "sick" is left alone for 20s, and longer if it goes on so: 3 attempts there failed in a row while other nodes answer; the last: the worker was killed`},
		s.warnings())
	for _, spell := range []time.Duration{20, 40, 80, 160, 320, 600, 600} {
		s.sim.Advance((spell - 1) * time.Second)
		require.Zero(t, goOn(), "it is left alone for %ds", spell)
		s.sim.Advance(2 * time.Second)
		require.Positive(t, goOn(), "it is asked again after %ds", spell)
	}
	require.Len(t, s.warnings(), 1, "once")
	s.sim.Advance(601 * time.Second)
	for range 8 {
		s.finish(running...)
		running = s.next()
	}
	require.Len(t, running, 4, "it answers: it is one of them again")
	s.finish(running...)
	result := s.end()
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase())
	require.Zero(t, result.GetLostFunctions())
}

// What failed on a node that is left alone is at nobody's cost: neither its
// assignment nor the job pays, for the attempts before that either.
func TestNobodyPaysForANodeThatIsLeftAlone(t *testing.T) {
	s := besideSick(t, 6, 4, 1, 6)
	s.sim.Advance(time.Second)
	require.Empty(t, s.failSick(s.next(), crash()), "the first model")
	running := s.failSick(s.begin(), crash())
	require.Len(t, running, 2)
	s.finish(running...)
	again := s.next()
	require.Len(t, s.warnings(), 1)
	require.Len(t, again, 2)
	s.fail(again[0], crash()) // its first failure that counts
	s.finish(again[1])
	for s.finished == nil {
		told := s.next()
		for _, inv := range told {
			require.Equal(t, "n1", inv.GetNode())
		}
		s.finish(told...)
		s.sim.Advance(10 * time.Millisecond)
	}
	result := s.end()
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase())
	require.Zero(t, result.GetLostFunctions())
	require.EqualValues(t, 6, result.GetRetries())
}

// A failure that is not the node's, or of whom nobody else does better, is dealt
// with as ever.
func TestANodeIsLeftAloneOnlyForWhatIsItsOwn(t *testing.T) {
	chaos := crash()
	chaos.Chaos = true
	t.Run("chaos", func(t *testing.T) {
		s := besideSick(t, 4, 2, 1000, 8)
		running := s.begin()
		for range 3 {
			require.Len(t, s.failSick(running, chaos), len(running)-2)
			s.sim.Advance(5 * time.Second)
			running = s.next()
			require.Len(t, running, 2, "they run there again")
		}
		require.Empty(t, s.warnings())
	})
	t.Run("exceptions", func(t *testing.T) {
		s := besideSick(t, 4, 2, 1000, 8)
		running := s.begin()
		for i := range 3 {
			s.failSick(running, raise(fmt.Sprint("boom ", i)))
			s.sim.Advance(5 * time.Second)
			running = append(s.next(), running[:0]...)
		}
		require.Empty(t, s.warnings())
	})
	t.Run("the only node", func(t *testing.T) {
		s := newStageOf(t, 1, sizeOf(1, 1, 1), taskOf(2, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
		running := s.begin()
		for s.finished == nil {
			require.Len(t, running, 1)
			s.fail(running[0], crash())
			s.sim.Advance(5 * time.Second)
			running = s.next()
		}
		require.EqualValues(t, 1, s.finished.GetResult().GetLostFunctions())
		require.EqualValues(t, 3, s.finished.GetResult().GetRetries())
		require.Empty(t, s.warnings())
	})
	t.Run("all nodes", func(t *testing.T) {
		s := besideSick(t, 4, 2, 3, 8)
		running := s.begin()
		for s.finished == nil {
			for _, inv := range running {
				s.fail(inv, crash())
			}
			s.sim.Advance(5 * time.Second)
			running = s.next()
		}
		require.Equal(t, messages.Phase_PHASE_FAILED, s.finished.GetResult().GetPhase())
		require.EqualValues(t, 4, s.finished.GetResult().GetLostFunctions())
	})
}
