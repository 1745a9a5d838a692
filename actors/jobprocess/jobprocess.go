package jobprocess

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/invariant"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// repeatEvery is how often what is not answered is sent again, and a sign of life
// asked for.
const repeatEvery = time.Second

// Deps is everything the actor may touch outside its own state. All but Options
// are required.
type Deps struct {
	Log       *zap.Logger
	Rim       actorkit.Rim
	Launch    Launch
	Scheduler func() *actor.PID
	Journal   func() *actor.PID
	Host      func() *actor.PID // of this node, whose slots the process has
	Options   []actor.PropsOption
}

// Props describes the actor of one incarnation of a job that has a process of its
// own. It is never restarted in place.
func Props(ref *messages.JobRef, start *messages.StartJob, deps Deps) *actor.Props {
	opts := append([]actor.PropsOption{actor.WithReceiverMiddleware(actorkit.Guard)}, deps.Options...)
	return actor.PropsFromProducer(func() actor.Actor {
		return &proxy{
			deps: deps, log: deps.Log.With(zap.String("job_id", ref.GetId())),
			state: newState(ref, start), outbox: actorkit.NewOutbox(ref),
		}
	}, opts...)
}

// proxy runs only inside Receive.
type proxy struct {
	deps     Deps
	log      *zap.Logger
	state    *state
	process  Process // nil until it was launched
	outbox   *actorkit.Outbox
	stopper  *actor.PID // who asked last for the job to stop; nil: nobody
	accepted bool       // the ParameterServer knows the end
	left     bool       // the actor stops
	lent     uint32     // slots, as the host was told last
	lends    uint64     // how often it was told
	told     bool       // since the last tick
	cancelTk func()

	work       context.Context // of slow work and of the process; ends with the actor
	cancelWork context.CancelFunc
}

type (
	tick     struct{}
	launched struct {
		process Process
		err     error
	}
	started  struct{ err error }
	happened struct{ events []*messages.JobEvent }
	exited   struct{ how string }
	resized  struct {
		size *messages.JobSize
		err  error
	}
	stopped struct{ err error }
	checked struct {
		busy uint32
		err  error
	}
	killed struct{}
)

// Receive dispatches: one case, one call; then what is due goes to the process.
func (p *proxy) Receive(ctx actor.Context) {
	if p.left {
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.onStarted(ctx)
	case *launched:
		p.onLaunched(ctx, m)
	case *started:
		p.onBegun(ctx, m)
	case *happened:
		p.onHappened(ctx, m.events)
	case *exited:
		p.onExited(ctx, m.how)
	case *resized:
		p.onResized(m)
	case *stopped:
		p.onStopped(ctx, m.err)
	case *checked:
		p.onChecked(m)
	case *messages.ResizeJob:
		p.onResizeJob(ctx, m)
	case *messages.StopJob:
		p.onStopJob(ctx, m)
	case *messages.RequestParallelismReply:
		p.onRequestParallelismReply(m)
	case *messages.JobEventReply:
		p.outbox.Acknowledge(m)
	case *messages.JobFinishedReply:
		p.accepted = p.accepted || m.GetJob().GetIncarnation() == p.state.ref.GetIncarnation()
	case *tick:
		p.onTick(ctx)
	case *killed, *messages.StartJob: // it goes as soon as it can in any case
	case *actorkit.WorkPanicked:
		panic(m.Err)
	case *actor.Stopping:
		p.leave(ctx)
		return
	default:
		actorkit.Unhandled(p.log, ctx)
		return
	}
	p.obey(ctx)
	p.lend(ctx, p.state.lent())
	invariant.Check(p.state.check)
}

func (p *proxy) onStarted(ctx actor.Context) {
	p.work, p.cancelWork = context.WithCancel(context.Background())
	p.cancelTk = p.deps.Rim.SendAfter(repeatEvery, ctx.Self(), &tick{})
	rim, self, work, ref, launch := p.deps.Rim, ctx.Self(), p.work, p.state.ref, p.deps.Launch
	watch := Watch{ // timers of no length are never lost
		Events: func(events []*messages.JobEvent) { rim.SendAfter(0, self, &happened{events}) },
		Exited: func(how string) { rim.SendAfter(0, self, &exited{how}) },
	}
	rim.Go(self, func() any {
		process, err := launch(work, ref, watch)
		return &launched{process, err}
	})
}

func (p *proxy) onLaunched(ctx actor.Context, m *launched) {
	if m.err != nil {
		panic(m.err) // the ParameterServer decides what follows
	}
	p.process = m.process
	first, work, process, task := sizeOf(p.state.launched()), p.work, p.process, p.state.task
	p.deps.Rim.Go(ctx.Self(), func() any { return &started{process.Start(work, task, first)} })
}

func (p *proxy) onBegun(ctx actor.Context, m *started) {
	switch {
	case fault.KindOf(m.err) == fault.Conflict && p.state.stage < over:
		p.state.refused(p.deps.Rim.Now(), m.err)
		p.kill(ctx)
		return
	case m.err != nil:
		panic(m.err)
	}
	p.log.Info("job runs in a process of its own", zap.Uint64("incarnation", p.state.ref.GetIncarnation()))
	p.state.started()
}

