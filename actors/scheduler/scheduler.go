package scheduler

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/invariant"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// tickEvery is how often what is not answered is sent again.
const tickEvery = time.Second

// Deps is everything the Scheduler may touch outside its own state. All but
// Options are required.
type Deps struct {
	Log    *zap.Logger
	Rim    actorkit.Rim
	Node   string // this one
	Term   uint64 // the number of this reign: from 1, and higher than that of any before
	Policy Policy
	NewID  func() string // a new job id at each call
	// ParameterServer is that of a node, nil while nothing is to be sent there.
	ParameterServer func(node string) *actor.PID
	Journal         func() *actor.PID
	Options         []actor.PropsOption
}

// Props describes the Scheduler, of which there is one.
func Props(deps Deps) *actor.Props {
	opts := append([]actor.PropsOption{actor.WithReceiverMiddleware(actorkit.Guard)}, deps.Options...)
	return actor.PropsFromProducer(func() actor.Actor { return newScheduler(deps) }, opts...)
}

func newScheduler(deps Deps) *scheduler {
	return &scheduler{deps: deps, state: newState(deps.Node, deps.Term, deps.Policy, deps.NewID), mail: newMail(deps.Journal)}
}

// scheduler runs only inside Receive.
type scheduler struct {
	deps       Deps
	state      *state
	mail       *mail
	cancelTick func()
}

// tick makes the Scheduler repeat what is not answered.
type tick struct{}

// Receive dispatches, and sends what follows from the message.
func (s *scheduler) Receive(ctx actor.Context) {
	now := s.deps.Rim.Now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.tickAgain(ctx)
	case *tick:
		s.onTick(ctx, now)
	case *messages.SubmitJob:
		ctx.Respond(s.state.submit(now, m))
	case *messages.ResumeJob:
		ctx.Respond(s.state.resume(now, m))
	case *messages.ListHosts:
		ctx.Respond(s.state.list(m))
	case *messages.SetParallelism:
		ctx.Respond(&messages.SetParallelismReply{Failure: wire.Failure(s.state.set(now, m))})
	case *messages.StopJob:
		ctx.Respond(s.state.stop(now, m))
	case *messages.HostReported:
		s.state.onReport(now, m)
	case *messages.NodesListed:
		s.state.onListed(now, m)
	case *messages.HostLeft:
		s.state.onLeft(now, m)
	case *messages.StartJobReply:
		s.onStartReply(now, m)
	case *messages.ResizeJobReply:
		s.state.onResizeReply(m)
	case *messages.RequestParallelism:
		if reply := s.state.onRequest(now, m); reply != nil {
			ctx.Respond(reply)
		}
	case *messages.JobFinished:
		s.state.onFinished(now, m)
		ctx.Respond(&messages.JobFinishedReply{Job: m.GetJob()})
	case *messages.JobEventReply:
		s.mail.acknowledge(m)
	case *messages.StopJobReply: // the job's end is what counts
	case *actor.DeadLetterResponse: // whoever it was meant for gets it again
	case *actor.Stopping, *actor.Restarting:
		s.cancelTick()
	default:
		actorkit.Unhandled(s.deps.Log, ctx)
	}
	s.flush(ctx, now)
	invariant.Check(s.state.check)
}

func (s *scheduler) onTick(ctx actor.Context, now time.Time) {
	s.state.expireHosts(now)
	s.state.due(now)
	s.mail.repeat(ctx)
	s.tickAgain(ctx)
}

func (s *scheduler) onStartReply(now time.Time, m *messages.StartJobReply) {
	if err := wire.Error(m.GetFailure()); err != nil {
		s.deps.Log.Warn("start refused", zap.String("job_id", m.GetJob().GetId()), zap.Error(err))
	}
	s.state.onStartReply(now, m)
}

func (s *scheduler) tickAgain(ctx actor.Context) {
	s.cancelTick = s.deps.Rim.SendAfter(tickEvery, ctx.Self(), &tick{})
}

// flush sends what the state has to say.
func (s *scheduler) flush(ctx actor.Context, now time.Time) {
	for _, e := range s.state.takeNews() {
		switch {
		case e.event.GetQueued() != nil:
			s.deps.Log.Info("job queued", zap.String("job_id", e.job))
		case e.last:
			s.deps.Log.Info("job left the scheduler", zap.String("job_id", e.job))
		}
		s.mail.post(ctx, now, e)
	}
	for _, o := range s.state.takeOrders(now) {
		actorkit.Request(ctx, s.deps.ParameterServer(o.to), o.what)
	}
}
