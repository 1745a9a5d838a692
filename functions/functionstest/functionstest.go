// Package functionstest is what every functions.Runtime must do, as a test.
package functionstest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
)

// Subject is a runtime under test. The suite trains on 203 samples: x float32
// [203, 4, 2] (8 features), y int64 in [0, 4), in batches of 16.
type Subject struct {
	Runtime functions.Runtime
	// Function can do all of init, train and val on the suite's data, has an
	// optimizer state and knows accuracy.
	Function string
	// Raises makes a model like Function's, and raises an exception (a panic)
	// when it trains. "" = none such here, and that part is left out.
	Raises string
	// IgnoresData says that Function looks at positions alone, not at rows.
	IgnoresData bool
	// Tolerance is how far the sums over blocks of a split may be from the sum
	// over the whole, relative to it; 0 = 1e-9, which is for functions that add
	// up in float64. One that takes the mean of a batch in float32 is off by its
	// rounding, 2^-24, times the additions in a batch.
	Tolerance float64
}

const (
	samples = 203
	batch   = 16
)

// Run checks the runtimes that open returns, one for each part of the suite;
// the test's cleanup may close them.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	for _, part := range []struct {
		name  string
		check func(*testing.T, *bench)
	}{
		{"init makes a model, the same for the same seed", initialises},
		{"training is a pure function", pure},
		{"training is a pure function of data, not of row numbers", byData},
		{"the order of positions is respected", ordered},
		{"answers count samples and batches", counted},
		{"optimizer state goes in and comes out", optimizer},
		{"outputs that are not wanted are not written", unwanted},
		{"validation of disjoint blocks adds up to the whole", blocks},
		{"the identity of an attempt changes nothing", identity},
		{"a cancelled call returns at once with the context's error", cancelled},
		{"a killed worker is a failure, and the next run is fine", killed},
		{"a hanging call ends with its context", hangs},
		{"a frozen call ends with its context, and the next run is fine", freezes},
		{"a slow call gives the same answer", slow},
		{"an unknown function is not found", unknown},
		{"a call that cannot work is invalid", invalid},
		{"input that is not a model is an error", corrupt},
		{"an exception of user code is told with its trace", raises},
		{"a full scratch fails the call with its own error", full},
		{"a closed runtime is unavailable", closed},
	} {
		t.Run(part.name, func(t *testing.T) { part.check(t, newBench(t, open(t))) })
	}
}

// bench is a subject with data and a first model.
type bench struct {
	Subject
	data  functions.Data
	x     []float32
	y     []int64
	model functions.Input // after init
}

func newBench(t *testing.T, s Subject) *bench {
	t.Helper()
	b := &bench{Subject: s}
	r := rand.New(rand.NewPCG(1, 2))
	for range samples {
		y := r.Int64N(4)
		b.y = append(b.y, y)
		for j := range 8 {
			v := r.NormFloat64()
			if int64(j/2) == y {
				v += 3
			}
			b.x = append(b.x, float32(v))
		}
	}
	b.data = Data(t, []int64{samples, 4, 2}, b.x, b.y)
	b.model = b.init(t, s.Function, 1)
	return b
}

// init returns a first model of the function.
func (b *bench) init(t *testing.T, function string, seed uint64) functions.Input {
	t.Helper()
	inv := b.invocation(functions.Init, nil)
	inv.Function, inv.Seed = function, seed
	out := newOutput(t)
	inv.ModelOut = out
	_, err := b.Runtime.Run(t.Context(), inv)
	require.NoError(t, err)
	return out.input(t)
}

// invocation is one of Function, without outputs.
func (b *bench) invocation(task functions.Task, positions []int64) functions.Invocation {
	inv := functions.Invocation{
		Task: task, Function: b.Function, JobID: "01j00000000000000000000000", Incarnation: 1,
		N: 1, Threads: 1, K: -1, BatchSize: batch, LR: 0.05, Seed: 7, Positions: positions, Data: b.data,
	}
	if task != functions.Init {
		inv.Epoch, inv.Model = 1, b.model
	}
	return inv
}

// result is all that an invocation gave.
type result struct {
	answer           functions.Answer
	model, optimizer []byte
}

// run runs inv, with outputs, to its good end.
func (b *bench) run(t *testing.T, inv functions.Invocation) result {
	t.Helper()
	r, err := b.try(t, t.Context(), inv)
	require.NoError(t, err)
	return r
}

// try runs inv with the outputs that its task has.
func (b *bench) try(t *testing.T, ctx context.Context, inv functions.Invocation) (result, error) {
	t.Helper()
	model, optimizer := newOutput(t), newOutput(t)
	if inv.Task == functions.Train {
		inv.ModelOut, inv.OptimizerOut = model, optimizer
	}
	answer, err := b.Runtime.Run(ctx, inv)
	if err != nil {
		require.Zero(t, answer, "an error comes with an empty answer")
		return result{}, err
	}
	r := result{answer: answer, model: model.content(t)}
	if answer.HasOptimizer {
		r.optimizer = optimizer.content(t)
	}
	return r, nil
}
