package actors_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
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
