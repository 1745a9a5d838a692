package sim_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
	"github.com/troupe-ml/troupe/tensor"
)

// custom is a runtime of one function that begins with a model and answers
// what train makes of it.
type custom struct {
	first tensor.StateDict
	train func(inv functions.Invocation, model tensor.StateDict) tensor.StateDict
}

var _ functions.Runtime = (*custom)(nil)

func (c *custom) Has(function string) bool { return function == "custom" }
func (c *custom) Close() error             { return nil }

func (c *custom) Run(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
	if inv.Task == functions.Init {
		return functions.Answer{}, functions.WriteDict(inv.ModelOut, c.first)
	}
	answer := functions.Answer{Samples: int64(len(inv.Positions)), Batches: len(functions.Batches(len(inv.Positions), inv.BatchSize))}
	model, err := functions.ReadDict(inv.Model)
	if err != nil || inv.Task != functions.Train {
		return answer, err
	}
	return answer, functions.WriteDict(inv.ModelOut, c.train(inv, model))
}

// trained runs custom with N functions and returns the job's watch and model.
func trained(t *testing.T, c *custom, n uint32, samples int, change func(*messages.TrainOptions)) (*sim.Watch, tensor.StateDict) {
	s := newSceneOf(t, 1, func(config *sim.Config) {
		config.Slots, config.Data = 8, data(t, samples, 0)
		config.Runtimes = []functions.Runtime{c}
	})
	task := small(func(o *messages.TrainOptions) {
		o.DefaultParallelism, o.MaxParallelism, o.K = n, n, -1
		if change != nil {
			change(o)
		}
	})
	task.FunctionName = "custom"
	id := s.submit(t, task)
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.leaves(t)
	saved, _ := s.Models.Get(id)
	return s.watches[id], saved.Model
}

func spec(name string, dtype tensor.DType, shape ...int64) tensor.Spec {
	return tensor.Spec{Name: name, DType: dtype, Shape: append([]int64{}, shape...)}
}

// Reported: the counter of a BatchNorm, an int64 without dimensions, comes back
// with shape [1] or as a float; integers and bools become float64 when they are
// multiplied by a weight. Here they are what they were from the first model
// through every merge to the stored one, and merge to their maximum.
func TestCountersAndMasksKeepTheirTypeAndShape(t *testing.T) {
	first := tensor.StateDict{
		tensor.New(spec("bn.weight", tensor.F32, 2), []float64{1, 1}),
		tensor.New(spec("bn.num_batches_tracked", tensor.I64), []float64{0}),
		tensor.New(spec("seen", tensor.Bool, 4), []float64{0, 0, 0, 0}),
		tensor.New(spec("i32", tensor.I32, 1), []float64{-7}),
		tensor.New(spec("i16", tensor.I16, 1), []float64{-7}),
		tensor.New(spec("i8", tensor.I8, 1), []float64{-7}),
		tensor.New(spec("u8", tensor.U8, 1), []float64{0}),
		tensor.New(spec("none", tensor.I64, 0), nil),
		tensor.New(spec("wide", tensor.F64), []float64{0.1}),
	}
	w, model := trained(t, &custom{first: first, train: func(inv functions.Invocation, model tensor.StateDict) tensor.StateDict {
		index := float64(inv.Index)
		for i, one := range model {
			v := one.Float64()
			switch one.Name {
			case "bn.num_batches_tracked": // function 0 counts most
				v[0] += 10 - index
			case "seen": // each function sees something else
				v[inv.Index] = 1
			case "i32", "i16", "i8":
				v[0] = -index - 1
			case "u8":
				v[0] = 250 + index
			}
			model[i] = tensor.New(one.Spec, v)
		}
		return model
	}}, 4, 64, nil)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, w.Result.GetPhase())
	require.Equal(t, first.Specs(), model.Specs())
	for name, want := range map[string][]float64{
		"bn.num_batches_tracked": {30}, "seen": {1, 1, 1, 1}, "i32": {-1}, "i16": {-1}, "i8": {-1}, "u8": {253},
		"wide": {0.1}, "bn.weight": {1, 1},
	} {
		got, ok := model.Get(name)
		require.True(t, ok)
		require.Equal(t, want, got.Float64(), name)
	}
}

