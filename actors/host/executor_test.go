package host_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/tensor"
)

func TestAnAnswerComesWithItsTensors(t *testing.T) {
	for name, space := range map[string]plane.Space{"files": scratch(t), "memory": plane.NewMemory("here")} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, space)
			optimizer := tensor.StateDict{tensor.NewFloat32("momentum", []int64{1}, []float32{7})}
			var seen functions.Invocation
			b.answers(model(), optimizer, same)
			inner := b.runtime.run
			b.runtime.run = func(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
				seen = inv
				return inner(ctx, inv)
			}
			inv := b.train()
			inv.Optimizer = put(t, space, "before", optimizer)
			answer, err := b.Execute(t.Context(), inv, 3, nil)
			require.NoError(t, err)

			require.Equal(t, []int64{2, 3, 4, 5, 17, 18, 19}, seen.Positions)
			require.Equal(t, []any{functions.Train, 1, 0, 0, 0, 2, 3, 2, -1, 4, 0.1, uint64(11)}, []any{
				seen.Task, seen.Epoch, seen.Round, seen.Index, seen.Attempt, seen.N, seen.Slot,
				seen.Threads, seen.K, seen.BatchSize, seen.LR, seen.Seed,
			})
			require.EqualValues(t, samples, seen.Data.Samples)
			require.Equal(t, int64(inv.GetOptimizer().GetBytes()), seen.Optimizer.Size)

			require.EqualValues(t, 7, answer.GetSamples())
			require.EqualValues(t, 2, answer.GetBatches())
			require.InDelta(t, 0.5, answer.GetLoss(), 0)
			require.Equal(t, model(), get(t, space, answer.GetModel()))
			require.Equal(t, optimizer, get(t, space, answer.GetOptimizer()))
			require.Equal(t, "job/1/1-1-0-1-1/model", answer.GetModel().GetKey())
			require.NotZero(t, answer.GetModel().GetDigest())

			again, err := b.Execute(t.Context(), inv, 3, nil)
			require.NoError(t, err, "a second run of the attempt does not collide with the first")
			require.NotEqual(t, answer.GetModel().GetKey(), again.GetModel().GetKey())

			release := &messages.ReleaseTensors{Step: inv.GetAttempt(), Everything: true}
			require.NoError(t, host.Release(space, release))
			require.NoError(t, space.Remove("before"))
			b.nothingLeft(t)
		})
	}
}

func TestPositionsFollowTheEpochsOrder(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	var seen [][]int64
	b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
		seen = append(seen, inv.Positions)
		return answerOf(inv), functions.WriteDict(inv.ModelOut, model())
	}
	for _, seed := range []uint64{5, 5, 1, 2, 3, 4, 5} { // more orders than are kept
		inv := b.train()
		inv.Plan.Shuffle, inv.Plan.OrderSeed = true, seed
		_, err := b.Execute(t.Context(), inv, 0, nil)
		require.NoError(t, err)
	}
	order := dataset.Permutation(5, samples)
	var want []int64
	for _, i := range []int{2, 3, 4, 5, 17, 18, 19} {
		want = append(want, int64(order[i]))
	}
	require.Equal(t, want, seen[0])
	require.Equal(t, want, seen[1])
	require.NotEqual(t, want, seen[2])
	require.Equal(t, want, seen[6])
}

func TestAValidationReadsTheTestSplitAndWritesNothing(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
		require.Equal(t, functions.Val, inv.Task)
		require.EqualValues(t, testSamples, inv.Data.Samples)
		require.Nil(t, inv.ModelOut)
		require.Nil(t, inv.OptimizerOut)
		a := answerOf(inv)
		a.HasAccuracy, a.Correct = true, 4
		return a, nil
	}
	inv := b.train()
	inv.Attempt.Task, inv.Plan.OrderSize = messages.Task_TASK_VALIDATE, testSamples
	inv.Ranges = []*messages.Range{{Lo: 0, Hi: 5}}
	answer, err := b.Execute(t.Context(), inv, 0, nil)
	require.NoError(t, err)
	require.InDelta(t, 4, answer.GetCorrect(), 0)
	require.True(t, answer.GetHasAccuracy())
	require.Nil(t, answer.GetModel())
	b.nothingLeft(t)
}

