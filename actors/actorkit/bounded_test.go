package actorkit_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

// What is too large for another node, or no message between nodes, stays here and
// is told; an actor of this node gets anything.
func TestNothingLargeGoesToAnotherNode(t *testing.T) {
	core, logged := observer.New(zap.DebugLevel)
	system := actorkit.NewSystem(zap.NewNop())
	defer system.Shutdown()
	got := make(chan any, 10)
	here := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) { got <- ctx.Message() }))
	require.IsType(t, &actor.Started{}, <-got)
	far := actor.NewPID("far.example:1", "host")
	large := &messages.HostLeft{Node: string(make([]byte, actorkit.MaxMessage))}
	sent := make(chan struct{})
	system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			for _, m := range []any{large, "text", &messages.HostLeft{Node: "n"}} {
				ctx.Send(far, m)
				ctx.Send(here, m)
			}
			close(sent)
		}
	}, actorkit.Bounded(zap.New(core))))
	select {
	case <-sent:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits")
	}
	require.Same(t, large, <-got)
	require.Equal(t, "text", <-got)
	require.IsType(t, &messages.HostLeft{}, <-got)
	require.Len(t, logged.FilterMessage("message not sent").All(), 2)
}
