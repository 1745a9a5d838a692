package native_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// script is a Model made of two funcs.
type script struct {
	train    func(native.Batch) (float64, error)
	validate func(native.Batch) (native.Score, error)
}

func (s script) Train(b native.Batch) (float64, error)         { return s.train(b) }
func (s script) Validate(b native.Batch) (native.Score, error) { return s.validate(b) }

// scripted is a function with a model of one number.
func scripted(open func(c *native.Call, w []float32) (native.Model, error)) native.Function {
	return native.Function{
		Name: "own",
		Args: []native.Arg{
			native.Number("rate", 0.5, 0, 1, "a number"),
			native.Integer("units", 3, 1, 10, "a whole number"),
			native.Text("mood", "calm", "any text"),
		},
		Init: func(c *native.Call) error {
			_, err := c.Model.Float32("w", 1)
			return err
		},
		Open: func(c *native.Call) (native.Model, error) {
			w, err := c.Model.Float32("w", 1)
			if err != nil {
				return nil, err
			}
			return open(c, w)
		},
	}
}

// tiny is 5 rows of 2 features.
func tiny(t *testing.T) functions.Data {
	return functionstest.Data(t, []int64{5, 2}, []float32{0, 1, 10, 11, 20, 21, 30, 31, 40, 41}, []int64{0, 1, 2, 3, 4})
}

func modelOf(t *testing.T, dict ...tensor.Tensor) functions.Input {
	t.Helper()
	var out functions.Buffer
	require.NoError(t, functions.WriteDict(&out, dict))
	return out.Input()
}

func train(t *testing.T, data functions.Data) functions.Invocation {
	return functions.Invocation{
		Task: functions.Train, Function: "own", Epoch: 1, N: 1, BatchSize: 2, LR: 0.1, Seed: 1,
		Positions: []int64{4, 0, 3, 1, 2}, Data: data,
		Model: modelOf(t, tensor.NewFloat32("w", []int64{1}, []float32{1})),
	}
}

func newRuntime(t *testing.T, own ...native.Function) *native.Runtime {
	t.Helper()
	r, err := native.New(own...)
	require.NoError(t, err)
	return r
}

func TestAFunctionSeesItsRowsInOrder(t *testing.T) {
	var batches []native.Batch
	r := newRuntime(t, scripted(func(c *native.Call, w []float32) (native.Model, error) {
		require.Equal(t, 0.25, c.Args.Number("rate"))
		require.Equal(t, 3, c.Args.Integer("units"))
		require.Equal(t, "calm", c.Args.Text("mood"))
		return script{train: func(b native.Batch) (float64, error) {
			x, y := append([]float32(nil), b.X...), append([]int64(nil), b.Y...)
			b.X, b.Y = x, y
			batches = append(batches, b)
			w[0]++
			return float64(b.N), nil
		}}, nil
	}))
	inv := train(t, tiny(t))
	inv.Args = map[string]string{"rate": "0.25"}
	var out functions.Buffer
	inv.ModelOut = &out
	answer, err := r.Run(t.Context(), inv)
	require.NoError(t, err)
	require.Equal(t, functions.Answer{Samples: 5, Batches: 3, Loss: (2*2 + 2*2 + 1*1) / 5.0}, answer)
	require.Equal(t, []native.Batch{
		{Index: 0, N: 2, Features: 2, X: []float32{40, 41, 0, 1}, Y: []int64{4, 0}, Positions: []int64{4, 0}},
		{Index: 1, N: 2, Features: 2, X: []float32{30, 31, 10, 11}, Y: []int64{3, 1}, Positions: []int64{3, 1}},
		{Index: 2, N: 1, Features: 2, X: []float32{20, 21}, Y: []int64{2}, Positions: []int64{2}},
	}, batches)
	dict, err := functions.ReadDict(out.Input())
	require.NoError(t, err)
	require.Equal(t, []float32{4}, dict[0].Float32())
}