func TestAnInitMakesAModelFromNone(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	inv := &messages.Invoke{
		Attempt: &messages.AttemptRef{Job: &messages.JobRef{Id: "job", Incarnation: 1}, Task: messages.Task_TASK_INIT, Attempt: 1},
		Plan:    &messages.RoundPlan{FunctionName: "scripted", BatchSize: 4, OrderSize: samples},
	}
	answer, err := b.Execute(t.Context(), inv, 0, nil)
	require.NoError(t, err)
	require.Equal(t, model(), get(t, b.space, answer.GetModel()))

	bad := model()
	bad[2] = tensor.NewFloat64("bias", []int64{2}, []float64{0, math.NaN()})
	b.answers(bad, nil, same)
	_, err = b.Execute(t.Context(), inv, 0, nil)
	require.Equal(t, fault.Rejected, fault.KindOf(err))
	require.ErrorContains(t, err, "bias")
}

// with returns the reference model with one tensor replaced.
func with(t tensor.Tensor) tensor.StateDict {
	dict := model()
	for i := range dict {
		if dict[i].Name == t.Name {
			dict[i] = t
		}
	}
	return dict
}

// Cases 22 and 26, and all of their kind: what a function answers and no merge
// may take is rejected, with the reason, and leaves nothing behind.
func TestWhatMayNotEnterAMergeIsRejected(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	finite := tensor.StateDict{tensor.NewFloat32("momentum", []int64{2}, []float32{1, 2})}
	counts := func(change func(*functions.Answer)) func(functions.Answer) functions.Answer {
		return func(a functions.Answer) functions.Answer { change(&a); return a }
	}
	tests := map[string]struct {
		model     tensor.StateDict
		optimizer tensor.StateDict
		change    func(functions.Answer) functions.Answer
		says      string
	}{
		"NaN in one tensor":           {model: with(tensor.NewFloat64("bias", []int64{2}, []float64{0, nan})), says: `"bias": NaN at index 1`},
		"infinity in one tensor":      {model: with(tensor.NewFloat64("bias", []int64{2}, []float64{inf, 0})), says: `"bias": +Inf at index 0`},
		"1e38 in one tensor":          {model: with(tensor.NewFloat32("weight", []int64{2, 3}, []float32{1, 2, 3, 1e38, 5, 6})), says: `"weight": 9.99`},
		"another shape":               {model: with(tensor.NewFloat32("weight", []int64{3, 2}, []float32{1, 2, 3, 4, 5, 6})), says: `"weight": shape [3 2] instead of [2 3]`},
		"a counter that grew a shape": {model: with(tensor.NewInt64("steps", []int64{1}, []int64{4})), says: `"steps": shape [1] instead of []`},
		"another dtype":               {model: with(tensor.NewFloat32("bias", []int64{2}, []float32{0, 0})), says: `"bias": dtype F32 instead of F64`},
		"a tensor is missing":         {model: model()[:2], says: `"bias" is missing`},
		"a tensor too many":           {model: append(model(), tensor.NewInt64("more", nil, []int64{1})), says: `"more"`},
		"another order":               {model: tensor.StateDict{model()[1], model()[0], model()[2]}, says: `"weight" stands in the place of "steps"`},
		"NaN in the optimizer state":  {optimizer: tensor.StateDict{tensor.NewFloat32("momentum", []int64{2}, []float32{1, float32(nan)})}, says: `optimizer: tensor "momentum": NaN`},
		"no samples":                  {change: counts(func(a *functions.Answer) { a.Samples = 0 }), says: "0 samples, its assignment has 7"},
		"fewer samples":               {change: counts(func(a *functions.Answer) { a.Samples-- }), says: "6 samples, its assignment has 7"},
		"more samples":                {change: counts(func(a *functions.Answer) { a.Samples++ }), says: "8 samples"},
		"another number of batches":   {change: counts(func(a *functions.Answer) { a.Batches = 7 }), says: "7 batches, 7 samples at 4 make 2"},
		"a loss of NaN":               {change: counts(func(a *functions.Answer) { a.Loss = nan }), says: "loss is NaN"},
		"an infinite loss":            {change: counts(func(a *functions.Answer) { a.Loss = -inf }), says: "loss is -Inf"},
		"more right than samples":     {change: counts(func(a *functions.Answer) { a.HasAccuracy, a.Correct = true, 8 }), says: "an accuracy of 114.3 %, 8 right of 7 samples: accuracy is in percent, 0 to 100"},
		"NaN samples right":           {change: counts(func(a *functions.Answer) { a.HasAccuracy, a.Correct = true, nan }), says: "NaN right of 7"},
	}
	b := newBench(t, scratch(t))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.model == nil {
				test.model = model()
			}
			if test.optimizer == nil {
				test.optimizer = finite
			}
			if test.change == nil {
				test.change = same
			}
			b.answers(test.model, test.optimizer, test.change)
			_, err := b.Execute(t.Context(), b.train(), 0, nil)
			require.Equal(t, fault.Rejected, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, test.says)
			b.nothingLeft(t)
		})
	}
}

