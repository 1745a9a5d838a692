package native

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// inferBatch is how many points are answered at once.
const inferBatch = 256

// infer answers data points: a JSON list of them gives a list of as many
// predictions.
func (r *run) infer(c *Call) (answer functions.Answer, err error) {
	if err := r.strike(0, r.inv.Sabotage.Batch(0)); err != nil {
		return answer, err
	}
	model, err := r.function.Open(c)
	if err != nil {
		return answer, err
	}
	predictor, ok := model.(Predictor)
	if !ok {
		return answer, NewInvalid("function %q answers no data points: give its Model a method Predict", r.function.Name)
	}
	all := make([]any, 0, c.Rows.Samples)
	for b, err := range c.Rows.All(inferBatch) {
		if err == nil {
			err = r.ctx.Err()
		}
		if err != nil {
			return answer, err
		}
		predictions, err := predictor.Predict(b)
		if err != nil {
			return answer, err
		}
		all = append(all, predictions...)
	}
	answer.Predictions, err = json.Marshal(all)
	if err != nil { // NaN or Inf, which JSON has no way to say
		return functions.Answer{}, fault.New("native.infer", fault.Rejected, "function %q: its predictions cannot be shown: %w", r.function.Name, err)
	}
	return answer, nil
}

// points makes a split of a JSON list of data points, each a number or a list,
// nested in any way, of as many numbers. Labels are 0.
func points(text json.RawMessage) (functions.Data, error) {
	var list []any
	err := json.Unmarshal(text, &list)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && strings.HasPrefix(wrong.Value, "number ") {
		return functions.Data{}, NewInvalid("the data to infer from holds the %s, which is too large for a float32", wrong.Value)
	}
	if err != nil || len(list) == 0 {
		return functions.Data{}, NewInvalid("the data to infer from is no list of points: give JSON like [[1, 2], [3, 4]], one list for each point")
	}
	var values []float32
	width := 0 // of the first point
	for i, point := range list {
		before := len(values)
		var ok bool
		if values, ok = flatten(values, point); !ok {
			return functions.Data{}, NewInvalid("point %d of the data holds what is no number of a float32", i)
		}
		got := len(values) - before
		if i == 0 {
			width = got
		}
		if got != width || got == 0 {
			return functions.Data{}, NewInvalid("point %d of the data has %d numbers, the first has %d: give each as many, at least one", i, got, width)
		}
	}
	n := int64(len(list))
	x := npy(tensor.NpyFloat32, []int64{n, int64(len(values)) / n}, values)
	y := npy(tensor.NpyInt64, []int64{n}, make([]int64, n))
	return functions.Data{X: x, Y: y, Samples: n}, nil
}

// flatten appends the numbers of a point, and reports whether it has only such.
func flatten(values []float32, point any) ([]float32, bool) {
	switch p := point.(type) {
	case float64:
		return append(values, float32(p)), math.Abs(p) <= math.MaxFloat32
	case []any:
		for _, v := range p {
			var ok bool
			if values, ok = flatten(values, v); !ok {
				return values, false
			}
		}
		return values, true
	}
	return values, false
}

// npy is an array as a file in memory.
func npy(t tensor.NpyType, shape []int64, values any) functions.Input {
	var buf bytes.Buffer
	_ = tensor.WriteNpyHeader(&buf, t, shape)           // a buffer takes all
	_ = binary.Write(&buf, binary.LittleEndian, values) // numbers of a fixed size
	return functions.Input{R: bytes.NewReader(buf.Bytes()), Size: int64(buf.Len())}
}