func TestACancelledFunctionStopsBetweenBatches(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	r := newRuntime(t, scripted(func(c *native.Call, _ []float32) (native.Model, error) {
		return script{train: func(native.Batch) (float64, error) {
			steps++
			if steps == 2 {
				cancel()
				<-c.Context().Done()
			}
			return 0, nil
		}}, nil
	}))
	_, err := r.Run(ctx, train(t, tiny(t)))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, steps)
}

func TestErrorsOfAFunctionHaveAKind(t *testing.T) {
	plain := errors.New("out of luck")
	for name, c := range map[string]struct {
		fail func() error
		kind fault.Kind
		text string
	}{
		"a plain error is user code":   {func() error { return plain }, fault.UserCode, `function "own" failed: out of luck`},
		"an invalid one stays invalid": {func() error { return native.NewInvalid("label %d", 7) }, fault.Invalid, "label 7"},
		"a panic is user code":         {func() error { panic("boom") }, fault.UserCode, `function "own" panicked: boom`},
		"so is a panic with an error":  {func() error { panic(plain) }, fault.UserCode, `function "own" panicked: out of luck`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, scripted(func(*native.Call, []float32) (native.Model, error) {
				return script{train: func(native.Batch) (float64, error) { return 0, c.fail() }}, nil
			}))
			_, err := r.Run(t.Context(), train(t, tiny(t)))
			require.Equal(t, c.kind, fault.KindOf(err))
			require.EqualError(t, err, c.text)
			require.Equal(t, c.kind == fault.UserCode, fault.TraceOf(err) != "")
		})
	}
}

func TestAFunctionWithoutAccuracyCountsNothing(t *testing.T) {
	f := scripted(func(*native.Call, []float32) (native.Model, error) {
		return script{validate: func(b native.Batch) (native.Score, error) {
			return native.Score{Loss: float64(b.N), Correct: b.N}, nil
		}}, nil
	})
	inv := train(t, tiny(t))
	inv.Task = functions.Val
	answer, err := newRuntime(t, f).Run(t.Context(), inv)
	require.NoError(t, err)
	require.Equal(t, functions.Answer{Samples: 5, Batches: 3, Loss: 5, Correct: 5, HasAccuracy: true}, answer)
	f.NoAccuracy = true
	answer, err = newRuntime(t, f).Run(t.Context(), inv)
	require.NoError(t, err)
	require.Equal(t, functions.Answer{Samples: 5, Batches: 3, Loss: 5}, answer)
}

