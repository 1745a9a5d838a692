package train

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/invariant"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

const (
	repeatEvery   = time.Second      // of all that has not been answered
	lingerFor     = 30 * time.Second // after the end, for hosts to answer
	sizeTimeout   = 2 * time.Second  // after which N stays
	effectRetries = 5                // of a merge or a save that the machine refuses
)

// Models stores results. Save is called off the actor and may be repeated.
type Models interface {
	// Save stores the state dict that ref names as the result of an
	// incarnation and returns its URL.
	Save(ctx context.Context, job *messages.JobRef, task *messages.TrainTask, result *messages.JobResult, model plane.Blob) (url string, err error)
}

// Deps is everything a job may touch outside its own state. All are required
// but Options.
type Deps struct {
	Log  *zap.Logger
	Rim  actorkit.Rim
	Node string // this one
	// Shared says that other nodes run jobs of this Scheduler, too: one that takes
	// this job over goes on with it for the same people, on the same hosts.
	Shared bool
	Space  plane.Space // where merged models go, and which opens what hosts hold
	Models Models
	// OpenModel opens a model to start from: a stored one by its id, or a
	// .safetensors file by its path. It is called off the actor; the caller
	// closes the blob.
	OpenModel func(ctx context.Context, name string) (plane.Blob, error)
	Invoker   *actor.Props    // of a child that runs one assignment
	Nodes     func() []string // that there are, by name, this one included
	// Actors of the company; nil while they cannot be reached.
	Host      func(node string) *actor.PID
	Scheduler func() *actor.PID
	Journal   func() *actor.PID
	Options   []actor.PropsOption
}

// Props describes the actor of one incarnation of a job, which the vault is of.
func Props(ref *messages.JobRef, start *messages.StartJob, vault Vault, deps Deps) *actor.Props {
	opts := append([]actor.PropsOption{actor.WithReceiverMiddleware(actorkit.Guard)}, deps.Options...)
	return actor.PropsFromProducer(func() actor.Actor {
		return &job{
			deps:     deps,
			log:      deps.Log.With(zap.String("job_id", ref.GetId()), zap.Uint64("incarnation", ref.GetIncarnation())),
			start:    start,
			state:    newState(deps.Node, ref, start),
			vault:    vault,
			saver:    saver{from: vault.From(), every: time.Duration(start.GetTask().GetOptions().GetCheckpointEveryMs()) * time.Millisecond},
			outbox:   actorkit.NewOutbox(ref),
			children: map[string]child{},
			bringing: newBringing(),
		}
	}, opts...)
}

// job runs only inside Receive; no goroutine may see its fields.
type job struct {
	deps     Deps
	log      *zap.Logger
	start    *messages.StartJob
	state    *state
	outbox   *actorkit.Outbox
	self     *actor.PID
	staged   *step               // the step that the invokers work on
	children map[string]child    // its invokers, by their id
	invokers [][lanes]*actor.PID // the same by function and lane; nil: none
	failures int                 // of the running effect, in a row
	storing  storing             // the result

	vault     Vault
	saver     saver
	restoring restoring
	bringing  bringing
	born      time.Time
	lastBeat  time.Time
	beating   bool
	muted     bool // the last beat was not taken
	lost      bool // a later incarnation owns the job

	waitsFor atomic.Pointer[string] // the node that a save waits for; nil: for none

	saidEffect actorkit.Sparse // of an effect that keeps failing
	saidSave   actorkit.Sparse // of a save that does

	ended      *messages.JobFinished
	sealed     bool   // and the store has its last state, as far as it takes it
	unsealed   error  // why the store has not taken that at the last try; nil: it has not said
	saidDelay  bool   // people were told that it takes a while
	yielding   bool   // it is to go on elsewhere: nothing is begun any more
	left       bool   // the actor stops: nothing of it may start any more
	accepted   bool   // the ParameterServer knows the end
	stopReason string // as whoever stopped it has put it
	endedAt    time.Time
	cancelTk   func()
	cancelSl   func() // of the wait for the store at the end; nil: it has not begun

	work       context.Context // of slow work; ends with the actor
	cancelWork context.CancelFunc
}

type (
	tick     struct{}
	retryDue struct {
		step            *step
		function, begun uint32
	}
	sizeDue     struct{ epoch uint32 }
	effectDue   struct{ what effect } // it failed and is tried again
	childFailed struct{}              // the state knows; it is time to go on
	saved       struct {
		result *messages.JobResult // how the job has ended
		lost   bool                // a later incarnation owns the job
		err    error
	}
	tidied struct{} // obsolete tensors are gone
)

