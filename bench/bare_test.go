package bench_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
)

// bare is the actor library with nothing of ours on it: a parent that in each
// round spawns children, which exchange messages with one peer, report, and are
// stopped. No goroutine runs beside the actors, nothing is stored, merged,
// timed or checked.
type bare struct {
	system *actor.ActorSystem
	parent *actor.PID
}

// bareRounds (command) makes the parent run rounds; it closes done after the
// last. In each a child gets one message from the parent and sends it one, and
// takes part in as many exchanges (two messages, one each way) as make up the
// rest of messages.
type bareRounds struct {
	rounds, children, messages int
	done                       chan struct{}
}

type (
	bareWork   struct{ left int } // messages to exchange with the peer
	bareAsk    struct{ left int }
	bareReply  struct{ left int }
	bareWorked struct{}
)

func newBare(b *testing.B) *bare {
	b.Helper()
	system := actorkit.NewSystem(zap.NewNop())
	peer := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*bareAsk); ok && m.left > 0 {
			ctx.Respond(&bareReply{m.left - 1})
		}
	}))
	child := actor.PropsFromProducer(func() actor.Actor { return &bareChild{peer: peer} })
	parent := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &bareParent{child: child} }))
	b.Cleanup(func() {
		_ = system.Root.StopFuture(parent).Wait()
		_ = system.Root.StopFuture(peer).Wait()
		system.Shutdown()
	})
	return &bare{system, parent}
}

// run returns how long the rounds took.
func (l *bare) run(n, rounds, messages int) time.Duration {
	done := make(chan struct{})
	began := time.Now()
	l.system.Root.Send(l.parent, &bareRounds{rounds, n, messages, done})
	<-done
	return time.Since(began)
}

// bareParent spawns, and stops who has reported.
type bareParent struct {
	child *actor.Props
	job   *bareRounds
	open  int // children that have not reported
}

// Receive implements actor.Actor.
func (p *bareParent) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *bareRounds:
		p.job = m
		p.begin(ctx)
	case *bareWorked:
		ctx.Stop(ctx.Sender())
		if p.open--; p.open > 0 {
			return
		}
		if p.job.rounds--; p.job.rounds > 0 {
			p.begin(ctx)
		} else {
			close(p.job.done)
		}
	}
}

func (p *bareParent) begin(ctx actor.Context) {
	p.open = p.job.children
	for range p.job.children {
		ctx.Send(ctx.Spawn(p.child), &bareWork{p.job.messages - 2})
	}
}

// bareChild talks to its peer, then reports.
type bareChild struct{ peer *actor.PID }

// Receive implements actor.Actor.
func (c *bareChild) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *bareWork:
		c.next(ctx, m.left)
	case *bareReply:
		c.next(ctx, m.left)
	}
}

func (c *bareChild) next(ctx actor.Context, left int) {
	if left > 0 {
		ctx.Request(c.peer, &bareAsk{left - 1})
	}
	if left <= 1 { // a last ask without an answer makes an odd number
		ctx.Request(ctx.Parent(), &bareWorked{})
	}
}
