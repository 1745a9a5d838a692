package model_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/model"
	"github.com/troupe-ml/troupe/tensor"
)

// everyType is a model with tensors of every type, 0-d and empty ones too.
func everyType() tensor.StateDict {
	spec := func(name string, d tensor.DType, shape ...int64) tensor.Spec {
		return tensor.Spec{Name: name, DType: d, Shape: shape}
	}
	return tensor.StateDict{
		tensor.New(spec("conv.weight", tensor.F32, 2, 1, 2), []float64{0.5, -2, 3, math.Inf(1)}),
		tensor.New(spec("steps", tensor.I64), []float64{-7}),
		tensor.New(spec("f64", tensor.F64, 2), []float64{math.Pi, -0.1}),
		tensor.New(spec("half", tensor.F16, 3), []float64{1, -0.5, 65504}),
		tensor.New(spec("brain", tensor.BF16, 2, 2), []float64{1, -0.5, 0x1p127, 3.140625}),
		tensor.New(spec("i32", tensor.I32, 1), []float64{math.MinInt32}),
		tensor.New(spec("i16", tensor.I16, 1), []float64{-300}),
		tensor.New(spec("i8", tensor.I8, 2), []float64{-128, 127}),
		tensor.New(spec("u8", tensor.U8, 2), []float64{0, 255}),
		tensor.New(spec("mask", tensor.Bool, 1, 3), []float64{1, 0, 1}),
		tensor.New(spec("none", tensor.BF16, 0, 3), []float64{}),
		tensor.New(spec("layers/0.bias ü", tensor.F32, 1), []float64{9}),
	}
}

func weights(t testing.TB, d tensor.StateDict) string {
	t.Helper()
	var b bytes.Buffer
	_, err := tensor.Write(&b, d)
	require.NoError(t, err)
	return b.String()
}

// saved stores a file as a model.
func saved(t testing.TB, s store.Store, file string) (*model.Catalog, model.Model) {
	t.Helper()
	c := model.New(s)
	_, err := c.Save(t.Context(), id, 1, card(), text(file))
	require.NoError(t, err)
	m, err := c.Open(t.Context(), id)
	require.NoError(t, err)
	return c, m
}

func TestExportOfSafetensorsIsTheFile(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, _ *model.Catalog) {
		file := weights(t, everyType())
		c, m := saved(t, s, file)
		var out bytes.Buffer
		notes, err := c.Export(t.Context(), m, "safetensors", &out)
		require.NoError(t, err)
		require.Empty(t, notes)
		require.Equal(t, file, out.String())
	})
}

func TestLayout(t *testing.T) {
	dict := everyType()
	s := store.NewMem()
	c, m := saved(t, s, weights(t, dict))
	layout, err := layoutOf(t, c, m)
	require.NoError(t, err)
	require.Len(t, layout.Entries, len(dict))
	for i, e := range layout.Entries {
		require.Equal(t, dict[i].Name, e.Name)
		require.Equal(t, dict[i].DType, e.DType)
	}
	require.NoError(t, s.Put(t.Context(), m.Key, text("short")))
	_, err = layoutOf(t, c, m)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err = model.File{Card: m.Card, From: strings.NewReader("")}.Layout(stopped)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}

func layoutOf(t *testing.T, c *model.Catalog, m model.Model) (*tensor.Layout, error) {
	r, err := c.Read(t.Context(), m)
	require.NoError(t, err)
	defer r.Close()
	return model.File{Card: m.Card, Name: m.Key, From: r}.Layout(t.Context())
}

// Every value, type and shape arrives; bfloat16 as float32.
func TestExportOfNPZ(t *testing.T) {
	dict := everyType()
	c, m := saved(t, store.NewMem(), weights(t, dict))
	var out bytes.Buffer
	notes, err := c.Export(t.Context(), m, "npz", &out)
	require.NoError(t, err)
	require.Equal(t, []string{"bfloat16 tensors are written as float32, which numpy has: 2"}, notes)

	archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	require.Len(t, archive.File, len(dict))
	types := map[string]string{
		"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "float32", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
	}
	for i, f := range archive.File {
		want := dict[i]
		require.Equal(t, want.Name+".npy", f.Name)
		r, err := f.Open()
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		npy, err := tensor.OpenNpy(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err, want.Name)
		require.Equal(t, types[want.DType.String()], npy.DType.String())
		require.Equal(t, append([]int64{}, want.Shape...), npy.Shape)
		if want.Elements() == 0 {
			continue
		}
		values, positions := make([]float64, npy.Elements()), make([]int64, npy.Rows())
		for i := range positions {
			positions[i] = int64(i)
		}
		require.NoError(t, npy.Float64Rows(values, positions))
		require.Equal(t, want.Float64(), values, want.Name)
	}

	var again bytes.Buffer
	_, err = c.Export(t.Context(), m, "npz", &again)
	require.NoError(t, err)
	require.Equal(t, out.Bytes(), again.Bytes(), "the same model gives the same bytes")
}

