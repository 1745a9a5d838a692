package native_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/internal/fault"
)

// corners is a model of two classes that lie apart: at (-4, 0) and (4, 0).
func corners(t *testing.T, r *native.Runtime, function string) functions.Input {
	t.Helper()
	const n = 64
	x, y := make([]float32, 2*n), make([]int64, n)
	for i := range y {
		y[i] = int64(i % 2)
		x[2*i], x[2*i+1] = float32(8*y[i]-4), float32(i%5)-2
	}
	data := functionstest.Data(t, []int64{n, 2}, x, y)
	var first, model functions.Buffer
	_, err := r.Run(t.Context(), functions.Invocation{Task: functions.Init, Function: function, Data: data, ModelOut: &first, Seed: 1})
	require.NoError(t, err)
	_, err = r.Run(t.Context(), functions.Invocation{
		Task: functions.Train, Function: function, Data: data, Model: first.Input(), ModelOut: &model,
		BatchSize: 8, LR: 0.5, Positions: functionstest.Range(n),
	})
	require.NoError(t, err)
	return model.Input()
}

func TestInfer(t *testing.T) {
	r, err := native.New(raises())
	require.NoError(t, err)
	for _, function := range []string{"softmax", "mlp"} {
		inv := functions.Invocation{Task: functions.Infer, Function: function, Model: corners(t, r, function), Infer: json.RawMessage(`[[-4, 0], [[4], [1]]]`)}
		answer, err := r.Run(t.Context(), inv)
		require.NoError(t, err)
		var p [][]float64
		require.NoError(t, json.Unmarshal(answer.Predictions, &p))
		require.Len(t, p, 2)
		for i, row := range p {
			require.Len(t, row, 2)
			require.InDelta(t, 1, row[0]+row[1], 1e-12, "probabilities")
			require.Greater(t, row[i], 0.9, "of the right class: %v", p)
		}

		many := make([][2]float32, 1000)
		inv.Infer, err = json.Marshal(many)
		require.NoError(t, err)
		answer, err = r.Run(t.Context(), inv)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(answer.Predictions, &p))
		require.Len(t, p, len(many))
	}
}

func TestInferRefuses(t *testing.T) {
	r, err := native.New(raises())
	require.NoError(t, err)
	model := corners(t, r, "softmax")
	for text, says := range map[string]string{
		"":                      "no list of points",
		"7":                     "no list of points",
		"[]":                    "no list of points",
		`[[1,2],["a",2]]`:       "point 1 of the data holds what is no number",
		`[[1,2],[1e300,2]]`:     "point 1 of the data holds what is no number",
		`[[1,2],[1,2],[1]]`:     "point 2 of the data has 1 numbers, the first has 2",
		`[[1,2],[1,2],[1,2,3]]`: "point 2 of the data has 3 numbers, the first has 2",
		`[[]]`:                  "point 0 of the data has 0 numbers",
		`[[1,2,3]]`:             "has 3 features, the model was made for 2",
	} {
		_, err := r.Run(t.Context(), functions.Invocation{Task: functions.Infer, Function: "softmax", Model: model, Infer: json.RawMessage(text)})
		require.Equal(t, fault.Invalid, fault.KindOf(err), fmt.Sprint(text, err))
		require.ErrorContains(t, err, says)
	}
	_, err = r.Run(t.Context(), functions.Invocation{Task: functions.Infer, Function: "raises", Model: model, Infer: json.RawMessage("[[1]]")})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "answers no data points")
}
