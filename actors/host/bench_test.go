package host_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/tensor"
)

const (
	samples     = 20 // of the training split in the executor's tests
	testSamples = 10
)

// model is the reference model of the executor's tests.
func model() tensor.StateDict {
	return tensor.StateDict{
		tensor.NewInt64("steps", []int64{}, []int64{3}),
		tensor.NewFloat32("weight", []int64{2, 3}, []float32{1, 2, 3, 4, 5, 6}),
		tensor.NewFloat64("bias", []int64{2}, []float64{0, 0}),
	}
}

// scripted does in Run whatever a test says.
type scripted struct {
	run func(context.Context, functions.Invocation) (functions.Answer, error)
}

func (s *scripted) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	return s.run(ctx, inv)
}
func (s *scripted) Has(function string) bool { return function == "scripted" }
func (s *scripted) Close() error             { return nil }

// files is the data set of the executor's tests, in a folder.
type files dataset.Files

func (f files) Files(context.Context, string, string) (dataset.Files, error) {
	return dataset.Files(f), nil
}

func newFiles(t *testing.T) files {
	t.Helper()
	write := func(name string, typ tensor.NpyType, shape ...int64) string {
		path := filepath.Join(t.TempDir(), name)
		f, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, tensor.WriteNpyHeader(f, typ, shape))
		size := typ.Size()
		for _, n := range shape {
			size *= n
		}
		_, err = f.Write(make([]byte, size))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return path
	}
	return files{
		TrainX: write("train-x.npy", tensor.NpyFloat32, samples, 3), TrainY: write("train-y.npy", tensor.NpyInt64, samples),
		TestX: write("test-x.npy", tensor.NpyFloat32, testSamples, 3), TestY: write("test-y.npy", tensor.NpyInt64, testSamples),
	}
}

// bench is an executor over a scripted runtime, with a reference model.
type bench struct {
	*host.Executor
	runtime *scripted
	space   plane.Space
	model   *messages.TensorRef
}

// newBench returns one whose runtime answers with the reference model itself.
func newBench(t *testing.T, space plane.Space) *bench {
	t.Helper()
	var nonce atomic.Uint64
	b := &bench{space: space, runtime: &scripted{}}
	b.Executor = &host.Executor{
		Runtimes: []functions.Runtime{b.runtime}, Space: space, Datasets: newFiles(t), Threads: 2,
		Nonce: func() uint64 { return nonce.Add(1) },
	}
	b.model = put(t, space, "reference", model())
	b.answers(model(), nil, same)
	return b
}

// answers makes the runtime write dicts and change what it would report.
func (b *bench) answers(model, optimizer tensor.StateDict, change func(functions.Answer) functions.Answer) {
	b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
		if err := functions.WriteDict(inv.ModelOut, model); err != nil {
			return functions.Answer{}, err
		}
		answer := change(answerOf(inv))
		if optimizer != nil {
			answer.HasOptimizer = true
			return answer, functions.WriteDict(inv.OptimizerOut, optimizer)
		}
		return answer, nil
	}
}

func answerOf(inv functions.Invocation) functions.Answer {
	n := len(inv.Positions)
	return functions.Answer{Samples: int64(n), Batches: len(functions.Batches(n, inv.BatchSize)), Loss: 0.5}
}

func same(a functions.Answer) functions.Answer { return a }

// train is an assignment of 7 samples, in batches of 4.
func (b *bench) train() *messages.Invoke {
	return &messages.Invoke{
		Attempt: ref("job", 1, 0, 1), Node: "here",
		Plan: &messages.RoundPlan{
			FunctionName: "scripted", Dataset: "set", DatasetDigest: "digest", Parallelism: 2, K: -1, BatchSize: 4, Lr: 0.1,
			Model: b.model, OrderSize: samples, WantOptimizer: true,
		},
		Ranges: []*messages.Range{{Lo: 2, Hi: 6}, {Lo: 17, Hi: 20}}, Seed: 11,
	}
}

// nothingLeft checks that of an attempt no bytes are left.
func (b *bench) nothingLeft(t *testing.T) {
	t.Helper()
	require.Equal(t, []string{"reference"}, b.space.List(""))
	require.Equal(t, 1, b.space.Usage().Files, "no draft is open")
	if scratch, ok := b.space.(*plane.Scratch); ok {
		entries, err := os.ReadDir(scratch.Folder())
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}

func put(t *testing.T, space plane.Space, key string, dict tensor.StateDict) *messages.TensorRef {
	t.Helper()
	layout, err := dict.Layout()
	require.NoError(t, err)
	draft, err := space.Create(key, layout.Size())
	require.NoError(t, err)
	_, err = tensor.Write(draft, dict)
	require.NoError(t, err)
	ref, err := draft.Seal()
	require.NoError(t, err)
	return &messages.TensorRef{Node: ref.Node, Key: ref.Key, Bytes: uint64(ref.Bytes), Digest: ref.Digest}
}

func get(t *testing.T, space plane.Space, ref *messages.TensorRef) tensor.StateDict {
	t.Helper()
	blob, err := space.Open(t.Context(), plane.Ref{Node: ref.GetNode(), Key: ref.GetKey(), Bytes: int64(ref.GetBytes())})
	require.NoError(t, err)
	defer func() { require.NoError(t, blob.Close()) }()
	dict, err := tensor.Read(blob, blob.Size())
	require.NoError(t, err)
	return dict
}

func scratch(t *testing.T) *plane.Scratch {
	t.Helper()
	s, err := plane.OpenScratch(config.Scratch{Dir: t.TempDir()}, "here", nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
