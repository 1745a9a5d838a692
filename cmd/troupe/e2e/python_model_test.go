package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/tensor"
)

// Every type of tensor, with dimensions and without, survives init, train,
// merge and export: bits, shape and order.
func TestE2EPythonTypes(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	data := h.samples(t, 8, 4, 2)
	r := h.run(t, program(t, "dtypes.py"), "-d", data, "-e", "1", "-b", "4", "-p", "2", "--static")
	// Of two functions one added a quarter and the other a half: the mean; one
	// added 1 and the other 2: the maximum; each set its own flag.
	fractions := []float64{0.375, 0.625, 0.875, 1.125, 1.375, 1.625}
	type want struct {
		name   string
		dtype  tensor.DType
		shape  []int64
		values []float64
		numpy  string
	}
	var all []want
	for _, f := range []want{
		{name: "f16", dtype: tensor.F16, numpy: "float16"},
		{name: "bf16", dtype: tensor.BF16, numpy: "float32"}, // numpy has none
		{name: "f32", dtype: tensor.F32, numpy: "float32"},
		{name: "f64", dtype: tensor.F64, numpy: "float64"},
	} {
		all = append(all, want{f.name, f.dtype, []int64{2, 3}, fractions, f.numpy}, want{f.name + "_0d", f.dtype, []int64{}, []float64{1.875}, f.numpy})
	}
	for _, w := range []want{
		{name: "i64", dtype: tensor.I64, numpy: "int64"},
		{name: "i32", dtype: tensor.I32, numpy: "int32"},
		{name: "i16", dtype: tensor.I16, numpy: "int16"},
		{name: "i8", dtype: tensor.I8, numpy: "int8"},
		{name: "u8", dtype: tensor.U8, numpy: "uint8"},
	} {
		all = append(all, want{w.name, w.dtype, []int64{3}, []float64{2, 3, 4}, w.numpy}, want{w.name + "_0d", w.dtype, []int64{}, []float64{9}, w.numpy})
	}
	all = append(all,
		want{"flags", tensor.Bool, []int64{3}, []float64{1, 1, 0}, "bool"},
		want{"flag_0d", tensor.Bool, []int64{}, []float64{1}, "bool"},
		want{"empty", tensor.F32, []int64{0, 3}, []float64{}, "float32"},
	)

	exported := filepath.Join(h.dir, "out.safetensors")
	require.Zero(t, h.troupe(t, "model", "export", "-n", r.JobID, "-o", exported).code)
	model := tensors(t, exported)
	require.Len(t, model, len(all))
	for i, w := range all {
		require.Equal(t, tensor.Spec{Name: w.name, DType: w.dtype, Shape: w.shape}, model[i].Spec)
		require.Equal(t, w.values, model[i].Float64(), w.name)
	}

	exported = filepath.Join(h.dir, "out.npz")
	require.Zero(t, h.troupe(t, "model", "export", "-n", r.JobID, "-o", exported).code)
	var arrays map[string]struct {
		DType  string `json:"dtype"`
		Shape  []int64
		Values []any
	}
	require.NoError(t, json.Unmarshal([]byte(python(t, "npz.py", exported)), &arrays))
	require.Len(t, arrays, len(all))
	for _, w := range all {
		got := arrays[w.name]
		require.Equal(t, w.numpy, got.DType, w.name)
		require.Equal(t, w.shape, got.Shape, w.name)
		require.Len(t, got.Values, len(w.values), w.name)
		for i, v := range got.Values {
			if flag, ok := v.(bool); ok {
				v = map[bool]float64{true: 1}[flag]
			}
			require.Equal(t, w.values[i], v, w.name)
		}
	}

	for also, kind := range map[string]string{
		"complex": "complex (torch.complex64)", "quantised": "quantised (torch.qint8)", "sparse": "sparse (torch.sparse_coo)",
	} {
		t.Run(also, func(t *testing.T) {
			r, e := h.fail(t, program(t, "dtypes.py"), "-d", data, "-e", "1", "--env", "ALSO="+also)
			require.Contains(t, r.Error, "model tensor 'also' is "+kind+", which a model file cannot hold: register it as")
			require.Contains(t, e.err, kind)
			require.Zero(t, r.Retries, "no repetition can help")
		})
	}
}

// Nets with BatchNorm train whatever becomes of the optimizer's state, and two
// functions end where one does: means over three seeds.
func TestE2EPythonBatchNorm(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const epochs = 8
	train := func(flags ...string) result {
		return h.run(t, append([]string{program(t, "norm"), "-d", "digits", "-e", fmt.Sprint(epochs), "-b", "32", "--lr", "0.05", "--static"}, flags...)...)
	}
	const seeds = 3
	var one, two float64
	for seed := range seeds {
		one += train("-p", "1", "--seed", fmt.Sprint(seed)).Accuracy / seeds
		r := train("-p", "2", "--seed", fmt.Sprint(seed))
		two += r.Accuracy / seeds
		for _, name := range []string{"layers.1.num_batches_tracked", "layers.5.num_batches_tracked"} {
			counter, ok := tensors(t, r.path(t)).Get(name)
			require.True(t, ok)
			require.Equal(t, tensor.Spec{Name: name, DType: tensor.I64, Shape: []int64{}}, counter.Spec)
			require.Equal(t, []int64{epochs * (16 + 7)}, counter.Int64(), "the batches of one function: 1437 samples are 2*16*32 and 413")
		}
	}
	t.Logf("mean accuracy: %.2f %% with one function, %.2f %% with two", one, two)
	require.Greater(t, one, 95.0)
	require.GreaterOrEqual(t, two, one-1, "percent")
	for _, state := range []string{"keep", "reset", "average"} {
		r := train("-p", "2", "--optimizer-state", state)
		t.Logf("--optimizer-state %s: %.2f %%", state, r.Accuracy)
		require.GreaterOrEqual(t, r.Accuracy, one-2, state)
	}
}

// A model is worth to plain PyTorch what its job reported, and answers alike.
func TestE2EPythonPlainPyTorchAgrees(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	digits, err := filepath.Abs("../../../store/dataset/data/digits.csv.gz")
	require.NoError(t, err)
	r := h.run(t, program(t, "norm"), "-d", digits, "-e", "2", "-b", "32", "--lr", "0.05", "-p", "2")
	arrays := map[string]string{}
	for _, path := range files(t, filepath.Join(h.store, "datasets")) {
		arrays[filepath.Base(path)] = path
	}
	var plain struct {
		Accuracy, Loss float64
		Predictions    json.RawMessage
		Data           [][]float64
	}
	require.NoError(t, json.Unmarshal([]byte(python(t, "plain.py", r.path(t), arrays["test-x.npy"], arrays["test-y.npy"])), &plain))
	require.Greater(t, r.Accuracy, 90.0)
	require.InDelta(t, plain.Accuracy, r.Accuracy, 1e-9)
	require.InEpsilon(t, plain.Loss, r.ValidationLoss, 1e-5, "float32 means of batches")

	question, err := json.Marshal(plain.Data)
	require.NoError(t, err)
	e := h.troupe(t, "infer", "-n", r.JobID, "--datafile", h.save(t, "question.json", question))
	require.Zero(t, e.code, e.err)
	var answer struct{ Predictions json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(e.out), &answer))
	require.JSONEq(t, string(plain.Predictions), string(answer.Predictions))
	require.True(t, bytes.HasPrefix(answer.Predictions, []byte("[")))
	require.Empty(t, h.processes(t))
	require.False(t, strings.Contains(e.err, "warning"), e.err)
}
