package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
	"github.com/troupe-ml/troupe/tensor"
)

// held is a company whose functions take a second, and a job on it. Attempts
// are frozen for as long as frozen says.
func held(t *testing.T, seed uint64, slots int, frozen func(*messages.AttemptRef) time.Duration, change func(*messages.TrainOptions)) (s *scene, id string) {
	s = newSceneOf(t, seed, func(c *sim.Config) {
		c.Slots, c.Data = slots, data(t, 96, 20)
		c.Functions = fake.Config{Seed: seed, Base: time.Second, Jitter: 0.3}
		if frozen != nil {
			c.Frozen = func(inv *messages.Invoke) time.Duration { return frozen(inv.GetAttempt()) }
		}
	})
	return s, s.submit(t, small(func(o *messages.TrainOptions) {
		o.Retries = proto.Uint32(20)
		change(o)
	}))
}

// modelOf runs a job of held to its end.
func modelOf(t *testing.T, s *scene, id string) (tensor.StateDict, *messages.JobResult) {
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.verify(t, id)
	saved, ok := s.Models.Get(id)
	require.True(t, ok, "%v", s.watches[id].Result)
	s.leaves(t)
	return saved.Model, s.watches[id].Result
}

// once freezes the first attempt of one function in one round.
func once(function uint32, frozen time.Duration) func(*messages.AttemptRef) time.Duration {
	return func(ref *messages.AttemptRef) time.Duration {
		if ref.GetTask() == messages.Task_TASK_TRAIN && ref.GetEpoch() == 2 && ref.GetRound() == 1 && ref.GetFunction() == function && ref.GetAttempt() == 1 {
			return frozen
		}
		return 0
	}
}

// Reported: a worker is frozen, not dead, and everybody waits for it. Here,
// with a slot free, its assignment runs again within seconds; without one it is
// cut; and what it answers when it thaws counts no more. The model is that of a
// job that nothing befell.
func TestAFrozenWorkerHoldsNobodyUp(t *testing.T) {
	calm, _ := held(t, 1, 4, nil, func(*messages.TrainOptions) {})
	want, plain := modelOf(t, calm, "job1")
	for name, c := range map[string]struct {
		slots    int
		function uint32
		option   bool
		frozen   time.Duration
		costs    time.Duration // at most
		backups  uint32
		attempts int // given up for it
	}{
		"backed up on a free slot":        {5, 1, true, time.Minute, 5 * time.Second, 1, 0},
		"backed up on a peer's slot":      {4, 1, true, time.Minute, 12 * time.Second, 1, 0}, // that of the frozen one is missed later
		"it thaws before its backup ends": {5, 1, true, 3800 * time.Millisecond, 5 * time.Second, 1, 0},
		"cut on the only slot":            {1, 3, true, 14 * time.Second, 80 * time.Second, 0, 1},
		"cut without the option":          {5, 1, false, time.Minute, 16 * time.Second, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, id := held(t, 1, c.slots, once(c.function, c.frozen), func(o *messages.TrainOptions) { o.Backup = proto.Bool(c.option) })
			got, result := modelOf(t, s, id)
			require.Equal(t, want, got, "bit for bit")
			require.Less(t, result.GetWallS()-plain.GetWallS(), c.costs.Seconds())
			require.Equal(t, c.backups, result.GetEpochs()[1].GetBackups())
			require.EqualValues(t, c.attempts, result.GetRetries())
			require.Zero(t, result.GetLostFunctions())
		})
	}
}

