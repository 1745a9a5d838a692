package train_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// More functions than slots run in waves, in the order of their ids: never more
// at once than slots are granted, whichever ends first.
func TestFunctionsRunInWavesInTheOrderOfTheirIDs(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStageOf(t, seed, sizeOf(1, 8, 2), taskOf(8, nil))
			running := s.begin()
			require.Equal(t, []uint32{0, 1}, functions(running))
			for next := uint32(2); next < 8; next++ {
				i := s.sim.Rand().IntN(2)
				s.finish(running[i])
				came := s.next()
				require.Equal(t, []uint32{next}, functions(came))
				running[i] = came[0]
			}
			s.finish(running...)
			require.EqualValues(t, 8, s.merges()[0].GetAnswers())
			s.end()
		})
	}
}

// A function that is tried again comes before those that have not run yet; one
// that waits for its time holds nobody up.
func TestARetryComesBeforeHigherIDs(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStageOf(t, seed, sizeOf(1, 4, 1), taskOf(4, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(2) }))
			running := s.begin()
			next := func(function uint32, why string) {
				running = s.next()
				require.Equal(t, []uint32{function}, functions(running), why)
			}
			s.finish(running...)
			next(1, "in order")
			s.fail(running[0], crash())
			next(1, "at once")
			s.fail(running[0], crash())
			next(2, "function 1 waits for its time")
			s.sim.Advance(100 * time.Millisecond)
			require.Empty(t, s.next(), "its time has come, but not its slot")
			s.finish(running...)
			next(1, "before function 3")
			s.finish(running...)
			next(3, "the last one")
			s.finish(running...)
			require.EqualValues(t, 4, s.end().GetEpochs()[0].GetSamples())
			require.EqualValues(t, 2, s.finished.GetResult().GetRetries())
		})
	}
}

// Slots count at once, unlike N: more of them start what waits, and with fewer
// nothing more starts until as few run.
func TestSlotsCountAtOnce(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 8, 2), taskOf(8, nil))
	running := s.begin()
	s.resize(resize(2, 8, 4))
	came := s.next()
	require.Equal(t, []uint32{2, 3}, functions(came))
	running = append(running, came...)
	s.resize(resize(3, 8, 1))
	s.finish(running[:3]...)
	require.Empty(t, s.next(), "one still runs on the one slot")
	s.resize(resize(4, 8, 0))
	s.finish(running[3])
	require.Empty(t, s.next(), "without slots the job waits")
	s.resize(resize(5, 8, 8))
	came = s.next()
	require.Equal(t, []uint32{4, 5, 6, 7}, functions(came))
	s.finish(came...)
	require.EqualValues(t, 8, s.merges()[0].GetSamples())
}

// Functions spread over the nodes that have slots, and one that failed moves to
// another node where there is room.
func TestAFailedFunctionMovesToAnotherNode(t *testing.T) {
	size := &messages.JobSize{Term: 1, Seq: 1, Parallelism: 2, Grants: []*messages.SlotGrant{{Node: "n1", Slots: 2}, {Node: "n2", Slots: 2}}}
	s := newStageOf(t, 1, size, taskOf(2, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(5) }))
	round := s.begin()
	require.NotEqual(t, round[0].GetNode(), round[1].GetNode())
	node := round[0].GetNode()
	for range 2 {
		s.fail(round[0], crash())
		s.sim.Advance(100 * time.Millisecond) // the back-off
		round = s.next()
		require.NotEqual(t, node, round[0].GetNode())
		node = round[0].GetNode()
	}
}
