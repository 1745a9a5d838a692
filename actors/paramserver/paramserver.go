package paramserver

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/invariant"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// tickEvery is how often what is not answered is sent again.
const tickEvery = time.Second

// Deps is everything the ParameterServer may touch outside its own state. All
// but Options and Warn are required.
type Deps struct {
	Log  *zap.Logger
	Rim  actorkit.Rim
	Node string // this one
	// Shared says that other nodes run jobs of this Scheduler, too: one that has an
	// owner elsewhere is not TAKEN_OVER by that; whose it is the Scheduler decides.
	Shared bool
	// Own makes this node the owner of a job's next incarnation. It is called
	// off the actor and does not wait. Conflict, with what was seen of the owner,
	// while another has the job; one that has been seen unchanged for long is
	// passed as stale. Unavailable while the store cannot be reached.
	Own func(id string, start *messages.StartJob, stale store.Sighting) (*Owned, store.Sighting, error)
	// End stores that a job has ended which nobody runs, and lets go of it, with
	// the result that it is to end with as far as the decider knows, under an
	// incarnation above over: off the actor, and without waiting. A job whose last
	// incarnation has told the store how this life of it ended has ended so. Errors
	// are those of Own; NotFound: the store has no such job.
	End func(id string, start *messages.StartJob, end *messages.JobResult, over uint64, stale store.Sighting) (*Ended, store.Sighting, error)
	// Warn tells people of this node what keeps a job from running: at once, and
	// once a minute while it lasts; and what keeps one from ending, once. It is
	// called inside Receive and does not wait. Nil: the log alone does.
	Warn      func(text string)
	Scheduler func() *actor.PID
	Journal   func() *actor.PID // is told of ends that no TrainJob is left to tell
	// Nodes are those that there are, by name, and Host is the FunctionHost of one, nil
	// while it cannot be reached: they let go of what such a job has left.
	Nodes   func() []string
	Host    func(node string) *actor.PID
	Options []actor.PropsOption
}

// Owned is an incarnation of a job that this node owns.
type Owned struct {
	Incarnation uint64
	Reached     uint64 // how far the job had come: grows with each merge that is stored
	// Ended is how the job has ended as far as the store knows, nil: it has not.
	// One that has not SUCCEEDED may go on.
	Ended   *messages.JobResult
	EndedBy uint64 // the incarnation that said so
	// Job describes the actor of the incarnation.
	Job func(ref *messages.JobRef, start *messages.StartJob) *actor.Props
	// Release lets others own the job. It is called off the actor.
	Release func()
	// Discard removes what the job has left on this node, off the actor.
	Discard func()
}

// Props describes the ParameterServer of a node. Its children are TrainJobs,
// which it supervises itself; see the package comment.
func Props(deps Deps) *actor.Props {
	opts := append([]actor.PropsOption{actor.WithReceiverMiddleware(actorkit.Guard)}, deps.Options...)
	return actor.PropsFromProducer(func() actor.Actor { return newServer(deps) }, opts...)
}

func newServer(deps Deps) *server {
	return &server{
		deps: deps, state: newState(),
		children: map[string]*messages.JobRef{}, pids: map[string]*actor.PID{}, outboxes: map[string]*actorkit.Outbox{},
		askers: map[string]*actor.PID{}, freeing: map[string]*freeing{},
	}
}

// server runs only inside Receive and HandleFailure.
type server struct {
	deps       Deps
	state      *state
	children   map[string]*messages.JobRef // by the child's actor id
	pids       map[string]*actor.PID       // living children by job id
	outboxes   map[string]*actorkit.Outbox // by job id, until the Journal has all
	askers     map[string]*actor.PID       // by job id: who wants to know once it is owned, or has ended
	freeing    map[string]*freeing         // by job id: ends that hosts are to hear of
	working    int                         // works that own jobs, or let go of them, and have not ended
	leaving    bool                        // the node leaves: its jobs go on elsewhere
	left       *actor.PID                  // who wants to know once they can; nil: nobody
	stopping   bool
	cancelTick func()
}

var _ actor.SupervisorStrategy = (*server)(nil)

type (
	// tick makes the server repeat what is not answered.
	tick struct{}
	// ownDue says that it is time to own a job, or to try again.
	ownDue struct{ job *job }
	// claimed is how that went.
	claimed struct {
		job   *job
		owned *Owned
		seen  store.Sighting
		err   error
	}
	// sealDue says that it is time to store an end again.
	sealDue struct{ job *job }
	// released says that a job is not owned any more; nil: one that never ran.
	released struct{ job *job }
)