// Whatever freezes and for how long, and whatever messages are lost, repeated
// and late: stragglers and their backups leave no trace in the model, samples
// are trained once, and scratch holds no more than it may.
func TestStragglersLeaveNoTrace(t *testing.T) {
	var backups, cuts uint32
	for seed := range testkit.Seeds(t, 40) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			calm, id := held(t, seed, 4, nil, func(*messages.TrainOptions) {})
			want, plain := modelOf(t, calm, id)
			icy := func(ref *messages.AttemptRef) time.Duration {
				h := uint64(ref.GetEpoch())<<40 ^ uint64(ref.GetRound())<<30 ^ uint64(ref.GetFunction())<<20 ^ uint64(ref.GetAttempt())<<10 ^ uint64(ref.GetTask())
				h = (h ^ seed<<50) * 0x9e3779b97f4a7c15
				if h>>32%8 != 0 || ref.GetTask() == messages.Task_TASK_INIT {
					return 0
				}
				return time.Duration(h>>40%40_000) * time.Millisecond
			}
			s, id := held(t, seed, 5+int(seed%4), icy, func(o *messages.TrainOptions) { o.Backup = proto.Bool(seed%3 > 0) })
			s.Sim.Check(s.check)
			s.Sim.Faults = testkit.Faults{
				Drop: 0.05, Duplicate: 0.05, Delay: 0.1, MaxDelay: 3 * time.Second, Except: []string{"ReleaseTensors"},
			}
			s.checkScratch()
			got, result := modelOf(t, s, id)
			require.Equal(t, want, got)
			for i, e := range result.GetEpochs() {
				require.Equal(t, plain.GetEpochs()[i].GetTrainLoss(), e.GetTrainLoss())
				require.Equal(t, plain.GetEpochs()[i].ValidationLoss, e.ValidationLoss)
				backups += e.GetBackups()
			}
			cuts += result.GetRetries()
		})
	}
	t.Logf("%d backups, %d retries", backups, cuts)
	require.NotZero(t, backups)
	require.NotZero(t, cuts)
}

// What is slow in earnest, on every slot and at every try, is not given up: its
// time doubles with each cut.
func TestWhatIsSlowInEarnestEnds(t *testing.T) {
	s := newSceneOf(t, 1, func(c *sim.Config) {
		c.Slots, c.Data = 2, data(t, 96, 0)
		c.Functions = fake.Config{Base: time.Second, Script: func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
			if inv.Index == 3 {
				b.Took = 50 * time.Second
			}
			return b
		}}
	})
	id := s.submit(t, small(func(o *messages.TrainOptions) { o.K = -1 }))
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.verify(t, id)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.watches[id].Result.GetPhase())
	require.Zero(t, s.watches[id].Result.GetLostFunctions())
}

// Samples that a function cannot be trained on are dropped on request: every
// other one is trained once an epoch, and each dropped one is counted.
func TestBadSamplesAreDroppedAndCounted(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			bad := map[int64]bool{int64(seed % 96): true, int64(3 * seed % 96): true}
			s := newSceneOf(t, seed, func(c *sim.Config) {
				c.Slots, c.Data = 4, data(t, 96, 8)
				c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
					for _, p := range inv.Positions {
						if inv.Task == functions.Train && bad[p] {
							b.Hang, b.Crash, b.Raise, b.Garbage = false, false, seed%2 == 0, 0
							if !b.Raise {
								b.Garbage = fake.NaN
							}
						}
					}
					return b
				}
			})
			s.Sim.Check(s.check)
			s.Sim.Faults = testkit.Faults{Drop: 0.03, Duplicate: 0.05, Delay: 0.1, MaxDelay: 3 * time.Second}
			id := s.submit(t, small(func(o *messages.TrainOptions) { o.K, o.OnBadSamples, o.Retries = 1, "drop", proto.Uint32(30) }))
			s.Sim.RunUntil(s.allEnded, time.Hour)
			result := s.watches[id].Result
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), result.GetFailure().GetText())
			var trained uint64
			for _, e := range result.GetEpochs() {
				require.EqualValues(t, 96, e.GetSamples()+e.GetDroppedSamples())
				require.NotZero(t, e.GetDroppedSamples())
				trained += e.GetSamples()
			}
			saved, _ := s.Models.Get(id)
			counts, err := fake.Counts(saved.Model)
			require.NoError(t, err)
			var sum uint64
			for p, n := range counts {
				require.LessOrEqual(t, n, int64(3))
				if bad[int64(p)] {
					require.Zero(t, n)
				}
				sum += uint64(n)
			}
			require.Equal(t, trained, sum)
			s.leaves(t)
		})
	}
}
