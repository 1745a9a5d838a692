package native_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/tensor"
)

// loss is the mean cross-entropy of the mlp of those parameters on rows that
// are standardised already, in float64, one obvious loop at a time.
func loss(p map[string][]float64, x [][]float64, y []int64, hidden, classes int) float64 {
	var sum float64
	for i, row := range x {
		h := make([]float64, hidden)
		for k := range h {
			h[k] = p["hidden.bias"][k]
			for j, v := range row {
				h[k] += v * p["hidden.weight"][j*hidden+k]
			}
			h[k] = max(h[k], 0)
		}
		var total, own float64
		for c := range classes {
			z := p["output.bias"][c]
			for k, v := range h {
				z += v * p["output.weight"][k*classes+c]
			}
			total += math.Exp(z)
			if int64(c) == y[i] {
				own = z
			}
		}
		sum += math.Log(total) - own
	}
	return sum / float64(len(x))
}

// Two steps of SGD with momentum, against gradients by central differences of
// the oracle in float64. Differences err by about h^2 = 1e-10, float32 by about
// 1e-7 a step: 1e-5 leaves room for ten sums.
func TestMLPStepsAlongTheGradient(t *testing.T) {
	const hidden, classes, lr, momentum = 5, 3, 0.3, 0.8
	x := []float32{0.1, -1.2, 2, 0.4, 0.9, -0.3, 1.5, 1.1, -0.7, -2, 0.2, 0.6}
	y := []int64{0, 2, 1, 2}
	data := functionstest.Data(t, []int64{4, 3}, x, y)
	r := newRuntime(t)
	args := map[string]string{"hidden": "5", "momentum": "0.8", "clip": "0"}
	var model functions.Buffer
	_, err := r.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: "mlp", Args: args, Data: data, ModelOut: &model, Seed: 11})
	require.NoError(t, err)
	p := params(t, model.Input())
	rows := make([][]float64, 4)
	for i := range rows {
		for j := range 3 {
			rows[i] = append(rows[i], (float64(x[3*i+j])-p["input.mean"][j])*p["input.scale"][j])
		}
	}

	buffers := map[string][]float64{}
	var optimizer functions.Buffer
	for step := range 2 {
		var next, nextOptimizer functions.Buffer
		answer, err := r.Run(t.Context(), functions.Invocation{
			Task: functions.Train, Function: "mlp", Args: args, Data: data, Epoch: 1, N: 1, BatchSize: 4, LR: lr,
			Positions: []int64{2, 0, 3, 1}, Model: model.Input(), Optimizer: optimizer.Input(), ModelOut: &next, OptimizerOut: &nextOptimizer,
		})
		require.NoError(t, err)
		require.InDelta(t, loss(p, rows, y, hidden, classes), answer.Loss, 1e-5)

		want := map[string][]float64{}
		for _, name := range []string{"hidden.weight", "hidden.bias", "output.weight", "output.bias"} {
			if step == 0 {
				buffers[name] = make([]float64, len(p[name]))
			}
			for i, w := range p[name] {
				const h = 1e-5
				p[name][i] = w + h
				up := loss(p, rows, y, hidden, classes)
				p[name][i] = w - h
				down := loss(p, rows, y, hidden, classes)
				p[name][i] = w
				buffers[name][i] = momentum*buffers[name][i] + (up-down)/(2*h)
				want[name] = append(want[name], w-lr*buffers[name][i])
			}
		}
		got, state := params(t, next.Input()), params(t, nextOptimizer.Input())
		for name, w := range want {
			require.InDeltaSlice(t, w, got[name], 1e-5, "step %d, %s", step, name)
			require.InDeltaSlice(t, buffers[name], state[name+".momentum"], 1e-5, "step %d, %s", step, name)
		}
		require.Equal(t, p["input.mean"], got["input.mean"])
		model, optimizer, p = next, nextOptimizer, got
	}
}

// Without momentum a step of rate 1 is the gradient itself, as it was followed.
func TestAGradientIsFollowedUpToTheClip(t *testing.T) {
	data := functionstest.Data(t, []int64{2, 1}, []float32{1, 3}, []int64{0, 1})
	r := newRuntime(t)
	length := func(clip string) float64 {
		var before, after functions.Buffer
		args := map[string]string{"momentum": "0", "clip": clip}
		_, err := r.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: "softmax", Args: args, Data: data, ModelOut: &before})
		require.NoError(t, err)
		answer, err := r.Run(t.Context(), functions.Invocation{
			Task: functions.Train, Function: "softmax", Args: args, Data: data, Epoch: 1, N: 1, BatchSize: 2, LR: 1,
			Positions: []int64{0, 1}, Model: before.Input(), ModelOut: &after, OptimizerOut: new(functions.Buffer),
		})
		require.NoError(t, err)
		require.False(t, answer.HasOptimizer)
		var squares float64
		was := params(t, before.Input())
		for name, w := range params(t, after.Input()) {
			for i := range w {
				squares += (w[i] - was[name][i]) * (w[i] - was[name][i])
			}
		}
		return math.Sqrt(squares)
	}
	full := length("0") // x is -1 and 1, p is 1/2: the weights' gradient is (1/2, -1/2), the biases' 0
	require.InDelta(t, math.Sqrt(0.5), full, 1e-6)
	require.InDelta(t, full, length("1"), 1e-6)
	require.InDelta(t, 0.25, length("0.25"), 1e-6)
}

func params(t *testing.T, in functions.Input) map[string][]float64 {
	t.Helper()
	dict, err := tensor.Read(in.R, in.Size)
	require.NoError(t, err)
	p := map[string][]float64{}
	for _, tensor := range dict {
		p[tensor.Name] = tensor.Float64()
	}
	return p
}