// Reported: the sum of 64 float16 values of 2000 is infinite. Here the mean is
// computed in float64 and is exact.
func TestTheMeanOfManyHalvesIsExact(t *testing.T) {
	w, model := trained(t, &custom{
		first: tensor.StateDict{tensor.New(spec("w", tensor.F16, 3), []float64{2000, 0, 0})},
		train: func(inv functions.Invocation, model tensor.StateDict) tensor.StateDict {
			odd := float64(inv.Index % 2)
			return tensor.StateDict{tensor.New(model[0].Spec, []float64{2000, 65504, 1000 + 2000*odd})}
		},
	}, 64, 640, nil)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, w.Result.GetPhase())
	require.Equal(t, []float64{2000, 65504, 2000}, model[0].Float64())
}

// Reported: one function answers NaN, an infinity or 1e38 in one tensor, and
// the model is lost. Here that answer is dropped and counted, the event names
// the tensor, and the model stays finite; answered again, the job ends with
// what to look at.
func TestGarbageInOneTensorDoesNotReachTheModel(t *testing.T) {
	for name, garbage := range map[string]float64{"NaN": math.NaN(), "+Inf": math.Inf(1), "-Inf": math.Inf(-1), "1e38": 1e38, "-1e38": -1e38} {
		first := tensor.StateDict{tensor.New(spec("good", tensor.F32, 2), []float64{1, 1}), tensor.New(spec("bad", tensor.F32, 3), []float64{1, 1, 1})}
		answering := func(bad func(functions.Invocation) bool) *custom {
			return &custom{first: first, train: func(inv functions.Invocation, model tensor.StateDict) tensor.StateDict {
				if bad(inv) {
					model[1] = tensor.New(model[1].Spec, []float64{1, 1, garbage})
				}
				return model
			}}
		}
		t.Run(name+" once", func(t *testing.T) {
			w, model := trained(t, answering(func(inv functions.Invocation) bool {
				return inv.Epoch == 2 && inv.Index == 3 && inv.Attempt == 0
			}), 4, 64, nil)
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, w.Result.GetPhase())
			require.EqualValues(t, 1, w.Result.GetRejectedResults())
			require.EqualValues(t, 1, w.Result.GetEpochs()[1].GetRejectedResults())
			require.EqualValues(t, 1, w.Result.GetRetries())
			require.Equal(t, first, model)
			var told []string
			for _, e := range w.Events {
				if f := e.GetFunctionFailed(); f != nil {
					require.EqualValues(t, 3, f.GetAttempt().GetFunction())
					told = append(told, f.GetFailure().GetText())
				}
			}
			require.Len(t, told, 1)
			require.Contains(t, told[0], `tensor "bad"`)
			require.Contains(t, told[0], "at index 2")
		})
		t.Run(name+" and given up", func(t *testing.T) {
			w, model := trained(t, answering(func(inv functions.Invocation) bool {
				return inv.Epoch == 2 && inv.Index == 3 && inv.Round == 0
			}), 4, 64, func(o *messages.TrainOptions) { o.Retries = proto.Uint32(0) })
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, w.Result.GetPhase())
			require.EqualValues(t, 1, w.Result.GetLostFunctions())
			require.EqualValues(t, 2, w.Result.GetEpochs()[1].GetRounds(), "its samples came back")
			require.EqualValues(t, 64, w.Result.GetEpochs()[1].GetSamples())
			require.Equal(t, first, model)
		})
		t.Run(name+" always", func(t *testing.T) {
			w, model := trained(t, answering(func(inv functions.Invocation) bool { return inv.Epoch == 2 && inv.Index == 3 }), 4, 64, nil)
			require.Equal(t, messages.Phase_PHASE_FAILED, w.Result.GetPhase())
			require.Contains(t, w.Result.GetFailure().GetText(), `diverged: model: tensor "bad"`)
			require.Contains(t, w.Result.GetFailure().GetText(), "epoch 2, round 1, function 3, positions [48,64), lr 0.1")
			require.Nil(t, model)
		})
	}
}

// Reported: unweighted averaging is wanted as well. It is an option, it shows
// in the result, and it makes a difference where assignments differ in size.
func TestUnweightedAveragingIsAnOption(t *testing.T) {
	for merge, want := range map[string]float64{"average": 1.0 / 3, "average:unweighted": 0.5} {
		w, model := trained(t, &custom{
			first: tensor.StateDict{tensor.New(spec("w", tensor.F64), []float64{0})},
			train: func(inv functions.Invocation, model tensor.StateDict) tensor.StateDict {
				return tensor.StateDict{tensor.New(model[0].Spec, []float64{float64(inv.Index)})}
			},
		}, 2, 3, func(o *messages.TrainOptions) { o.Merge = merge })
		require.Equal(t, merge, w.Result.GetMerge())
		require.Equal(t, []float64{want}, model[0].Float64())
	}
}
