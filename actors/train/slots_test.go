package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// The same exception twice ends the job if it came from two slots, where there
// are two.
func TestDeterministicNeedsTwoSlots(t *testing.T) {
	twice := []*messages.Failure{raise("boom"), raise("boom")}
	for name, c := range map[string]struct {
		slots uint32
		same  bool
		fatal bool
	}{
		"two slots":                  {2, false, true},
		"the same of two":            {2, true, false},
		"there is one":               {1, true, true},
		"there were two, now is one": {1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, fatal, _ := train.Judge(twice, 3, c.slots, c.same)
			require.Equal(t, c.fatal, fatal)
		})
	}
}

// So a function that raises is tried again on another slot: on another node, or
// on its own once two slots are free there, since the host takes the other one.
// Others may pass it, and a crash need not wait.
func TestWhatRaisedRunsOnAnotherSlot(t *testing.T) {
	retrying := func(samples uint64) *messages.TrainTask {
		return taskOf(samples, func(task *messages.TrainTask) { task.Options.K, task.Options.Retries = -1, proto.Uint32(3) })
	}
	t.Run("of its node", func(t *testing.T) {
		s := newStageOf(t, 1, sizeOf(1, 3, 2), retrying(3))
		round := s.begin()
		s.fail(round[0], raise("boom"))
		passed := s.next()
		require.Equal(t, []uint32{2}, functions(passed), "another one takes the slot")
		s.finish(passed...)
		require.Empty(t, s.next(), "only the slot of the failure is free")
		s.finish(round[1])
		again := s.next()
		require.Equal(t, []uint32{0}, functions(again))
		s.fail(again[0], raise("boom"))
		require.Contains(t, s.end().GetFailure().GetText(), "raised the same error twice")
	})
	t.Run("of another node", func(t *testing.T) {
		size := &messages.JobSize{Term: 1, Seq: 1, Parallelism: 2, Grants: []*messages.SlotGrant{{Node: "n1", Slots: 2}, {Node: "n2", Slots: 1}}}
		s := newStageOf(t, 1, size, retrying(2))
		round := s.begin()
		require.Equal(t, []string{"n1", "n1"}, []string{round[0].GetNode(), round[1].GetNode()})
		s.fail(round[0], raise("boom"))
		require.Equal(t, "n2", s.next()[0].GetNode())
	})
	t.Run("where there is none", func(t *testing.T) {
		s := newStageOf(t, 1, sizeOf(1, 2, 1), retrying(2))
		s.fail(s.begin()[0], raise("boom"))
		require.Equal(t, []uint32{0}, functions(s.next()), "at once")
	})
	t.Run("unless it crashed", func(t *testing.T) {
		s := newStageOf(t, 1, sizeOf(1, 2, 2), retrying(2))
		s.fail(s.begin()[0], crash())
		require.Equal(t, []uint32{0}, functions(s.next()))
	})
	t.Run("when the other one is taken away", func(t *testing.T) {
		s := newStageOf(t, 1, sizeOf(1, 2, 2), retrying(2))
		round := s.begin()
		s.fail(round[0], raise("boom"))
		require.Empty(t, s.next())
		s.resize(resize(2, 2, 1))
		require.Empty(t, s.next(), "function 1 has the last one")
		s.finish(round[1])
		require.Equal(t, []uint32{0}, functions(s.next()))
	})
}