// More values than a buffer has are widened.
func TestExportWidensLongTensors(t *testing.T) {
	values := make([]float64, 50_001)
	for i := range values {
		values[i] = float64(i % 256)
	}
	c, m := saved(t, store.NewMem(), weights(t, tensor.StateDict{tensor.New(tensor.Spec{Name: "w", DType: tensor.BF16, Shape: []int64{50_001}}, values)}))
	var out bytes.Buffer
	_, err := c.Export(t.Context(), m, "npz", &out)
	require.NoError(t, err)
	archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	r, err := archive.File[0].Open()
	require.NoError(t, err)
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	npy, err := tensor.OpenNpy(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	for _, at := range []int64{0, 255, 16_383, 16_384, 16_385, 50_000} {
		var got [1]float64
		require.NoError(t, npy.Float64Rows(got[:], []int64{at}))
		require.Equal(t, values[at], got[0], at)
	}
}

func TestExportFindsDamage(t *testing.T) {
	file := weights(t, everyType())
	key := "models/" + id + ".1.safetensors"
	for name, damaged := range map[string]string{
		"a flipped bit":   file[:len(file)-1] + "\x00",
		"a broken header": strings.Replace(file, "conv", "con\xff", 1),
		"another length":  "\xff\xff\xff\xff\xff\xff\xff\x7f" + file[8:],
	} {
		for _, format := range model.Formats() {
			s := store.NewMem()
			c, m := saved(t, s, file)
			require.NoError(t, s.Put(t.Context(), key, text(damaged)))
			_, err := c.Export(t.Context(), m, format, io.Discard)
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s, %s: %v", name, format, err)
			require.ErrorContains(t, err, "export model "+id)
		}
	}
	for _, cut := range []int{0, 5, 100, len(file) - 1} { // after Open has seen its length
		for _, format := range model.Formats() {
			s := store.NewMem()
			c, m := saved(t, s, file)
			require.NoError(t, s.Put(t.Context(), key, text(file[:cut])))
			_, err := c.Export(t.Context(), m, format, io.Discard)
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%d, %s: %v", cut, format, err)
		}
	}
	c, m := saved(t, store.NewMem(), "no safetensors")
	_, err := c.Export(t.Context(), m, "npz", io.Discard)
	require.Equal(t, fault.Corrupt, fault.KindOf(err), "a model that never was one: %v", err)
}

// full is a writer on a full disk.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

func TestExportThatCannotBeWritten(t *testing.T) {
	c, m := saved(t, store.NewMem(), weights(t, everyType()))
	for _, format := range model.Formats() {
		_, err := c.Export(t.Context(), m, format, &full{left: 500})
		require.ErrorContains(t, err, "no space left")
		require.Equal(t, fault.Unavailable, fault.KindOf(err), format)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("stopped by Ctrl-C"))
		_, err = c.Export(ctx, m, format, io.Discard)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
	}
	_, err := c.Export(t.Context(), m, "onnx", io.Discard)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	c, m = saved(t, store.NewMem(), weights(t, tensor.StateDict{tensor.NewInt64(strings.Repeat("x", 70_000), nil, []int64{1})}))
	_, err = c.Export(t.Context(), m, "npz", io.Discard)
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
}

// A file that is no model is Corrupt or of a kind that is not supported;
// another is an archive whole.
func FuzzExportNPZ(f *testing.F) {
	f.Add([]byte(weights(f, everyType())))
	f.Add([]byte(weights(f, tensor.StateDict{})))
	f.Add([]byte("no safetensors"))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, m := saved(t, store.NewMem(), string(file))
		var out bytes.Buffer
		if _, err := c.Export(t.Context(), m, "npz", &out); err != nil {
			require.Contains(t, []fault.Kind{fault.Corrupt, fault.Invalid}, fault.KindOf(err), "%v", err)
			return
		}
		layout, err := tensor.ReadLayout(bytes.NewReader(file), int64(len(file)))
		require.NoError(t, err)
		archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		require.True(t, err == nil || errors.Is(err, zip.ErrInsecurePath), "%v", err)
		require.Len(t, archive.File, len(layout.Entries))
	})
}
