package functionstest

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/tensor"
)

func initialises(t *testing.T, b *bench) {
	dict, err := functions.ReadDict(b.model)
	require.NoError(t, err)
	require.NotEmpty(t, dict)
	again := b.init(t, b.Function, 1)
	data := make([]byte, b.model.Size)
	more := make([]byte, again.Size)
	_, err = b.model.R.ReadAt(data, 0)
	require.NoError(t, err)
	_, err = again.R.ReadAt(more, 0)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, more))
}

// shuffled is n positions of the split in an order that is none.
func shuffled(n int) []int64 {
	positions := Range(samples)
	rand.New(rand.NewPCG(3, 4)).Shuffle(samples, func(i, j int) { positions[i], positions[j] = positions[j], positions[i] })
	return positions[:n]
}

func pure(t *testing.T, b *bench) {
	inv := b.invocation(functions.Train, shuffled(150))
	want := b.run(t, inv)
	require.True(t, want.answer.HasOptimizer)
	model, err := tensor.Read(bytes.NewReader(want.model), int64(len(want.model)))
	require.NoError(t, err)
	first, err := functions.ReadDict(b.model)
	require.NoError(t, err)
	require.Equal(t, first.Specs(), model.Specs(), "names, order, dtypes and shapes stay")
	require.NotEqual(t, first, model, "training changes something")

	other := b.invocation(functions.Train, shuffled(40))
	other.Seed, other.LR = 99, 0.5
	different := b.run(t, other)
	require.Equal(t, want, b.run(t, inv), "the same after another run")

	const callers = 4
	results := make([]result, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			mine := inv
			if i%2 == 1 {
				mine = other
			}
			mine.Slot = i
			results[i] = b.run(t, mine)
		})
	}
	wg.Wait()
	for i, r := range results {
		if i%2 == 1 {
			require.Equal(t, different, r)
		} else {
			require.Equal(t, want, r, "the same beside others")
		}
	}
}

// Rows moved to other places, named by their new places, train alike.
func byData(t *testing.T, b *bench) {
	if b.IgnoresData {
		return
	}
	positions := shuffled(samples)
	x, y := make([]float32, 0, len(b.x)), make([]int64, 0, len(b.y))
	for _, p := range positions {
		x = append(x, b.x[8*p:8*p+8]...)
		y = append(y, b.y[p])
	}
	moved := b.invocation(functions.Train, Range(samples))
	moved.Data = Data(t, []int64{samples, 4, 2}, x, y)
	require.Equal(t, b.run(t, b.invocation(functions.Train, positions)), b.run(t, moved))
}

func ordered(t *testing.T, b *bench) {
	positions := shuffled(samples)
	one := b.run(t, b.invocation(functions.Train, positions))
	positions = slices.Clone(positions)
	slices.Sort(positions)
	require.NotEqual(t, one.model, b.run(t, b.invocation(functions.Train, positions)).model)
}

func counted(t *testing.T, b *bench) {
	for _, n := range []int{1, batch - 1, batch, batch + 1, samples} {
		for _, task := range []functions.Task{functions.Train, functions.Val} {
			r := b.run(t, b.invocation(task, shuffled(n)))
			require.EqualValues(t, n, r.answer.Samples, task)
			require.Equal(t, len(functions.Batches(n, batch)), r.answer.Batches, task)
			require.Equal(t, task == functions.Val, r.answer.HasAccuracy, task)
			require.GreaterOrEqual(t, r.answer.Correct, 0.0)
			require.LessOrEqual(t, r.answer.Correct, float64(n))
			require.Greater(t, r.answer.Loss, 0.0)
		}
	}
}

func optimizer(t *testing.T, b *bench) {
	inv := b.invocation(functions.Train, shuffled(samples))
	first := b.run(t, inv)
	require.True(t, first.answer.HasOptimizer)
	inv.Model = functions.Input{R: bytes.NewReader(first.model), Size: int64(len(first.model))}
	fresh := b.run(t, inv)
	inv.Optimizer = functions.Input{R: bytes.NewReader(first.optimizer), Size: int64(len(first.optimizer))}
	kept := b.run(t, inv)
	require.Equal(t, kept, b.run(t, inv))
	require.NotEqual(t, fresh.optimizer, kept.optimizer, "what came in matters")
}

func unwanted(t *testing.T, b *bench) {
	inv := b.invocation(functions.Train, shuffled(20))
	want := b.run(t, inv)
	answer, err := b.Runtime.Run(t.Context(), inv)
	require.NoError(t, err)
	require.False(t, answer.HasOptimizer)
	answer.HasOptimizer = true
	require.Equal(t, want.answer, answer)
}

func blocks(t *testing.T, b *bench) {
	trained := b.run(t, b.invocation(functions.Train, shuffled(samples)))
	inv := b.invocation(functions.Val, Range(samples))
	inv.Model = functions.Input{R: bytes.NewReader(trained.model), Size: int64(len(trained.model))}
	whole := b.run(t, inv).answer
	for _, cuts := range [][]int{{0, 100, samples}, {0, 1, 17, 64, 128, samples}} {
		var loss, correct float64
		for i := range len(cuts) - 1 {
			part := inv
			part.Positions = Range(samples)[cuts[i]:cuts[i+1]]
			answer := b.run(t, part).answer
			loss += answer.Loss
			correct += answer.Correct
		}
		require.InEpsilon(t, whole.Loss, loss, cmp.Or(b.Tolerance, 1e-9))
		require.InDelta(t, whole.Correct, correct, 1e-6, "a count, possibly by way of percent")
	}
}

func identity(t *testing.T, b *bench) {
	inv := b.invocation(functions.Train, shuffled(50))
	want := b.run(t, inv)
	inv.JobID, inv.Incarnation, inv.Attempt, inv.Slot = "01jzzzzzzzzzzzzzzzzzzzzzzz", 9, 3, 1
	require.Equal(t, want, b.run(t, inv))
}

func slow(t *testing.T, b *bench) {
	inv := b.invocation(functions.Train, shuffled(50))
	want := b.run(t, inv)
	inv.Sabotage = functions.Sabotage{Slow: 10 * time.Millisecond, At: 0.5}
	require.Equal(t, want, b.run(t, inv))
}
