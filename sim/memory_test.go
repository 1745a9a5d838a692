//go:build !invariants

package sim_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// Reported: memory and goroutines grow with the rounds. Here a thousand rounds
// of a thousand functions, a million invocations, leave the heap flat within
// 10 % between rounds 200 and 1000, and the goroutines as they were. It runs
// without the checks of invariants, which look at a thousand functions after
// each of eight million messages; `make test` runs it beside the others.
func TestAThousandRoundsOfAThousandFunctionsTakeNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	goroutines := runtime.NumGoroutine()
	heaps := map[uint32]uint64{}
	t.Run("the job", func(t *testing.T) {
		s := testkit.New(t, 1)
		company, err := sim.New(s, sim.Config{
			Slots: 1000, Data: data(t, 20_000, 0), Log: zap.NewNop(), Policy: wild{s.Rand()},
			Functions: fake.Config{Base: 10 * time.Millisecond},
		})
		require.NoError(t, err)
		_, err = company.Submit(&messages.TrainTask{
			FunctionName: fake.NoOp, Dataset: "zeros", Epochs: 50, BatchSize: 1, Lr: 0.1,
			Options: &messages.TrainOptions{
				DefaultParallelism: 1000, MaxParallelism: 1000, StaticParallelism: true, K: 1, ValidateEvery: -1,
			},
		})
		require.NoError(t, err)
		for _, round := range []uint32{200, 1000} {
			s.RunUntil(func() bool { return company.Runner.Started >= int(round)*1000+1 }, 24*time.Hour)
			heaps[round] = heap()
		}
		require.InEpsilon(t, heaps[200], heaps[1000], 0.1, "bytes of heap at rounds 200 and 1000")
	})
	t.Logf("heap: %v", heaps)
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

// heap returns the bytes that are alive.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
