package sim_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// Reported: after scaling, epoch numbers begin again or skip some. Here N
// changes at nearly every epoch, and events and history count 1, 2, …, E.
func TestEpochNumbersGoOnAfterScaling(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newSceneOf(t, seed, func(c *sim.Config) {
				c.Slots, c.Data = 8, data(t, 90, 10)
				c.Policy = wild{rand.New(rand.NewPCG(seed, 7))}
			})
			task := small(func(o *messages.TrainOptions) { o.StaticParallelism = false })
			task.Epochs = 12
			id := s.submit(t, task)
			s.Sim.RunUntil(s.allEnded, time.Hour)
			s.verify(t, id)
			var began, ended []uint32
			sizes := map[uint32]bool{}
			for _, e := range s.watches[id].Events {
				if m := e.GetEpochStarted(); m != nil {
					began = append(began, m.GetEpoch())
					sizes[m.GetParallelism()] = true
				}
				if m := e.GetEpochFinished(); m != nil {
					ended = append(ended, m.GetRecord().GetEpoch())
				}
			}
			want := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
			require.Equal(t, want, began)
			require.Equal(t, want, ended)
			require.Greater(t, len(sizes), 1, "N did change")
		})
	}
}

// Reported: epochs of sizes that do not divide hang, or lose samples. Here each
// sample of the ledger is trained once an epoch, for every N.
func TestEveryNumberOfSamplesIsTrainedExactly(t *testing.T) {
	for n := uint32(1); n <= 8; n++ {
		for _, samples := range []int{1, 63, 64, 65, int(n) - 1, int(n) + 1} {
			if samples == 0 {
				continue // there is no such data set
			}
			t.Run(fmt.Sprintf("N=%d/samples=%d", n, samples), func(t *testing.T) {
				s := newSceneOf(t, 1, func(c *sim.Config) { c.Slots, c.Data = 3, data(t, samples, 5) })
				for _, k := range []int32{-1, 1, 3} {
					task := small(func(o *messages.TrainOptions) { o.DefaultParallelism, o.K = n, k })
					task.BatchSize = 64
					s.submit(t, task)
					task = small(func(o *messages.TrainOptions) { o.DefaultParallelism, o.K = n, k })
					task.BatchSize = 1
					s.submit(t, task)
				}
				s.Sim.RunUntil(s.allEnded, time.Hour)
				for id := range s.watches {
					require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.watches[id].Result.GetPhase())
					s.verify(t, id)
				}
				s.leaves(t)
			})
		}
	}
}
