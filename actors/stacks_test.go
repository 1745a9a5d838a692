package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// Stacks of several nodes come by function, each with its node; a node that does
// not say is named. A company that is alone has no nodes.
func TestStacksOfNodes(t *testing.T) {
	at := func(function uint32, text string) *messages.FunctionStack {
		return &messages.FunctionStack{Function: function, Text: text}
	}
	all := []actors.NodeStacks{
		actors.StacksOf("n2", nil, at(1, "  b"), at(10, "  c")),
		actors.StacksOf("n3", fault.New("x", fault.Unavailable, "it has not answered within 5s")),
		actors.StacksOf("n1", nil, at(1, "  a")),
	}
	require.Equal(t, `function 1 on n1:
  a
function 1 on n2:
  b
function 10 on n2:
  c
node n3 runs functions of the job and does not say where they are: it has not answered within 5s
`, actors.StacksText(all, true))
	require.Equal(t, "function 1:\n  a\n", actors.StacksText(all[2:], false))
	require.Equal(t, "no function of the job runs right now\n", actors.StacksText(nil, true))
}

// A node that does not answer is waited for until the time is over, and no longer;
// one that the table does not have any more is not.
func TestASilentNodeIsNotWaitedFor(t *testing.T) {
	system := actorkit.NewSystem(zap.NewNop())
	defer system.Shutdown()
	asked := make(chan bool, 10)
	silent := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*messages.AskStacks); ok {
			asked <- true
		}
	}))
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, actors.ErrSilent)
	defer cancel()
	require.Contains(t, actors.StacksText([]actors.NodeStacks{actors.AskStacks(ctx, system, silent)}, true),
		"node n1 runs functions of the job and does not say where they are: it has not answered within 5s\n")
	<-asked
	require.Contains(t, actors.StacksText([]actors.NodeStacks{actors.AskStacks(t.Context(), system, nil)}, true), "it is not there")
}
