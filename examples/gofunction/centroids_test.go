package gofunction_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/examples/gofunction"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
)

// The suite that checks the runtimes checks a function of one's own as well:
// that it is pure, above all.
func TestCentroidsConform(t *testing.T) {
	functionstest.Run(t, func(t *testing.T) functionstest.Subject {
		runtime, err := gofunction.Register()
		require.NoError(t, err)
		return functionstest.Subject{Runtime: runtime, Function: "centroids"}
	})
}

func TestCentroidsLearn(t *testing.T) {
	data := functionstest.Data(t, []int64{6, 2}, []float32{0, 1, 5, 5, 1, 0, 6, 5, 0, 0, 5, 6}, []int64{0, 1, 0, 1, 0, 1})
	runtime, err := gofunction.Register()
	require.NoError(t, err)
	var first, trained functions.Buffer
	_, err = runtime.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: "centroids", Data: data, ModelOut: &first})
	require.NoError(t, err)
	inv := functions.Invocation{
		Task: functions.Train, Function: "centroids", Data: data, Epoch: 1, N: 1, BatchSize: 2, LR: 0.1,
		Positions: functionstest.Range(6), Model: first.Input(), ModelOut: &trained,
	}
	_, err = runtime.Run(t.Context(), inv)
	require.NoError(t, err)
	inv.Task, inv.Model = functions.Val, trained.Input()
	answer, err := runtime.Run(t.Context(), inv)
	require.NoError(t, err)
	require.Equal(t, 6.0, answer.Correct)
}
