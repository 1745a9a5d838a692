package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// A runner ends every attempt once: with an answer, an error, or a panic.
func TestARunnerEndsEveryAttemptOnce(t *testing.T) {
	inv := &messages.Invoke{Plan: &messages.RoundPlan{FunctionName: "f"}}
	tests := map[string]struct {
		execute func(context.Context, *messages.Invoke, int) (*messages.Invoked, error)
		cancel  bool
		check   func(*testing.T, *messages.Invoked, error)
	}{
		"an answer": {
			execute: func(_ context.Context, _ *messages.Invoke, slot int) (*messages.Invoked, error) {
				return &messages.Invoked{Samples: uint64(slot)}, nil
			},
			check: func(t *testing.T, answer *messages.Invoked, err error) {
				require.NoError(t, err)
				require.EqualValues(t, 5, answer.GetSamples())
			},
		},
		"a panic": {
			execute: func(context.Context, *messages.Invoke, int) (*messages.Invoked, error) { panic("oh") },
			check: func(t *testing.T, answer *messages.Invoked, err error) {
				require.Nil(t, answer)
				require.Equal(t, fault.Unknown, fault.KindOf(err))
				require.ErrorContains(t, err, "oh")
			},
		},
		"a cancel": {
			execute: func(ctx context.Context, _ *messages.Invoke, _ int) (*messages.Invoked, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			cancel: true,
			check: func(t *testing.T, _ *messages.Invoked, err error) {
				require.ErrorIs(t, err, context.Canceled)
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			local := host.NewLocalOf(test.execute)
			type end struct {
				answer *messages.Invoked
				err    error
			}
			ends := make(chan end, 2)
			cancel := local.Start(inv, 5, nil, func(answer *messages.Invoked, err error) { ends <- end{answer, err} })
			if test.cancel {
				cancel(context.Canceled)
			}
			require.NoError(t, local.Await(t.Context()))
			cancel(context.Canceled) // late, and again
			cancel(context.DeadlineExceeded)
			require.Len(t, ends, 1)
			got := <-ends
			test.check(t, got.answer, got.err)
		})
	}
}

// Whoever waits for functions that ignore their context can give up.
func TestAwaitGivesUpOnWhatDoesNotReturn(t *testing.T) {
	release := make(chan struct{})
	local := host.NewLocalOf(func(context.Context, *messages.Invoke, int) (*messages.Invoked, error) {
		<-release
		return &messages.Invoked{}, nil
	})
	local.Start(&messages.Invoke{}, 0, nil, func(*messages.Invoked, error) {})(context.Canceled)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := local.Await(ctx)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "1 functions")
	close(release)
	require.NoError(t, local.Await(t.Context()))
}

// What has to come from other nodes first is no straggler's fault, whatever node that
// is; only what runs at an endpoint says nothing about its slot.
func TestAnAttemptBeginsOnceAllOfItIsHere(t *testing.T) {
	there := &messages.TensorRef{Node: "there", Key: "k", Bytes: 1}
	for name, c := range map[string]struct {
		change func(b *bench, inv *messages.Invoke)
		starts bool
	}{
		"all is here":             {func(*bench, *messages.Invoke) {}, false},
		"the model is elsewhere":  {func(_ *bench, inv *messages.Invoke) { inv.Plan.Model = there }, true},
		"the state is":            {func(_ *bench, inv *messages.Invoke) { inv.Optimizer = there }, true},
		"what an answer lacks is": {func(_ *bench, inv *messages.Invoke) { inv.Residual = there }, true},
		"functions and data may be": {func(b *bench, _ *messages.Invoke) {
			b.Prepare = func(context.Context, *messages.RoundPlan) error { return nil }
		}, true},
	} {
		b := newBench(t, plane.NewMemory("here"))
		inv := b.train()
		c.change(b, inv)
		local := host.NewLocal(b.Executor)
		require.Equal(t, c.starts, local.Starts(inv), name)
		require.False(t, local.Elsewhere(inv), name)
	}
}
