package bench_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

// BenchmarkCheckpoints says what it costs the rounds of a job that its state is
// stored beside them, on a disk that is synced: after every merge, as often as
// Troupe chooses, and hardly ever. A merge of a small model is much quicker than
// a disk, one of a big model is not. Of several turns the least counts.
func BenchmarkCheckpoints(b *testing.B) {
	for name, model := range map[string]struct{ columns, hidden, rounds, turns int }{
		"model=24KB": {3, 1000, 2000, turns}, "model=100MB": {380, 65536, 8, 3},
	} {
		b.Run(name, func(b *testing.B) {
			n := config.DefaultNode()
			n.Store, n.Slots = "file://"+b.TempDir(), 1
			n.Threads = n.ThreadsPerSlot()
			c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: n})
			require.NoError(b, err)
			defer func() { require.NoError(b, c.Close()) }()
			data := numbers(b, model.rounds, model.columns)
			took := map[time.Duration][]float64{}
			modes := []time.Duration{24 * time.Hour, time.Millisecond, 0} // never, always, auto
			for range b.N {
				for turn := range model.turns {
					for i := range modes {
						every := modes[(turn+i)%len(modes)]
						took[every] = append(took[every], checkpointed(b, c, data, model.hidden, every))
					}
				}
			}
			never, always, auto := slices.Min(took[modes[0]]), slices.Min(took[modes[1]]), slices.Min(took[modes[2]])
			b.ReportMetric(never/float64(model.rounds)*1e3, "ms/round-never")
			b.ReportMetric(always/float64(model.rounds)*1e3, "ms/round-always")
			b.ReportMetric(auto/float64(model.rounds)*1e3, "ms/round-auto")
			b.ReportMetric(always/never, "always/never")
			b.ReportMetric(auto/never, "auto/never")
		})
	}
}

// checkpointed returns the seconds of an epoch of rounds of one sample.
func checkpointed(b *testing.B, c *actors.Company, data string, hidden int, every time.Duration) float64 {
	b.Helper()
	ctx := context.Background()
	job, err := c.StartJob(ctx, &messages.TrainTask{
		FunctionName: "mlp", Dataset: data, Epochs: 1, BatchSize: 1, Lr: 0.01,
		Options: &messages.TrainOptions{
			DefaultParallelism: 1, StaticParallelism: true, ValidateEvery: -1, K: 1, CheckpointEveryMs: uint64(every.Milliseconds()),
			OptimizerState: "reset", Args: map[string]string{"hidden": fmt.Sprint(hidden)},
		},
	})
	require.NoError(b, err)
	result, err := c.WatchJob(ctx, job.ID, ignore)
	require.NoError(b, err)
	require.Equal(b, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), result.GetFailure().GetText())
	return result.GetEpochs()[0].GetTrainingS()
}