// Receive dispatches.
func (s *server) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.tickAgain(ctx)
	case *tick:
		s.onTick(ctx)
	case *messages.StartJob:
		s.onStartJob(ctx, m)
	case *messages.ResizeJob:
		s.onResizeJob(ctx, m)
	case *messages.StopJob:
		s.onStopJob(ctx, m)
	case *Leave:
		s.onLeave(ctx)
	case *messages.KeepState:
		s.follow(m.GetState().GetJob())
		s.state.reached(m.GetState())
	case *messages.JobFinished:
		s.onJobFinished(ctx, m)
	case *messages.JobFinishedReply:
		s.state.acknowledged(m)
	case *messages.ReleaseTensorsReply:
		s.onReleaseTensorsReply(m)
	case *messages.JobEventReply:
		s.onJobEventReply(m)
	case *actor.Terminated:
		s.onTerminated(ctx, m)
	case *ownDue:
		s.own(ctx, m.job)
	case *claimed:
		s.onClaimed(ctx, m)
	case *released:
		s.onReleased(ctx, m.job)
	case *sealDue:
		s.seal(ctx, m.job)
	case *sealed:
		s.onSealed(ctx, m)
	case *actor.DeadLetterResponse: // whoever it was meant for gets it again
	case *actor.Stopping, *actor.Restarting:
		s.stopping = true
		s.cancelTick()
	default:
		actorkit.Unhandled(s.deps.Log, ctx)
	}
	invariant.Check(s.state.check)
}

func (s *server) onTick(ctx actor.Context) {
	for _, j := range s.state.late(s.deps.Rim.Now()) {
		s.tell(ctx, j)
	}
	for _, j := range s.state.unreported() {
		s.report(ctx, j)
	}
	for _, id := range slices.Sorted(maps.Keys(s.outboxes)) {
		s.outboxes[id].Repeat(ctx, s.deps.Journal())
	}
	s.freeMore(ctx)
	s.tickAgain(ctx)
}

func (s *server) tickAgain(ctx actor.Context) {
	s.cancelTick = s.deps.Rim.SendAfter(tickEvery, ctx.Self(), &tick{})
}

// onStartJob starts a job, or says how it is. A job that is not owned yet gets
// its answer once it is.
func (s *server) onStartJob(ctx actor.Context, m *messages.StartJob) {
	if s.leaving && s.state.jobs[m.GetJobId()] == nil {
		ctx.Respond(&messages.StartJobReply{Job: &messages.JobRef{Id: m.GetJobId()}, Failure: wire.Failure(errLeaving(m.GetJobId()))})
		return
	}
	j, begun, err := s.state.begin(s.deps.Rim.Now(), m)
	switch {
	case err != nil:
		ctx.Respond(&messages.StartJobReply{Job: &messages.JobRef{Id: m.GetJobId()}, Failure: wire.Failure(err)})
	case j.ceded:
		ctx.Respond(&messages.StartJobReply{Job: j.ref(), Failure: wire.Failure(j.errBusy())})
	case j.known():
		ctx.Respond(j.status(s.deps.Node))
	default:
		s.askers[j.id] = ctx.Sender()
	}
	switch {
	case begun:
		delete(s.freeing, j.id) // what its next incarnation does not need it lets go of
		s.own(ctx, j)
	case j.blocks(m):
		ctx.Send(s.pids[j.id], m)
	}
}

// onResizeJob passes a size on under the number of the incarnation that runs. A
// job between two incarnations will begin with it, and so knows it already.
func (s *server) onResizeJob(ctx actor.Context, m *messages.ResizeJob) {
	j, err := s.state.resize(m)
	switch {
	case err != nil:
		ctx.Respond(&messages.ResizeJobReply{Job: m.GetJob(), Failure: wire.Failure(err)})
	case j.alive:
		ctx.RequestWithCustomSender(s.pids[j.id], &messages.ResizeJob{Job: j.ref(), Size: m.GetSize()}, ctx.Sender())
	default:
		ctx.Respond(&messages.ResizeJobReply{Job: j.ref(), Seq: j.start.GetSize().GetSeq()})
	}
}

func (s *server) onStopJob(ctx actor.Context, m *messages.StopJob) {
	j, concluded, err := s.state.halt(s.deps.Rim.Now(), m)
	if err == nil && j.phase == running {
		ctx.RequestWithCustomSender(s.pids[j.id], m, ctx.Sender())
		return
	}
	if concluded {
		s.conclude(ctx, j)
	}
	ctx.Respond(&messages.StopJobReply{Failure: wire.Failure(err)})
}

// follow keeps up with a child that goes on under a higher incarnation.
func (s *server) follow(ref *messages.JobRef) {
	if s.state.follow(ref) {
		s.children[s.pids[ref.GetId()].GetId()] = ref
	}
}

func (s *server) onJobFinished(ctx actor.Context, m *messages.JobFinished) {
	s.follow(m.GetJob())
	if s.deps.Shared && m.GetResult().GetPhase() == messages.Phase_PHASE_TAKEN_OVER {
		s.state.lost(m)
		ctx.Respond(&messages.JobFinishedReply{Job: m.GetJob()})
		return
	}
	switch j, concluded := s.state.finish(m); {
	case concluded:
		s.conclude(ctx, j)
	case j != nil:
		s.report(ctx, j)
		s.release(ctx, j, false) // the store has had its last word
	}
	ctx.Respond(&messages.JobFinishedReply{Job: m.GetJob()})
}

// report tells the Scheduler how a job ended.
func (s *server) report(ctx actor.Context, j *job) {
	actorkit.Request(ctx, s.deps.Scheduler(), &messages.JobFinished{Job: j.ref(), Result: j.how()})
}
