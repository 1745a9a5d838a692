package host_test

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// A host says where functions are, each time that it is asked; however much that
// is, it fits into one message, of which every function has its share.
func TestStacksFitIntoAMessage(t *testing.T) {
	s := testkit.New(t, 1)
	deep := strings.Repeat("  frame\n", 1_000_000)
	h := s.Spawn("host", host.Props(host.Deps{
		Log: zap.NewNop(), Rim: s.Rim(), Node: "n1", Boot: "b", Slots: 1, Runner: &runner{}, Scheduler: func() *actor.PID { return nil },
		Stacks: func(job string) map[int]string {
			return map[string]map[int]string{"small": {3: "  a\n  b\n", 1: "  c\n"}, "deep": {0: deep, 1: "  short\n", 2: deep}}[job]
		},
	}))
	for range 2 {
		reply := testkit.Ask[*messages.AskStacksReply](s, h, &messages.AskStacks{JobId: "small"})
		require.True(t, proto.Equal(&messages.AskStacksReply{
			Node: "n1", Stacks: []*messages.FunctionStack{{Function: 1, Text: "  c"}, {Function: 3, Text: "  a\n  b"}},
		}, reply), "%v", reply)
	}
	require.Empty(t, testkit.Ask[*messages.AskStacksReply](s, h, &messages.AskStacks{JobId: "none"}).GetStacks())

	reply := testkit.Ask[*messages.AskStacksReply](s, h, &messages.AskStacks{JobId: "deep"})
	require.Less(t, proto.Size(reply), actorkit.MaxMessage/2+1000)
	require.Equal(t, "  short", reply.GetStacks()[1].GetText())
	kept := strings.Split(reply.GetStacks()[2].GetText(), "\n")
	require.Regexp(t, `^\(\d+ lines are left out\)$`, kept[len(kept)-1])
	require.Greater(t, len(kept), 20_000)
	require.Equal(t, "  frame", kept[len(kept)-2])
}
