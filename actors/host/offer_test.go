package host_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// Whoever has the answer to OfferSlots knows that the Scheduler was told before;
// a late or repeated offer changes nothing, and a crash of the host neither.
func TestAHostOffersWhatItIsToldTo(t *testing.T) {
	s := newStage(t, 1, 4, zap.NewNop())
	offer := func(seq uint64, slots uint32) {
		s.scheduler.Clear()
		reply := testkit.Ask[*messages.OfferSlotsReply](s.Sim, s.host, &messages.OfferSlots{Seq: seq, Slots: slots})
		require.GreaterOrEqual(t, reply.GetSeq(), seq)
	}
	offered := func() uint32 {
		s.Drain()
		said := s.scheduler.Messages()
		require.NotEmpty(t, said)
		return said[len(said)-1].(*messages.HostReported).GetSlots()
	}

	offer(1, 2)
	require.EqualValues(t, 2, offered())
	offer(3, 1)
	require.EqualValues(t, 1, offered())
	offer(2, 4) // late
	offer(3, 4) // no other word counts under that number
	s.Advance(time.Second)
	require.EqualValues(t, 1, offered())

	s.CrashAfter(s.host, errors.New("crashed on purpose"))
	offer(4, 3)
	require.EqualValues(t, 3, offered())
	s.Crash(s.host, errors.New("crashed on purpose"))
	s.scheduler.Clear()
	s.Advance(2 * time.Second)
	require.EqualValues(t, 3, offered())
	offer(5, 99)
	require.EqualValues(t, 4, offered())
}

// Never do more attempts begin than are offered, whatever is cancelled, does not
// return, or comes late.
func TestNoMoreRunsThanIsOffered(t *testing.T) {
	for seed := range testkit.Seeds(t, 50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStage(t, seed, 4, zap.NewNop())
			s.runner.stops = func(string) time.Duration { return time.Duration(s.Rand().IntN(3000)) * time.Millisecond }
			probe := s.Probe("invoker")
			lent := uint32(4)
			for round := uint32(1); round <= 20; round++ {
				lent = uint32(s.Rand().IntN(5))
				testkit.Ask[*messages.OfferSlotsReply](s.Sim, s.host, &messages.OfferSlots{Seq: uint64(round), Slots: lent})
				before, running := len(s.runner.order), len(s.runner.busy)
				for function := range uint32(5) {
					probe.Send(s.host, &messages.Invoke{Attempt: ref("a", round, function, 1), Plan: &messages.RoundPlan{}})
				}
				s.Drain()
				begun := len(s.runner.order) - before
				require.LessOrEqual(t, begun, max(0, int(lent)-running)+retired(s), "round %d", round)
				s.Advance(time.Duration(s.Rand().IntN(1500)) * time.Millisecond)
			}
		})
	}
}

// retired is how many slots the host has given up for now: they count no more.
func retired(s *stage) int { return len(s.warnings) }