// Receive dispatches: one case, one call; then the job goes on as far as it can.
func (j *job) Receive(ctx actor.Context) {
	if j.left {
		return // its invokers say goodbye
	}
	if j.yielding {
		j.yields(ctx)
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		j.onStarted(ctx)
	case *messages.FunctionStarted:
		j.onFunctionStarted(m)
	case *messages.FunctionFinished:
		j.onFunctionFinished(ctx, m)
	case *messages.FunctionLost:
		j.onFunctionLost(ctx, m)
	case *messages.ResizeJob:
		j.onResizeJob(ctx, m)
	case *messages.RequestParallelismReply:
		j.onRequestParallelismReply(ctx, m)
	case *messages.StopJob:
		j.onStopJob(ctx, m)
	case *messages.StartJob:
		j.onStartJob()
	case *messages.YieldJob:
		j.onYieldJob(ctx)
		return
	case *messages.JobFinishedReply:
		j.accepted = j.accepted || m.GetJob().GetIncarnation() == j.state.ref.GetIncarnation()
	case *messages.ReleaseTensorsReply:
		j.onReleased(m)
	case *messages.JobEventReply:
		j.outbox.Acknowledge(m)
	case *adopted:
		j.onAdopted(ctx, m)
	case *measured:
		j.onMeasured(ctx, m)
	case *messages.MergePlanReply:
		j.onMergePlanReply(m)
	case *merged:
		j.onMerged(ctx, m)
	case *saved:
		j.onSaved(ctx, m)
	case *retryDue:
		j.state.retryDue(m.step, m.function, m.begun)
	case *sizeDue:
		j.onSizeDue(m)
	case *effectDue:
		j.onEffectDue(ctx, m)
	case *brought:
		j.onBrought(ctx, m)
	case *childFailed, *tidied:
	case *messages.AskStateReply:
		j.onAskStateReply(ctx, m)
	case *restoreDue:
		j.takeUp()
	case *restored:
		j.onRestored(ctx, m)
	case *checkpointed:
		j.onCheckpointed(ctx, m)
	case *beaten:
		j.onBeaten(ctx, m)
	case *sealed:
		j.onSealed(ctx, m)
	case *sealDue:
		j.seal(ctx)
	case *tick:
		j.onTick(ctx)
	case *actorkit.WorkPanicked:
		panic(m.Err) // a bug: the ParameterServer starts the next incarnation
	case *actor.Terminated:
		j.onChildGone(ctx, m.Who)
	case *actor.Stopping:
		j.leave()
		return
	default:
		actorkit.Unhandled(j.log, ctx)
		return
	}
	j.proceed(ctx)
	invariant.Check(j.state.check)
}

// proceed goes on as far as it goes without another message.
func (j *job) proceed(ctx actor.Context) {
	before := j.state.marked
	for j.ended == nil {
		next := j.state.advance(j.deps.Rim.Now())
		if next != again {
			j.do(ctx, next)
		}
		if next != again && next != skip {
			break
		}
	}
	if j.ended == nil {
		if best := j.state.marked.GetBest(); best.GetModel().GetKey() != before.GetBest().GetModel().GetKey() {
			j.handOn(ctx, before)
		}
		j.dispatch(ctx)
		j.checkpoint()
		j.helpLeave(ctx)
	} else if j.accepted && j.outbox.Empty() && len(j.state.nodes) == 0 {
		ctx.Stop(ctx.Self())
	}
	j.post(ctx)
}

func (j *job) onStarted(ctx actor.Context) {
	j.self, j.born = ctx.Self(), j.deps.Rim.Now()
	j.work, j.cancelWork = context.WithCancel(context.Background())
	j.cancelTk = j.deps.Rim.SendAfter(repeatEvery, j.self, &tick{})
	if j.vault.From() != nil || j.state.ref.GetIncarnation() > 1 {
		j.ask(ctx)
		return
	}
	j.announce(nil)
}

// announce says that the job has started, goes on, or has another leader now, and which
// event before that counts.
func (j *job) announce(after *messages.EventEnd) {
	j.log.Info("job started", zap.Uint32("parallelism", j.state.parallelism()), zap.Uint32("slots", j.state.slots()))
	queued := time.Duration(j.start.GetQueuedMs()) * time.Millisecond
	again := after.GetIncarnation() == j.state.ref.GetIncarnation()
	if !again && j.vault.From().GetJob().GetIncarnation() <= j.state.after { // this life begins: what it has waited for so far is a part of the queue
		waited := j.deps.Rim.Now().Sub(j.born)
		queued += waited
		j.state.history.queued += waited
	}
	j.state.emit(&messages.JobEvent{What: &messages.JobEvent_Started{Started: &messages.JobStarted{
		AfterIncarnation: after.GetIncarnation(), AfterSeq: after.GetSeq(), Node: j.deps.Node,
		QueuedMs: uint64(queued.Milliseconds()), Epochs: j.state.task.GetEpochs(), TrainSamples: j.state.task.GetTrainSamples(),
		Parallelism: j.state.parallelism(), Slots: j.state.slots(), Epoch: j.state.epoch, Round: j.state.round,
	}}})
}

func (j *job) onTick(ctx actor.Context) {
	j.cancelTk = j.deps.Rim.SendAfter(repeatEvery, ctx.Self(), &tick{})
	j.outbox.Repeat(ctx, j.deps.Journal())
	switch {
	case j.sealed:
		j.tellEnd(ctx)
	case j.ended != nil: // the store is being told
		j.delayed(j.deps.Rim.Now())
	case j.state.sizing:
		j.requestParallelism(ctx)
	}
	if j.ended == nil {
		j.askHosts(ctx)
		j.bringing.again()
		j.beat()
		j.complain()
		j.repeat(ctx)
		j.urge(ctx)
		j.hurry(ctx)
	}
}

// post sends the events of this turn to the Journal.
func (j *job) post(ctx actor.Context) {
	for _, event := range j.state.events {
		j.outbox.Post(ctx, j.deps.Journal(), j.deps.Rim.Now(), event)
	}
	j.state.events = nil
}