// What a warm worker remembers may be why a function raised: the next attempt is
// to be a fresh one. Where the worker crashed, or its node did, or the attempt is
// a backup, those that are there are well, and stay.
func TestOnlyWhatFailedByItselfIsToRunAfresh(t *testing.T) {
	retrying := taskOf(2, func(task *messages.TrainTask) { task.Options.K, task.Options.Retries = -1, proto.Uint32(3) })
	for name, c := range map[string]struct {
		failure *messages.Failure
		fresh   bool
	}{
		"it raised":               {raise("boom"), true},
		"its answer was rejected": {&messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED, Text: "NaN in w"}, true},
		"chaos broke it":          {&messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED, Text: "NaN in w", Chaos: true}, false},
		"its worker crashed":      {crash(), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStageOf(t, 1, sizeOf(1, 2, 4), retrying)
			round := s.begin()
			require.False(t, round[0].GetFresh())
			s.fail(round[0], c.failure)
			require.Equal(t, c.fresh, s.next()[0].GetFresh())
		})
	}
	t.Run("its node is gone", func(t *testing.T) {
		size := &messages.JobSize{Term: 1, Seq: 1, Parallelism: 2, Grants: []*messages.SlotGrant{{Node: "n1", Slots: 1}, {Node: "n2", Slots: 1}}}
		s := newStageOf(t, 1, size, retrying)
		require.Len(t, s.begin(), 2)
		size = proto.CloneOf(size)
		size.Seq, size.Grants, size.Gone = 2, []*messages.SlotGrant{{Node: "n1", Slots: 2}}, []string{"n2"}
		s.resize(&messages.ResizeJob{Job: &messages.JobRef{Id: "j", Incarnation: 2}, Size: size})
		again := s.next()
		require.Len(t, again, 1)
		require.EqualValues(t, 2, again[0].GetAttempt().GetAttempt())
		require.False(t, again[0].GetFresh())
	})
}

// Reported: the system knows that a node is dead, and the barrier waits for a
// full time-out. Here what ran there is tried again at the very moment that the
// job hears of it, elsewhere; what runs on slots that were only taken back runs
// to its end.
func TestALostNodeIsHeardOfAtOnce(t *testing.T) {
	grants := []*messages.SlotGrant{{Node: "n1", Slots: 2}, {Node: "n2", Slots: 2}}
	size := &messages.JobSize{Term: 1, Seq: 1, Parallelism: 4, Grants: grants}
	s := newStageOf(t, 1, size, taskOf(4, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
	round := s.begin()
	var there []*messages.Invoke
	for _, inv := range round {
		if inv.GetNode() == "n2" {
			there = append(there, inv)
		}
	}
	require.Len(t, there, 2)
	smaller := &messages.ResizeJob{Job: &messages.JobRef{Id: "j", Incarnation: 2}, Size: &messages.JobSize{
		Term: 1, Seq: 2, Parallelism: 4, Grants: grants[:1],
	}}
	s.resize(smaller)
	s.sim.Advance(5 * time.Second)
	require.Empty(t, s.next(), "the node is there, only its slots are not the job's any more")

	began, lost := s.sim.Now(), s.invokers[there[0].GetAttempt().GetFunction()]
	gone := proto.CloneOf(smaller)
	gone.Size.Seq, gone.Size.Gone, gone.Size.Grants[0].Slots = 3, []string{"n2", "n3"}, 4
	s.resize(gone)
	again := s.next()
	require.Equal(t, functions(there), functions(again))
	for _, inv := range again {
		require.Equal(t, "n1", inv.GetNode())
		require.EqualValues(t, 2, inv.GetAttempt().GetAttempt())
	}
	require.Equal(t, began, s.sim.Now(), "in no time")
	require.True(t, s.stopped[lost.GetId()])
	s.resize(gone)
	require.Empty(t, s.next(), "a repeat changes nothing")
	s.finish(there...) // sent before the node went, and late
	require.Empty(t, s.merges())
	for _, inv := range append(round, again...) {
		if inv.GetNode() == "n1" {
			s.finish(inv)
		}
	}
	result := s.end()
	require.EqualValues(t, 4, result.GetEpochs()[0].GetSamples())
	require.EqualValues(t, 2, result.GetRetries())
	for _, e := range s.events {
		if f := e.GetFunctionFailed(); f != nil {
			require.Equal(t, `node "n2" is gone`, f.GetFailure().GetText())
			require.Equal(t, messages.FailureKind(fault.Unavailable), f.GetFailure().GetKind())
		}
	}
}
