package journal

import (
	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/invariant"
	"github.com/troupe-ml/troupe/messages"
)

// Deps is everything the journal may touch outside its own state.
type Deps struct {
	Log *zap.Logger
	// Shown gets the events of all jobs as watchers see them: those of a job in
	// order, each once. It must not block; nil: nobody wants them.
	Shown   func([]*messages.JobEvent)
	Options []actor.PropsOption
}

// Props describes the journal of a node. It has no children. What it keeps
// belongs to the Props, as it would to a file: spawn them once.
func Props(deps Deps) *actor.Props {
	opts := append([]actor.PropsOption{actor.WithReceiverMiddleware(actorkit.Guard)}, deps.Options...)
	kept := newState()
	return actor.PropsFromProducer(func() actor.Actor { return &journal{log: deps.Log, shown: deps.Shown, state: kept} }, opts...)
}

// journal runs only inside Receive.
type journal struct {
	log   *zap.Logger
	shown func([]*messages.JobEvent)
	state *state
}

// Receive dispatches: one case, one call.
func (j *journal) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.JobEvent:
		j.onJobEvent(ctx, m)
	case *messages.WatchJob:
		j.onWatchJob(ctx, m)
	case *actor.Terminated:
		j.state.unwatch(m.Who)
	default:
		actorkit.Unhandled(j.log, ctx)
	}
	invariant.Check(j.state.check)
}

func (j *journal) onJobEvent(ctx actor.Context, m *messages.JobEvent) {
	answered, shown, skipped := j.state.add(m)
	if skipped > 0 {
		j.log.Warn("events that nobody repeats are left out", zap.String("job_id", m.GetJob().GetId()),
			zap.Uint64("incarnation", m.GetJob().GetIncarnation()), zap.Uint64("events", skipped))
	}
	if ctx.Sender() != nil {
		ctx.Respond(&messages.JobEventReply{Job: m.GetJob(), Seq: answered})
	}
	if j.shown != nil && len(shown) > 0 {
		j.shown(shown)
	}
	for _, watcher := range j.state.watchers(m.GetJob().GetId()) {
		for _, event := range shown {
			ctx.Send(watcher, event)
		}
	}
}

func (j *journal) onWatchJob(ctx actor.Context, m *messages.WatchJob) {
	watcher := ctx.Sender()
	if watcher == nil {
		return
	}
	if j.state.watch(m.GetJobId(), watcher) {
		ctx.Watch(watcher)
	}
	for _, event := range j.state.after(m) {
		ctx.Send(watcher, event)
	}
}