func TestARuntimeThatWritesOtherThanItSaysIsRejected(t *testing.T) {
	b := newBench(t, scratch(t))
	tests := map[string]func(inv functions.Invocation) error{
		"nothing": func(functions.Invocation) error { return nil },
		"less than reserved": func(inv functions.Invocation) error {
			_, err := inv.ModelOut.Create(1000)
			return err
		},
		"twice": func(inv functions.Invocation) error {
			return errors.Join(functions.WriteDict(inv.ModelOut, model()), functions.WriteDict(inv.ModelOut, model()))
		},
		"no state dict": func(inv functions.Invocation) error {
			w, err := inv.ModelOut.Create(12)
			if err == nil {
				_, err = w.Write([]byte("hello, world"))
			}
			return err
		},
		"no optimizer state though it says so": func(inv functions.Invocation) error {
			return functions.WriteDict(inv.ModelOut, model())
		},
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
				a := answerOf(inv)
				a.HasOptimizer = true
				return a, write(inv)
			}
			_, err := b.Execute(t.Context(), b.train(), 0, nil)
			require.Equal(t, fault.Rejected, fault.KindOf(err), "%v", err)
			b.nothingLeft(t)
		})
	}
}

func TestNothingIsLeftOfWhatFails(t *testing.T) {
	b := newBench(t, scratch(t))
	t.Run("a function that fails", func(t *testing.T) {
		b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
			_, err := inv.ModelOut.Create(1 << 20)
			require.NoError(t, err)
			_, err = inv.OptimizerOut.Create(1 << 20)
			require.NoError(t, err)
			e := fault.New("test.run", fault.UserCode, "raised")
			e.Trace = "line 5"
			return functions.Answer{}, e
		}
		_, err := b.Execute(t.Context(), b.train(), 0, nil)
		require.Equal(t, fault.UserCode, fault.KindOf(err))
		require.Equal(t, "raised", err.Error())
		require.Equal(t, "line 5", fault.TraceOf(err))
		b.nothingLeft(t)
	})
	t.Run("a cancel in the middle", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b.runtime.run = func(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
			_, err := inv.ModelOut.Create(1 << 20)
			require.NoError(t, err)
			cancel()
			<-ctx.Done()
			return functions.Answer{}, ctx.Err()
		}
		_, err := b.Execute(ctx, b.train(), 0, nil)
		require.ErrorIs(t, err, context.Canceled)
		b.nothingLeft(t)
	})
	t.Run("a cancel that comes too late", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
			cancel()
			return answerOf(inv), functions.WriteDict(inv.ModelOut, model())
		}
		_, err := b.Execute(ctx, b.train(), 0, nil)
		require.ErrorIs(t, err, context.Canceled)
		b.nothingLeft(t)
	})
}

func TestAFullDiskIsUnavailable(t *testing.T) {
	space := plane.NewMemory("here")
	b := newBench(t, space)
	space.SetLimit(space.Usage().Bytes + 10)
	_, err := b.Execute(t.Context(), b.train(), 0, nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "full")
	b.nothingLeft(t)
}

func TestAnInvocationThatCannotWorkIsRefused(t *testing.T) {
	tests := map[string]struct {
		change func(*messages.Invoke)
		kind   fault.Kind
		says   string
	}{
		"an unknown function":     {func(m *messages.Invoke) { m.Plan.FunctionName = "other" }, fault.NotFound, `"other"`},
		"no model":                {func(m *messages.Invoke) { m.Plan.Model = nil }, fault.Invalid, "names no model"},
		"a model that is gone":    {func(m *messages.Invoke) { m.Plan.Model.Key = "gone" }, fault.Unavailable, `"gone"`},
		"no positions":            {func(m *messages.Invoke) { m.Ranges = nil }, fault.Invalid, "empty"},
		"an empty range":          {func(m *messages.Invoke) { m.Ranges[0].Hi = 2 }, fault.Invalid, "[2, 2)"},
		"a range beyond the data": {func(m *messages.Invoke) { m.Ranges[1].Hi = 21 }, fault.Invalid, "[17, 21)"},
		"ranges that name too many": {func(m *messages.Invoke) {
			for range 5 {
				m.Ranges = append(m.Ranges, m.Ranges[0])
			}
		}, fault.Invalid, "more than the 20 samples"},
		"another data set":     {func(m *messages.Invoke) { m.Plan.OrderSize = 21 }, fault.Invalid, "21 samples"},
		"a task of no host":    {func(m *messages.Invoke) { m.Attempt.Task = messages.Task_TASK_INFER }, fault.Invalid, "TASK_INFER"},
		"a job without a name": {func(m *messages.Invoke) { m.Attempt.Job.Id = "" }, fault.Invalid, "key"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, plane.NewMemory("here"))
			inv := b.train()
			test.change(inv)
			_, err := b.Execute(t.Context(), inv, 0, nil)
			require.Equal(t, test.kind, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, test.says)
			b.nothingLeft(t)
		})
	}
}

