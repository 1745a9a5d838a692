package actors_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

// Reported: epochs whose size does not divide hang or lose samples, and a
// validation spread over workers says something else than one worker does.
// Here, for every N and every odd number of samples, the job ends, each sample
// is trained once an epoch, and loss and accuracy of the model that it stores
// are those that one worker finds, within 1e-9.
func TestEveryNumberOfSamplesIsTrainedAndValidatedExactly(t *testing.T) {
	const tests = 1100 // three blocks
	c := begin(t)
	alone, err := native.New()
	require.NoError(t, err)
	for n := 1; n <= 8; n++ {
		for _, samples := range []int{1, 63, 64, 65, n - 1, n + 1} {
			if samples == 0 {
				continue // there is no such data set
			}
			for _, function := range []string{"softmax", "mlp"} {
				t.Run(fmt.Sprintf("%s/N=%d/samples=%d", function, n, samples), func(t *testing.T) {
					folder := dataset(t, samples, tests)
					task := &messages.TrainTask{
						FunctionName: function, Dataset: folder, Epochs: 2, BatchSize: 16, Lr: 0.1,
						Options: &messages.TrainOptions{DefaultParallelism: uint32(n), StaticParallelism: true, K: 2},
					}
					if function == "mlp" {
						task.Options.Args = map[string]string{"hidden": "8"}
					}
					o := outcomeOf(t, c, task)
					require.Equal(t, messages.Phase_PHASE_SUCCEEDED, o.GetPhase(), "%v", o.GetFailure())
					require.Len(t, o.GetEpochs(), 2)
					for _, e := range o.GetEpochs() {
						require.EqualValues(t, samples, e.GetSamples())
					}
					var model functions.Buffer
					require.NoError(t, functions.WriteDict(&model, o.model(t)))
					answer, err := alone.Run(t.Context(), functions.Invocation{
						Task: functions.Val, Function: function, BatchSize: tests, Args: task.Options.Args,
						Positions: positions(tests), Data: split(t, folder, "test", tests), Model: model.Input(),
					})
					require.NoError(t, err)
					require.InEpsilon(t, answer.Loss/tests, o.GetValidationLoss(), 1e-9)
					require.InEpsilon(t, 100*answer.Correct/tests, o.GetAccuracy(), 1e-9)
				})
			}
		}
	}
}

func positions(n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

// split opens a part of a data set as a runtime gets it.
func split(t *testing.T, folder, part string, samples int64) functions.Data {
	return functions.Data{X: openFile(t, folder+"/x_"+part+".npy"), Y: openFile(t, folder+"/y_"+part+".npy"), Samples: samples}
}

// Reported: the int64 counter of a BatchNorm comes back as a float, or with
// another shape, and counts wrong. Here it is the same from init through
// training and merging to the stored model: the highest of a round's.
func TestACounterSurvivesFromInitToTheStoredModel(t *testing.T) {
	c := begin(t, scripted{
		first: func(c *native.Call) error {
			counter, err := c.Model.Int64("num_batches_tracked") // no dimensions
			if err != nil {
				return err
			}
			counter[0] = 40
			_, err = c.Model.Float64("running_var", 1, 2)
			return err
		},
		step: func(c *native.Call, w []float32, b native.Batch) (float64, error) {
			counter, err := c.Model.Int64("num_batches_tracked")
			if err != nil {
				return 0, err
			}
			variance, err := c.Model.Float64("running_var", 1, 2)
			if err != nil {
				return 0, err
			}
			counter[0]++
			variance[0], variance[1] = 0.1, float64(c.Index)
			w[0] = 7
			return 1, nil
		},
	}.function())
	o := outcomeOf(t, c, &messages.TrainTask{
		FunctionName: "scripted", Dataset: dataset(t, 30, 1), Epochs: 2, BatchSize: 2,
		Options: &messages.TrainOptions{DefaultParallelism: 4, StaticParallelism: true, K: -1},
	})
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, o.GetPhase(), "%v", o.GetFailure())
	model := o.model(t)
	require.Len(t, model, 3)
	counter, ok := model.Get("num_batches_tracked")
	require.True(t, ok)
	require.Equal(t, tensor.I64, counter.DType)
	require.Empty(t, counter.Shape, "it has no dimensions")
	require.Equal(t, []int64{48}, counter.Int64(), "four batches of each epoch's largest assignment, on top of 40")
	variance, ok := model.Get("running_var")
	require.True(t, ok)
	require.Equal(t, tensor.F64, variance.DType)
	require.Equal(t, []int64{1, 2}, variance.Shape)
	require.InDelta(t, 0.1, variance.Float64()[0], 1e-15)
	w, ok := model.Get("w")
	require.True(t, ok)
	require.Equal(t, []float32{7, 0}, w.Float32())
}
