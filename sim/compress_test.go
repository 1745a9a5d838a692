package sim_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

// Encoded answers are at most 0.27 of what they would be, and add up to the same
// model: functions whose changes do not depend on the model end where they would,
// but for half a scale of the last round each, after any number of rounds.
func TestEncodedAnswersAreAQuarterAndAddUp(t *testing.T) {
	const size, n = 20_000, 4
	first := tensor.StateDict{tensor.New(spec("w", tensor.F32, size), make([]float64, size))}
	run := func(compress string) (bytes uint64, rounds int, w []float64) {
		watch, model := trained(t, &custom{first: first, train: func(inv functions.Invocation, model tensor.StateDict) tensor.StateDict {
			rnd := rand.New(rand.NewPCG(inv.Seed, 1))
			v := model[0].Float64()
			for k := range v {
				v[k] += 0.01 * rnd.NormFloat64()
				if k%1000 == 0 {
					v[k] += rnd.NormFloat64() // beside which the others are less than a scale
				}
			}
			return tensor.StateDict{tensor.New(model[0].Spec, v)}
		}}, n, 64, func(o *messages.TrainOptions) { o.K, o.StaticParallelism, o.Compress = 1, true, compress })
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, watch.Result.GetPhase())
		for _, m := range merges(watch) {
			bytes, rounds = bytes+m.GetMergeBytes(), rounds+1
		}
		return bytes, rounds, model[0].Float64()
	}
	whole, rounds, want := run("none")
	encoded, same, got := run("int8")
	require.Equal(t, rounds, same)
	require.Greater(t, rounds, 10)
	t.Logf("%d rounds: %d and %d bytes, %.4f", rounds, whole, encoded, float64(encoded)/float64(whole))
	require.LessOrEqual(t, float64(encoded), 0.27*float64(whole))
	for k := range want {
		const scale = 4.5 / 127 // of the largest change that is drawn
		require.InDelta(t, want[k], got[k], scale/2+float64(rounds)*0x1p-22*math.Max(1, math.Abs(want[k])), "%d after %d rounds", k, rounds)
	}
}
