package invoker

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

const (
	repeatEvery = time.Second      // of Invoke, and of news that the job has not taken
	hostSilence = 10 * time.Second // after which a host counts as gone
	manyRanges  = 1000             // of which a host that has them gets no repeat
)

// Deps is everything an invoker may touch outside its own state.
type Deps struct {
	Log     *zap.Logger
	Rim     actorkit.Rim
	Host    func(node string) *actor.PID // the FunctionHost of a node; nil while it is not there
	Options []actor.PropsOption
}

// Props describes the actor that runs one assignment for its parent.
func Props(deps Deps) *actor.Props {
	opts := append([]actor.PropsOption{actor.WithReceiverMiddleware(actorkit.Guard)}, deps.Options...)
	return actor.PropsFromProducer(func() actor.Actor { return &invoker{deps: deps} }, opts...)
}

// invoker runs only inside Receive.
type invoker struct {
	deps     Deps
	invoke   *messages.Invoke // the attempt; nil before the first
	news     any              // FunctionFinished or FunctionLost; nil while the host works
	heard    time.Time        // last sign of life of the host
	taken    bool             // the host has the attempt, as far as it has said
	cancelTk func()
}

// tick makes the invoker repeat what it waits for.
type tick struct{ attempt *messages.AttemptRef }

// Receive dispatches.
func (i *invoker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.Invoke:
		i.onInvoke(ctx, m)
	case *messages.InvokeAccepted:
		if i.waitsFor(m.GetAttempt()) {
			i.onAccepted(ctx, m)
		}
	case *messages.Invoked:
		i.onInvoked(ctx, m)
	case *messages.InvokeFailed:
		if i.waitsFor(m.GetAttempt()) {
			i.invoke = nil // it has ended: nothing to cancel
			panic(failed{m.GetAttempt(), m.GetFailure(), m.GetSlot(), time.Duration(m.GetDurationUs()) * time.Microsecond, m.GetWarnings()})
		}
	case *tick:
		i.onTick(ctx, m)
	case *actor.Stopping, *actor.Restarting:
		i.leave(ctx)
	default:
		actorkit.Unhandled(i.deps.Log, ctx)
	}
}

func (i *invoker) onInvoke(ctx actor.Context, m *messages.Invoke) {
	if i.invoke != nil && m.GetAttempt().GetAttempt() <= i.invoke.GetAttempt().GetAttempt() {
		return // a repeat, or late
	}
	i.leave(ctx)
	i.invoke, i.news, i.heard, i.taken = m, nil, i.deps.Rim.Now(), false
	actorkit.Request(ctx, i.deps.Host(m.GetNode()), m)
	i.tickAgain(ctx)
}

// onAccepted takes in a sign of life.
func (i *invoker) onAccepted(ctx actor.Context, m *messages.InvokeAccepted) {
	i.heard, i.taken = i.deps.Rim.Now(), !m.GetWanted()
	if m.GetWanted() {
		i.repeat(ctx)
	}
	if m.GetRunning() {
		ctx.Send(ctx.Parent(), &messages.FunctionStarted{Attempt: m.GetAttempt(), Warnings: m.GetWarnings()})
	}
}

func (i *invoker) onInvoked(ctx actor.Context, m *messages.Invoked) {
	if !i.waitsFor(m.GetAttempt()) {
		return
	}
	i.tell(ctx, &messages.FunctionFinished{Answer: m})
}

func (i *invoker) onTick(ctx actor.Context, m *tick) {
	if i.invoke == nil || !actorkit.SameAttempt(m.attempt, i.invoke.GetAttempt()) {
		return
	}
	switch silent := i.deps.Rim.Now().Sub(i.heard); {
	case i.news != nil:
		ctx.Send(ctx.Parent(), i.news)
	case silent >= hostSilence:
		i.tell(ctx, &messages.FunctionLost{
			Attempt: i.invoke.GetAttempt(),
			Failure: wire.Failure(fault.New("invoker.wait", fault.Unavailable,
				"node %q has sent no sign of life for %s", i.invoke.GetNode(), silent.Round(time.Second))),
		})
	default:
		i.repeat(ctx)
	}
	i.tickAgain(ctx)
}

// repeat asks the host again, and renews the lease by that. A host that has the
// attempt is not sent many ranges again.
func (i *invoker) repeat(ctx actor.Context) {
	m := i.invoke
	if i.taken && len(m.GetRanges()) > manyRanges {
		m = &messages.Invoke{Attempt: m.GetAttempt(), Node: m.GetNode(), Renewal: true}
	}
	actorkit.Request(ctx, i.deps.Host(i.invoke.GetNode()), m)
}

// tell gives the job news of the attempt, again with each tick.
func (i *invoker) tell(ctx actor.Context, news any) {
	i.news = news
	ctx.Send(ctx.Parent(), news)
}

// waitsFor reports whether an attempt is the one whose end is still open.
func (i *invoker) waitsFor(attempt *messages.AttemptRef) bool {
	return i.invoke != nil && i.news == nil && actorkit.SameAttempt(attempt, i.invoke.GetAttempt())
}

func (i *invoker) tickAgain(ctx actor.Context) {
	i.cancelTk = i.deps.Rim.SendAfter(repeatEvery, ctx.Self(), &tick{attempt: i.invoke.GetAttempt()})
}

// leave ends the attempt: nobody wants its answer any more.
func (i *invoker) leave(ctx actor.Context) {
	if i.cancelTk != nil {
		i.cancelTk()
		i.cancelTk = nil
	}
	if i.invoke == nil {
		return
	}
	if _, finished := i.news.(*messages.FunctionFinished); !finished {
		actorkit.Send(ctx, i.deps.Host(i.invoke.GetNode()), &messages.CancelInvocation{Attempt: i.invoke.GetAttempt()})
	}
	i.invoke = nil
}
