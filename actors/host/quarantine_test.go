package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// One of three slots fails whatever runs on it, for ten minutes of a job's
// rounds: a few attempts are lost on it, and people hear why.
func TestASlotThatFailsAgainAndAgainIsLeftAloneForAWhile(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		s := newStage(t, seed, 3, zap.NewNop())
		sick := func() bool { return s.Now().Sub(testkit.Epoch) < 10*time.Minute }
		s.runner.broken = func(slot int) bool { return slot == 1 && sick() }
		probe := s.Probe("invoker")
		var lost, rounds int
		var least, last uint32 = 3, 0
		for round := uint32(1); s.Now().Sub(testkit.Epoch) < 25*time.Minute; round++ {
			rounds++
			for function := range uint32(3) {
				probe.Send(s.host, &messages.Invoke{Attempt: ref("a", round, function, 1), Plan: &messages.RoundPlan{}})
			}
			s.Advance(2500 * time.Millisecond)
			for _, m := range probe.Messages() {
				if _, failed := m.(*messages.InvokeFailed); failed {
					lost++
				}
			}
			probe.Clear()
			for _, m := range s.scheduler.Messages() {
				if report, ok := m.(*messages.HostReported); ok {
					last = report.GetSlots()
					least = min(least, last)
				}
			}
			s.scheduler.Clear()
		}
		require.Greater(t, rounds, 500)
		require.Equal(t, 3+4, lost, "three in a row, then one after 30 s, 1, 2 and 4 min; after 8 it is well")
		require.EqualValues(t, 2, least, "it is reported as a slot fewer")
		require.EqualValues(t, 3, last, "and as one again")
		require.Len(t, s.warnings, 5)
		require.Equal(t, "slot 1 is not used for 30s: the last 3 attempts on it failed while other slots answered; "+
			"2 of 3 slots are left; the last one: its worker crashed", s.warnings[0])
		require.Contains(t, s.warnings[4], "slot 1 is not used for 8m0s: the last 7 attempts")
	}
}

// What fails elsewhere, at an endpoint, is no slot's fault.
func TestWhatFailsElsewhereIsNoSlotsFault(t *testing.T) {
	s := newStage(t, 1, 2, zap.NewNop())
	s.runner.begins = func(*messages.Invoke) time.Duration { return 0 }
	s.runner.broken = func(slot int) bool { return slot == 0 } // as where function 0 runs
	probe := s.Probe("invoker")
	for round := range uint32(20) {
		for function := range uint32(2) {
			probe.Send(s.host, &messages.Invoke{Attempt: ref("a", round+1, function, 1), Plan: &messages.RoundPlan{}})
		}
		s.Advance(2 * time.Second)
	}
	for _, m := range s.scheduler.Messages() {
		require.EqualValues(t, 2, m.(*messages.HostReported).GetSlots())
	}
	require.Empty(t, s.warnings)
}

// Functions that fail everywhere leave all slots as they are.
func TestWhatFailsEverywhereIsNoSlotsFault(t *testing.T) {
	s := newStage(t, 1, 3, zap.NewNop())
	s.runner.broken = func(int) bool { return true }
	probe := s.Probe("invoker")
	for round := range uint32(20) {
		for function := range uint32(3) {
			probe.Send(s.host, &messages.Invoke{Attempt: ref("a", round+1, function, 1), Plan: &messages.RoundPlan{}})
		}
		s.Advance(2 * time.Second)
	}
	for _, m := range s.scheduler.Messages() {
		require.EqualValues(t, 3, m.(*messages.HostReported).GetSlots())
	}
	require.Empty(t, s.warnings)
}