// A NaN by chaos really lies in the bytes that are checked.
func TestChaosSpoilsTheAnswer(t *testing.T) {
	b := newBench(t, scratch(t))
	inv := b.train()
	inv.Plan.Chaos = &messages.ChaosPlan{Nan: 1, Seed: 3}
	_, err := b.Execute(t.Context(), inv, 0, nil)
	require.Equal(t, fault.Rejected, fault.KindOf(err))
	require.ErrorContains(t, err, `"weight": NaN at index`)
	b.nothingLeft(t)

	for _, at := range []float64{0, 0.5, 0.999} {
		whole := put(t, b.space, fmt.Sprintf("whole-%v", at), model())
		spoilt, err := host.Spoil(b.space, plane.Ref{Node: whole.GetNode(), Key: whole.GetKey(), Bytes: int64(whole.GetBytes())}, fmt.Sprintf("spoilt-%v", at), at)
		require.NoError(t, err)
		dict := get(t, b.space, &messages.TensorRef{Node: spoilt.Node, Key: spoilt.Key, Bytes: uint64(spoilt.Bytes)})
		weight, _ := dict.Get("weight")
		for i, x := range weight.Float64() {
			require.Equal(t, i == int(at*6), math.IsNaN(x), "value %d", i)
		}
		require.Equal(t, model()[0], dict[0])
		require.Equal(t, model()[2], dict[2])
	}
	counters := put(t, b.space, "counters", model()[:1])
	same, err := host.Spoil(b.space, plane.Ref{Node: "here", Key: "counters", Bytes: int64(counters.GetBytes())}, "never", 0)
	require.NoError(t, err)
	require.Equal(t, "counters", same.Key, "there is nothing to spoil")
}

// The whole way with what is built in: digits, softmax, files.
func TestTheBuiltInFunctionTrainsTheBuiltInData(t *testing.T) {
	runtime, err := native.New()
	require.NoError(t, err)
	bucket, err := store.Open(t.Context(), "mem://")
	require.NoError(t, err)
	defer func() { require.NoError(t, bucket.Close()) }()
	catalog := dataset.New(bucket)
	info, err := catalog.Open(t.Context(), "digits", dataset.Options{})
	require.NoError(t, err)

	space := scratch(t)
	var nonce uint64
	e := &host.Executor{
		Runtimes: []functions.Runtime{runtime}, Space: space, Datasets: catalogIn{catalog, cache.New(bucket, t.TempDir(), 0)},
		Nonce: func() uint64 { nonce++; return nonce },
	}
	plan := &messages.RoundPlan{
		FunctionName: "softmax", Dataset: info.Name, DatasetDigest: info.Digest, Parallelism: 1, K: -1, BatchSize: 64, Lr: 0.1,
		OrderSize: uint64(info.Train), Shuffle: true, WantOptimizer: true,
	}
	attempt := func(task messages.Task, round uint32) *messages.AttemptRef {
		r := ref("job", round, 0, 1)
		r.Task = task
		return r
	}
	first, err := e.Execute(t.Context(), &messages.Invoke{Attempt: attempt(messages.Task_TASK_INIT, 0), Plan: plan}, 0, nil)
	require.NoError(t, err)
	plan.Model = first.GetModel()
	all := []*messages.Range{{Lo: 0, Hi: uint64(info.Train)}}
	trained, err := e.Execute(t.Context(), &messages.Invoke{Attempt: attempt(messages.Task_TASK_TRAIN, 1), Plan: plan, Ranges: all}, 0, nil)
	require.NoError(t, err)
	require.Equal(t, uint64(info.Train), trained.GetSamples())

	plan.Model, plan.Shuffle, plan.OrderSize = trained.GetModel(), false, uint64(info.Test)
	val, err := e.Execute(t.Context(), &messages.Invoke{
		Attempt: attempt(messages.Task_TASK_VALIDATE, 1), Plan: plan, Ranges: []*messages.Range{{Lo: 0, Hi: uint64(info.Test)}},
	}, 0, nil)
	require.NoError(t, err)
	require.Greater(t, val.GetCorrect(), 0.7*float64(info.Test))
}

type catalogIn struct {
	*dataset.Catalog
	in *cache.Cache
}

func (c catalogIn) Files(ctx context.Context, name, digest string) (dataset.Files, error) {
	return c.Materialise(ctx, name, digest, c.in)
}