// onHappened passes on what happened.
func (p *proxy) onHappened(ctx actor.Context, events []*messages.JobEvent) {
	before, version := p.state.ref, p.state.version
	for _, e := range events {
		for _, next := range p.state.take(p.deps.Rim.Now(), e) {
			p.outbox.Forward(ctx, p.deps.Journal(), next)
		}
	}
	if p.state.ref != before || p.state.version != version {
		ctx.Send(ctx.Parent(), p.state.progress())
	}
	if p.state.asks != nil {
		actorkit.Request(ctx, p.deps.Scheduler(), p.state.asks)
	}
}

func (p *proxy) onExited(ctx actor.Context, how string) {
	end, err := p.state.exited(how)
	if err != nil {
		panic(err)
	}
	p.outbox.Forward(ctx, p.deps.Journal(), end)
	ctx.Request(ctx.Parent(), p.state.finished())
}

func (p *proxy) onResized(m *resized) {
	if m.err != nil {
		p.log.Warn("the job's process does not take a size", zap.Uint64("seq", m.size.GetSeq()), zap.Error(m.err))
	}
	p.state.resized(m.size, m.err)
}

func (p *proxy) onStopped(ctx actor.Context, err error) {
	if p.state.stopped(err) && p.stopper != nil {
		ctx.Send(p.stopper, &messages.StopJobReply{Failure: wire.Failure(err)})
		p.stopper = nil
	}
}

func (p *proxy) onChecked(m *checked) {
	if err := p.state.checked(m.busy, m.err); err != nil {
		panic(err)
	}
}

func (p *proxy) onResizeJob(ctx actor.Context, m *messages.ResizeJob) {
	err := p.state.resize(m.GetJob(), m.GetSize())
	ctx.Respond(&messages.ResizeJobReply{Job: p.state.ref, Seq: p.state.size.GetSeq(), Failure: wire.Failure(err)})
}

// onStopJob has the job stopped; who asks is answered once the process has. A
// process that has not begun with the job is ended instead: the ParameterServer,
// which knows that the job is to stop, then says that it has.
func (p *proxy) onStopJob(ctx actor.Context, m *messages.StopJob) {
	err := p.state.halt(m)
	if err == nil && p.state.stage == atWork {
		p.stopper = ctx.Sender()
		return
	}
	ctx.Respond(&messages.StopJobReply{Failure: wire.Failure(err)})
	if p.state.stage < atWork {
		ctx.Stop(ctx.Self())
	}
}

func (p *proxy) onRequestParallelismReply(m *messages.RequestParallelismReply) {
	if !p.state.answered(m) {
		return
	}
	if err := p.state.resize(m.GetJob(), m.GetSize()); err != nil {
		p.log.Warn("the Scheduler's answer is ignored", zap.Error(err))
	}
	if m.GetWarning() != "" {
		p.log.Warn("warning", zap.String("text", m.GetWarning()))
	}
}

func (p *proxy) onTick(ctx actor.Context) {
	p.cancelTk = p.deps.Rim.SendAfter(repeatEvery, ctx.Self(), &tick{})
	p.outbox.Repeat(ctx, p.deps.Journal())
	p.state.held, p.told = false, false
	switch {
	case p.state.stage == ended && !p.accepted:
		ctx.Request(ctx.Parent(), p.state.finished())
	case p.state.stage < over:
		ctx.Send(ctx.Parent(), p.state.progress())
	case p.state.lingers(p.deps.Rim.Now()):
		p.kill(ctx)
	}
	if p.state.asks != nil {
		actorkit.Request(ctx, p.deps.Scheduler(), p.state.asks)
	}
	if p.state.toCheck() {
		work, process := p.work, p.process
		p.deps.Rim.Go(ctx.Self(), func() any {
			busy, err := process.Check(work)
			return &checked{busy, err}
		})
	}
}

// obey has the process hear what is due.
func (p *proxy) obey(ctx actor.Context) {
	work, process := p.work, p.process
	if size := p.state.toResize(); size != nil {
		next := p.state.sizeOf(size)
		p.deps.Rim.Go(ctx.Self(), func() any { return &resized{size, process.Resize(work, next)} })
	}
	if stop := p.state.toStop(); stop != nil {
		p.deps.Rim.Go(ctx.Self(), func() any { return &stopped{process.Stop(work, stop.GetReason())} })
	}
	if p.state.stage == ended && p.accepted && p.outbox.Empty() {
		ctx.Stop(ctx.Self())
	}
}

func (p *proxy) kill(ctx actor.Context) {
	process := p.process
	p.deps.Rim.Go(ctx.Self(), func() any {
		process.Kill()
		return &killed{}
	})
}

// lend tells the host of the node how many of its slots the process may use, if
// that has changed, and once a second.
func (p *proxy) lend(ctx actor.Context, slots uint32) {
	if p.told && slots == p.lent {
		return
	}
	p.lent, p.told = slots, true
	p.lends++
	ctx.Send(p.deps.Host(), &messages.SlotsLent{Job: p.state.ref, Seq: p.lends, Slots: slots})
}

// leave ends the actor, and the process with it.
func (p *proxy) leave(ctx actor.Context) {
	p.left = true
	p.lend(ctx, 0)
	p.cancelTk()
	p.cancelWork()
}
