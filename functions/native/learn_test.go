package native_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
)

// rings is n points in the plane, in three rings around the origin: no line
// parts them.
func rings(t *testing.T, n int, seed uint64) functions.Data {
	r := rand.New(rand.NewPCG(seed, 1))
	x, y := make([]float32, 0, 2*n), make([]int64, 0, n)
	for range n {
		label := r.Int64N(3)
		radius, angle := 100*(float64(label)+0.5+0.6*(r.Float64()-0.5)), 2*math.Pi*r.Float64()
		x = append(x, float32(radius*math.Cos(angle)), float32(1e-3*radius*math.Sin(angle)+7))
		y = append(y, label)
	}
	return functionstest.Data(t, []int64{int64(n), 2}, x, y)
}

// fit trains function for some epochs and returns its accuracy on other data
// and the model's bytes.
func fit(t *testing.T, function string, epochs int) (accuracy float64, model []byte) {
	t.Helper()
	r := newRuntime(t)
	data, test := rings(t, 600, 1), rings(t, 300, 2)
	var m, o functions.Buffer
	_, err := r.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: function, Data: data, ModelOut: &m, Seed: 3})
	require.NoError(t, err)
	for epoch := 1; epoch <= epochs; epoch++ {
		positions := functionstest.Range(data.Samples)
		rand.New(rand.NewPCG(uint64(epoch), 4)).Shuffle(len(positions), func(i, j int) {
			positions[i], positions[j] = positions[j], positions[i]
		})
		var nextModel, nextOptimizer functions.Buffer
		_, err := r.Run(t.Context(), functions.Invocation{
			Task: functions.Train, Function: function, Data: data, Epoch: epoch, N: 1, BatchSize: 32, LR: 0.05, Positions: positions,
			Model: m.Input(), Optimizer: o.Input(), ModelOut: &nextModel, OptimizerOut: &nextOptimizer,
		})
		require.NoError(t, err)
		m, o = nextModel, nextOptimizer
	}
	answer, err := r.Run(t.Context(), functions.Invocation{
		Task: functions.Val, Function: function, Data: test, BatchSize: 64, Positions: functionstest.Range(test.Samples), Model: m.Input(),
	})
	require.NoError(t, err)
	return answer.Correct / float64(answer.Samples), m.Bytes()
}

func TestMLPLearnsWhatSoftmaxCannot(t *testing.T) {
	mlp, _ := fit(t, "mlp", 20)
	require.Greater(t, mlp, 0.95)
	softmax, _ := fit(t, "softmax", 20)
	require.Less(t, softmax, 0.6)
	require.Greater(t, softmax, 0.25)
}

// One batch of 600 rows at 512 units is enough for BLAS to go parallel.
func TestResultsDoNotDependOnTheNumberOfProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := newRuntime(t)
	data := rings(t, 600, 1)
	var model functions.Buffer
	args := map[string]string{"hidden": "512"}
	_, err := r.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: "mlp", Args: args, Data: data, ModelOut: &model, Seed: 3})
	require.NoError(t, err)
	var want []byte
	for _, procs := range []int{1, 2, 4, 7, 4, 1} {
		runtime.GOMAXPROCS(procs)
		var out functions.Buffer
		_, err := r.Run(t.Context(), functions.Invocation{
			Task: functions.Train, Function: "mlp", Args: args, Data: data, Epoch: 1, N: 1, BatchSize: 300, LR: 0.05,
			Positions: functionstest.Range(600), Model: model.Input(), ModelOut: &out,
		})
		require.NoError(t, err)
		if want == nil {
			want = out.Bytes()
		}
		require.Equal(t, want, out.Bytes(), "GOMAXPROCS %d", procs)
	}
}
