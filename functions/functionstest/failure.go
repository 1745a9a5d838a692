package functionstest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
)

// patience is how soon after the end of its context a call must be back.
const patience = time.Second

func cancelled(t *testing.T, b *bench) {
	inv := b.invocation(functions.Train, shuffled(samples))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.try(t, ctx, inv)
	require.ErrorIs(t, err, context.Canceled)

	inv.Sabotage = functions.Sabotage{Slow: time.Hour, At: 0.5}
	endsWithContext(t, b, inv)
	require.Equal(t, int64(samples), b.run(t, b.invocation(functions.Train, shuffled(samples))).answer.Samples)
}

func hangs(t *testing.T, b *bench) {
	for _, task := range []functions.Task{functions.Train, functions.Val} {
		inv := b.invocation(task, shuffled(samples))
		inv.Sabotage = functions.Sabotage{Hang: true, At: 0.3}
		endsWithContext(t, b, inv)
		inv.Sabotage = functions.Sabotage{}
		b.run(t, inv)
	}
}

func freezes(t *testing.T, b *bench) {
	for _, task := range []functions.Task{functions.Train, functions.Val} {
		inv := b.invocation(task, shuffled(samples))
		want := b.run(t, inv)
		frozen := inv
		frozen.Sabotage = functions.Sabotage{Freeze: true, At: 0.6}
		endsWithContext(t, b, frozen)
		require.Equal(t, want, b.run(t, inv))
	}
}

// endsWithContext runs inv, which would take for ever, and ends its context.
func endsWithContext(t *testing.T, b *bench, inv functions.Invocation) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	deadline, _ := ctx.Deadline()
	_, err := b.try(t, ctx, inv)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(deadline), patience)
}

func killed(t *testing.T, b *bench) {
	for _, task := range []functions.Task{functions.Train, functions.Val} {
		inv := b.invocation(task, shuffled(samples))
		want := b.run(t, inv)
		for _, at := range []float64{0, 0.5, 0.99} {
			broken := inv
			broken.Sabotage = functions.Sabotage{Kill: true, At: at}
			_, err := b.try(t, t.Context(), broken)
			require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
			require.Equal(t, want, b.run(t, inv))
		}
	}
}

func unknown(t *testing.T, b *bench) {
	require.True(t, b.Runtime.Has(b.Function))
	require.True(t, b.Raises == "" || b.Runtime.Has(b.Raises))
	require.False(t, b.Runtime.Has("no-such-function"))
	inv := b.invocation(functions.Train, shuffled(1))
	inv.Function = "no-such-function"
	_, err := b.try(t, t.Context(), inv)
	require.Equal(t, fault.NotFound, fault.KindOf(err), err)
	require.ErrorContains(t, err, "no-such-function")
}

func invalid(t *testing.T, b *bench) {
	for name, change := range map[string]func(*functions.Invocation){
		"no such task":          func(inv *functions.Invocation) { inv.Task = "dance" },
		"no positions":          func(inv *functions.Invocation) { inv.Positions = nil },
		"no batch size":         func(inv *functions.Invocation) { inv.BatchSize = 0 },
		"a position too high":   func(inv *functions.Invocation) { inv.Positions = []int64{0, samples} },
		"a position below zero": func(inv *functions.Invocation) { inv.Positions = []int64{-1} },
	} {
		inv := b.invocation(functions.Train, shuffled(3))
		change(&inv)
		_, err := b.try(t, t.Context(), inv)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
	}
}

func corrupt(t *testing.T, b *bench) {
	whole := make([]byte, b.model.Size)
	_, err := b.model.R.ReadAt(whole, 0)
	require.NoError(t, err)
	for name, data := range map[string][]byte{
		"no safetensors at all": bytes.Repeat([]byte{0xff}, 100),
		"cut short":             whole[:len(whole)-3],
		"header cut short":      whole[:20],
		"tensors missing":       append([]byte{2, 0, 0, 0, 0, 0, 0, 0}, "{}"...),
	} {
		for _, task := range []functions.Task{functions.Train, functions.Val} {
			inv := b.invocation(task, shuffled(20))
			inv.Model = File(t, "model.safetensors", data)
			_, err := b.try(t, t.Context(), inv)
			require.Error(t, err, "%s, %s", name, task)
			kind := fault.KindOf(err)
			require.True(t, kind == fault.Corrupt || kind == fault.Invalid || kind == fault.UserCode, "%s, %s: %s: %v", name, task, kind, err)
		}
	}
	b.run(t, b.invocation(functions.Train, shuffled(20)))
}

func raises(t *testing.T, b *bench) {
	if b.Raises == "" {
		return
	}
	inv := b.invocation(functions.Train, shuffled(samples))
	inv.Function = b.Raises
	inv.Model = b.init(t, b.Raises, 1)
	for range 2 {
		_, err := b.try(t, t.Context(), inv)
		require.Equal(t, fault.UserCode, fault.KindOf(err), err)
		require.NotEmpty(t, fault.TraceOf(err))
	}
	b.run(t, b.invocation(functions.Train, shuffled(20)))
}

func full(t *testing.T, b *bench) {
	inv := b.invocation(functions.Train, shuffled(20))
	noRoom := errors.New("no room")
	inv.ModelOut = fullOutput{fault.New("plane.create", fault.Unavailable, "full: %w", noRoom)}
	_, err := b.Runtime.Run(t.Context(), inv)
	require.ErrorIs(t, err, noRoom)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
}

func closed(t *testing.T, b *bench) {
	require.NoError(t, b.Runtime.Close())
	require.NoError(t, b.Runtime.Close())
	_, err := b.try(t, t.Context(), b.invocation(functions.Train, shuffled(1)))
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
}