func TestWhatCannotWorkIsInvalidAndSaysWhy(t *testing.T) {
	x, y := []float32{1, 2, 3, 4}, []int64{0, 1, 0, 1}
	good := functionstest.Data(t, []int64{4, 1}, x, y)
	r := newRuntime(t)
	for name, c := range map[string]struct {
		change func(*functions.Invocation)
		text   string
	}{
		"unknown argument":      {func(inv *functions.Invocation) { inv.Args = map[string]string{"hiden": "4"} }, `no argument "hiden": it takes hidden, momentum, clip`},
		"argument not a number": {func(inv *functions.Invocation) { inv.Args = map[string]string{"momentum": "much"} }, `momentum="much"`},
		"argument NaN":          {func(inv *functions.Invocation) { inv.Args = map[string]string{"momentum": "NaN"} }, "from 0 to 0.9999"},
		"argument out of range": {func(inv *functions.Invocation) { inv.Args = map[string]string{"hidden": "0"} }, "from 1 to 65536"},
		"x of one dimension":    {func(inv *functions.Invocation) { inv.Data = functionstest.Data(t, []int64{4}, x, y) }, "reshape"},
		"x without features":    {func(inv *functions.Invocation) { inv.Data = functionstest.Data(t, []int64{4, 0}, nil, y) }, "at least one feature"},
		"more x than y":         {func(inv *functions.Invocation) { inv.Data = functionstest.Data(t, []int64{4, 1}, x, y[:3]) }, "4 rows of x and 3 of y"},
		"other features":        {func(inv *functions.Invocation) { inv.Data = functionstest.Data(t, []int64{4, 2}, append(x, x...), y) }, "2 features"},
		"label too high": {func(inv *functions.Invocation) {
			inv.Data = functionstest.Data(t, []int64{4, 1}, x, []int64{0, 1, 2, 0})
		}, "label 2 of row 2 is not in [0, 2)"},
		"negative label": {func(inv *functions.Invocation) {
			inv.Data = functionstest.Data(t, []int64{4, 1}, x, []int64{-1, 1, 0, 0})
		}, "label -1"},
		"model of another one": {func(inv *functions.Invocation) {
			inv.Model = modelOf(t, tensor.NewFloat32("w", []int64{1}, []float32{1}))
		}, "another function"},
		"no learning rate": {func(inv *functions.Invocation) { inv.LR = math.NaN() }, "learning rate"},
		"infer, no data":   {func(inv *functions.Invocation) { inv.Task = functions.Infer }, "no list of points"},
	} {
		t.Run(name, func(t *testing.T) {
			var model functions.Buffer
			inv := functions.Invocation{Task: functions.Init, Function: "mlp", Data: good, ModelOut: &model, Seed: 1}
			_, err := r.Run(t.Context(), inv)
			require.NoError(t, err)
			inv = functions.Invocation{
				Task: functions.Train, Function: "mlp", Data: good, Model: model.Input(),
				Epoch: 1, N: 1, BatchSize: 2, LR: 0.1, Positions: []int64{0, 1, 2, 3},
			}
			c.change(&inv)
			_, err = r.Run(t.Context(), inv)
			require.Equal(t, fault.Invalid, fault.KindOf(err), err)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestInitRefusesDataThatCannotWork(t *testing.T) {
	nan := float32(math.NaN())
	for text, data := range map[string]functions.Data{
		"label -1 of training row 1": functionstest.Data(t, []int64{2, 1}, []float32{1, 2}, []int64{0, -1}),
		"label 1048576 of training":  functionstest.Data(t, []int64{2, 1}, []float32{1, 2}, []int64{0, 1 << 20}),
		"feature 1 of x":             functionstest.Data(t, []int64{2, 2}, []float32{1, 2, 3, nan}, []int64{0, 1}),
		"0 samples":                  functionstest.Data(t, []int64{0, 1}, nil, nil),
	} {
		_, err := newRuntime(t).Run(t.Context(), functions.Invocation{Task: functions.Init, Function: "mlp", Data: data})
		require.Equal(t, fault.Invalid, fault.KindOf(err), err)
		require.ErrorContains(t, err, text)
	}
}

func TestFunctionsThatCannotWorkAreRefused(t *testing.T) {
	good := scripted(nil)
	for name, c := range map[string]struct {
		change func(*native.Function)
		kind   fault.Kind
	}{
		"no name":           {func(f *native.Function) { f.Name = "" }, fault.Invalid},
		"a path as name":    {func(f *native.Function) { f.Name = "../own" }, fault.Invalid},
		"no Init":           {func(f *native.Function) { f.Init = nil }, fault.Invalid},
		"no Open":           {func(f *native.Function) { f.Open = nil }, fault.Invalid},
		"a built-in's name": {func(f *native.Function) { f.Name = "mlp" }, fault.Conflict},
		"an argument twice": {func(f *native.Function) { f.Args = append(f.Args, f.Args[0]) }, fault.Invalid},
		"a bare argument":   {func(f *native.Function) { f.Args = []native.Arg{{Name: "a"}} }, fault.Invalid},
		"a bad default":     {func(f *native.Function) { f.Args = []native.Arg{native.Number("a", 2, 0, 1, "")} }, fault.Invalid},
	} {
		f := good
		c.change(&f)
		_, err := native.New(f)
		require.Equal(t, c.kind, fault.KindOf(err), "%s: %v", name, err)
	}
	_, err := native.New(good, good)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	names := []string{}
	for _, f := range newRuntime(t, good).Functions() {
		names = append(names, f.Name)
	}
	require.Equal(t, []string{"mlp", "own", "softmax"}, names)
}
