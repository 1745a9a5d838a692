package actors_test

import (
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	models "github.com/troupe-ml/troupe/store/model"
)

// Reported: one function answers NaN, an infinity or 1e38, and the whole model
// is lost. Here that answer is dropped, counted and named, and tried again.
func TestGarbageIsDroppedAndNamed(t *testing.T) {
	for name, garbage := range map[string]float32{
		"NaN": float32(math.NaN()), "Inf": float32(math.Inf(1)), "1e38": 1e38, "minus 1e38": -1e38,
	} {
		t.Run(name, func(t *testing.T) {
			var spoilt atomic.Bool
			c := begin(t, scripted{step: func(c *native.Call, w []float32, _ native.Batch) (float64, error) {
				w[0] = 1
				if c.Index == 1 && c.Epoch == 2 && spoilt.CompareAndSwap(false, true) {
					w[1] = garbage
				}
				return 1, nil
			}}.function())
			o := outcomeOf(t, c, &messages.TrainTask{
				FunctionName: "scripted", Dataset: dataset(t, 32, 1), Epochs: 3,
				Options: &messages.TrainOptions{DefaultParallelism: 2, StaticParallelism: true, K: -1},
			})
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, o.GetPhase(), "%v", o.GetFailure())
			require.EqualValues(t, 1, o.GetRejectedResults())
			require.EqualValues(t, 1, o.GetEpochs()[1].GetRejectedResults())
			require.Len(t, o.failures(), 1)
			require.Contains(t, o.failures()[0].GetFailure().GetText(), `tensor "w"`)
			require.Contains(t, o.failures()[0].GetFailure().GetText(), "at index 1")
			require.Equal(t, []float32{1, 0}, o.model(t)[0].Float32())
		})
	}
}

// A function that diverges for good ends the job with what to look at; a loss
// that is NaN is as bad as a weight.
func TestDivergenceEndsTheJob(t *testing.T) {
	for name, step := range map[string]func(w []float32) float64{
		`tensor "w"`:      func(w []float32) float64 { w[0] = float32(math.NaN()); return 1 },
		"the loss is NaN": func([]float32) float64 { return math.NaN() },
	} {
		t.Run(name, func(t *testing.T) {
			c := begin(t, scripted{step: func(_ *native.Call, w []float32, _ native.Batch) (float64, error) {
				return step(w), nil
			}}.function())
			o := outcomeOf(t, c, &messages.TrainTask{
				FunctionName: "scripted", Dataset: dataset(t, 32, 1), Lr: 0.5,
				Options: &messages.TrainOptions{DefaultParallelism: 1, StaticParallelism: true, K: -1},
			})
			require.Equal(t, messages.Phase_PHASE_FAILED, o.GetPhase())
			require.Equal(t, messages.FailureKind_FAILURE_KIND_REJECTED, o.GetFailure().GetKind())
			require.Contains(t, o.GetFailure().GetText(), "diverged: ")
			require.Contains(t, o.GetFailure().GetText(), name)
			require.Contains(t, o.GetFailure().GetText(), "positions [0,32), lr 0.5; lower --lr")
			require.Empty(t, o.GetModel())
		})
	}
}

// Reported: unweighted averaging is wanted as well. It is an option; the result
// and the card of the model name it, and the model is another one.
func TestUnweightedAveragingShowsInResultAndCard(t *testing.T) {
	for merge, want := range map[string]float32{"average": 1.0 / 3, "average:unweighted": 0.5} {
		t.Run(merge, func(t *testing.T) {
			c := begin(t, scripted{step: func(c *native.Call, w []float32, _ native.Batch) (float64, error) {
				w[0] = float32(c.Index)
				return 1, nil
			}}.function())
			o := outcomeOf(t, c, &messages.TrainTask{
				FunctionName: "scripted", Dataset: dataset(t, 3, 1), Epochs: 1,
				Options: &messages.TrainOptions{DefaultParallelism: 2, StaticParallelism: true, K: -1, Merge: merge},
			})
			require.Equal(t, merge, o.GetMerge())
			require.Equal(t, want, o.model(t)[0].Float32()[0])
			bucket, err := store.Open(t.Context(), "file://"+o.storeOf(t))
			require.NoError(t, err)
			defer bucket.Close()
			card, err := models.New(bucket).Open(t.Context(), o.id)
			require.NoError(t, err)
			require.Equal(t, merge, card.Merge)
		})
	}
}
