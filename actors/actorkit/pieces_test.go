package actorkit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// wire is two actors of different nodes: what one sends, the other gets, over
// messages of which none is above the limit.
type wire struct {
	sim   *testkit.Sim
	limit int
	sent  []proto.Message // that went between the nodes
	got   []proto.Message
	from  []*actor.PID
	a, b  *actor.PID
}

func newWire(t *testing.T, seed uint64, limit int, log *zap.Logger) *wire {
	w := &wire{sim: testkit.New(t, seed), limit: limit}
	split := actorkit.Split{Log: log, Limit: limit, Far: func(to *actor.PID) bool { return to.GetId() == "b" }}
	w.sim.Cut = func(_, to *actor.PID, msg any) bool {
		if to.GetId() == "b" {
			w.sent = append(w.sent, msg.(proto.Message))
			require.LessOrEqual(t, proto.Size(msg.(proto.Message)), limit)
		}
		return false
	}
	w.b = w.sim.Spawn("b", actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(proto.Message); ok && strings.HasPrefix(string(m.ProtoReflect().Descriptor().FullName()), "troupe") {
			w.got, w.from = append(w.got, m), append(w.from, ctx.Sender())
		}
	}, split.Option()))
	w.a = w.sim.Spawn("a", actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*send); ok {
			ctx.Request(w.b, m.what)
		}
	}, split.Option()))
	return w
}

// send has an actor send something.
type send struct{ what any }

// A large message arrives whole, once, from whom it is, whatever order its pieces
// come in; and no message between nodes is large.
func TestLargeMessagesGoInPieces(t *testing.T) {
	for seed := range testkit.Seeds(t, 50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWire(t, seed, 1000, zap.NewNop())
			w.sim.Faults = testkit.Faults{Delay: 0.5}
			var want []proto.Message
			for i := range 20 {
				m := &messages.WatchJob{JobId: strings.Repeat(fmt.Sprint(i), 1+i*100), AfterSeq: uint64(i)}
				want = append(want, m)
				w.sim.Send(w.a, &send{m})
			}
			w.sim.Drain()
			require.Greater(t, len(w.sent), len(want))
			require.Equal(t, len(want), len(w.got))
			for _, m := range want {
				n := 0
				for i, g := range w.got {
					if proto.Equal(m, g) {
						require.Equal(t, "a", w.from[i].GetId())
						n++
					}
				}
				require.Equal(t, 1, n)
			}
		})
	}
}

// Of a message that loses pieces nothing arrives, until it was sent again so often
// that all have come.
func TestALostPieceLosesTheMessage(t *testing.T) {
	for seed := range testkit.Seeds(t, 50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWire(t, seed, 1000, zap.NewNop())
			w.sim.Faults = testkit.Faults{Drop: 0.3, Duplicate: 0.1, Delay: 0.3}
			m := &messages.WatchJob{JobId: strings.Repeat("x", 20_000)}
			for i := 0; len(w.got) == 0; i++ {
				require.Less(t, i, 50)
				w.sim.Send(w.a, &send{m})
				w.sim.Drain()
			}
			for _, g := range w.got {
				require.True(t, proto.Equal(m, g))
			}
		})
	}
}

// What is kept of messages that do not come to an end is bounded, and does not
// keep others from arriving.
func TestPiecesThatStayAloneAreForgotten(t *testing.T) {
	w := newWire(t, 1, 1000, zap.NewNop())
	for i := range 10_000 {
		w.sim.Send(w.b, &messages.Piece{Type: "troupe.messages.WatchJob", Digest: uint64(i), Count: 64, Data: make([]byte, 800)})
	}
	m := &messages.WatchJob{JobId: strings.Repeat("x", 20_000)}
	w.sim.Send(w.a, &send{m})
	w.sim.Drain()
	require.Len(t, w.got, 1)
	require.True(t, proto.Equal(m, w.got[0]))
}

// What is too large for pieces, or no message between nodes, is not sent; pieces
// that make no message of ours are dropped. All of it is told.
func TestWhatMakesNoMessageIsDropped(t *testing.T) {
	core, logged := observer.New(zap.ErrorLevel)
	w := newWire(t, 1, 1000, zap.New(core))
	w.sim.Send(w.a, &send{&messages.WatchJob{JobId: strings.Repeat("x", 64*1000)}})
	w.sim.Send(w.a, &send{"text"})
	w.sim.Drain()
	require.Empty(t, w.sent)
	require.Equal(t, 2, logged.FilterMessage("message not sent").Len())
	for name, p := range map[string]*messages.Piece{
		"an index beyond":      {Type: "troupe.messages.WatchJob", Index: 2, Count: 2},
		"too many":             {Type: "troupe.messages.WatchJob", Count: 1 << 31},
		"none":                 {Type: "troupe.messages.WatchJob"},
		"another digest":       {Type: "troupe.messages.WatchJob", Count: 1, Digest: 1},
		"a type of the system": {Type: "actor.PoisonPill", Count: 1, Digest: 0xef46db3751d8e999},
		"an unknown type":      {Type: "troupe.messages.Nothing", Count: 1, Digest: 0xef46db3751d8e999},
		"a piece of a piece":   {Type: "troupe.messages.Piece", Count: 1, Digest: 0xef46db3751d8e999},
	} {
		before := logged.Len()
		w.sim.Send(w.b, p)
		w.sim.Drain()
		require.Equal(t, before+1, logged.Len(), name)
	}
	require.Empty(t, w.got)
}

// Between real systems it is the address that tells the nodes apart.
func TestOnlyOtherNodesGetPieces(t *testing.T) {
	system := actorkit.NewSystem(zap.NewNop())
	defer system.Shutdown()
	got := make(chan any, 10)
	here := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) { got <- ctx.Message() }))
	require.IsType(t, &actor.Started{}, <-got)
	var far []any
	large := &messages.HostLeft{Node: string(make([]byte, actorkit.MaxMessage))}
	spy := actor.WithSenderMiddleware(func(next actor.SenderFunc) actor.SenderFunc {
		return func(ctx actor.SenderContext, to *actor.PID, envelope *actor.MessageEnvelope) {
			if to.GetAddress() == "far.example:1" {
				far = append(far, envelope.Message)
				return
			}
			next(ctx, to, envelope)
		}
	})
	system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			ctx.Send(actor.NewPID("far.example:1", "host"), large)
			ctx.Send(here, large)
			ctx.Send(here, "text")
		}
	}, actorkit.Split{Log: zap.NewNop()}.Option(), spy))
	for _, want := range []any{large, "text"} {
		select {
		case m := <-got:
			require.Equal(t, want, m)
		case <-time.After(10 * time.Second):
			t.Fatal("it waits")
		}
	}
	require.Len(t, far, 2)
	require.IsType(t, &messages.Piece{}, far[0])
}
