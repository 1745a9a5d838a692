package train

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/invariant"
	"github.com/troupe-ml/troupe/internal/wire"
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
	Log    *zap.Logger
	Rim    actorkit.Rim
	Space  plane.Space // where merged models go
	Models Models
	// OpenModel opens a model to start from: a stored one by its id, or a
	// .safetensors file by its path. It is called off the actor; the caller
	// closes the blob.
	OpenModel func(ctx context.Context, name string) (plane.Blob, error)
	Invoker   *actor.Props // of a child that runs one assignment
	Host      func(node string) *actor.PID
	Scheduler func() *actor.PID
	Journal   func() *actor.PID
	Options   []actor.PropsOption
}

// Props describes the actor of one incarnation of a job.
func Props(ref *messages.JobRef, start *messages.StartJob, deps Deps) *actor.Props {
	opts := append([]actor.PropsOption{actor.WithReceiverMiddleware(actorkit.Guard)}, deps.Options...)
	return actor.PropsFromProducer(func() actor.Actor {
		return &job{
			deps:     deps,
			log:      deps.Log.With(zap.String("job_id", ref.GetId()), zap.Uint64("incarnation", ref.GetIncarnation())),
			start:    start,
			state:    newState(ref, start),
			outbox:   actorkit.NewOutbox(ref),
			children: map[string]child{},
			nodes:    map[string]bool{},
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
	staged   *step            // the step that the invokers work on
	children map[string]child // its invokers, by their id
	byFunc   []*actor.PID     // the same by function
	nodes    map[string]bool  // hosts that may hold tensors of the job
	failures int              // of the running effect, in a row
	ended    *messages.JobFinished
	left     bool // the actor stops: nothing of it may start any more
	accepted bool // the ParameterServer knows the end
	endedAt  time.Time
	cancelTk func()

	work       context.Context // of slow work; ends with the actor
	cancelWork context.CancelFunc
}

// child is what an invoker works on.
type child struct {
	step     *step
	function uint32
}

type (
	tick     struct{}
	retryDue struct {
		step              *step
		function, attempt uint32
	}
	sizeDue     struct{ epoch uint32 }
	effectDue   struct{ what effect } // it failed and is tried again
	childFailed struct{}              // the state knows; it is time to go on
	saved       struct {
		url string
		err error
	}
	tidied struct{} // obsolete tensors are gone
)

// Receive dispatches: one case, one call; then the job goes on as far as it can.
func (j *job) Receive(ctx actor.Context) {
	if j.left {
		return // its invokers say goodbye
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		j.onStarted(ctx)
	case *messages.FunctionFinished:
		j.onFunctionFinished(ctx, m)
	case *messages.FunctionLost:
		j.onFunctionLost(ctx, m)
	case *messages.ResizeJob:
		j.onResizeJob(ctx, m)
	case *messages.RequestParallelismReply:
		j.onRequestParallelismReply(m)
	case *messages.StopJob:
		j.onStopJob(ctx, m)
	case *messages.JobFinishedReply:
		j.accepted = j.accepted || m.GetJob().GetIncarnation() == j.state.ref.GetIncarnation()
	case *messages.ReleaseTensorsReply:
		j.onReleased(m)
	case *messages.JobEventReply:
		j.outbox.Acknowledge(m)
	case *adopted:
		j.onAdopted(m)
	case *merged:
		j.onMerged(ctx, m)
	case *saved:
		j.onSaved(ctx, m)
	case *retryDue:
		j.state.retryDue(m.step, m.function, m.attempt)
	case *sizeDue:
		j.onSizeDue(m)
	case *effectDue:
		j.onEffectDue(ctx, m)
	case *childFailed, *tidied:
	case *tick:
		j.onTick(ctx)
	case *actorkit.WorkPanicked:
		panic(m.Err) // a bug: the ParameterServer starts the next incarnation
	case *actor.Terminated:
		j.onChildGone(m.Who)
	case *actor.Stopping:
		j.leave(ctx)
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
	for j.ended == nil {
		next := j.state.advance(j.deps.Rim.Now())
		if next == again {
			continue
		}
		j.do(ctx, next)
		break
	}
	if j.ended == nil {
		j.dispatch(ctx)
	} else if j.accepted && j.outbox.Empty() && len(j.nodes) == 0 {
		ctx.Stop(ctx.Self())
	}
	j.post(ctx)
}

// do has an effect.
func (j *job) do(ctx actor.Context, what effect) {
	switch what {
	case adopt:
		j.adopt()
	case merge:
		j.merge()
	case save:
		j.save(ctx)
	case giveUp:
		j.end(ctx, messages.Phase_PHASE_FAILED, j.state.fatal, "")
	}
}

func (j *job) onStarted(ctx actor.Context) {
	j.self = ctx.Self()
	j.work, j.cancelWork = context.WithCancel(context.Background())
	j.cancelTk = j.deps.Rim.SendAfter(repeatEvery, j.self, &tick{})
	j.log.Info("job started", zap.Uint32("parallelism", j.state.parallelism()), zap.Uint32("slots", j.state.slots()))
	j.state.emit(&messages.JobEvent{What: &messages.JobEvent_Started{Started: &messages.JobStarted{
		QueuedMs: j.start.GetQueuedMs(), Epochs: j.state.task.GetEpochs(), TrainSamples: j.state.task.GetTrainSamples(),
		Parallelism: j.state.parallelism(), Slots: j.state.slots(),
	}}})
}

// dispatch sends out the invocations that have a slot.
func (j *job) dispatch(ctx actor.Context) {
	if j.state.step == nil {
		return
	}
	if j.staged != j.state.step {
		j.staged = j.state.step
		j.byFunc = make([]*actor.PID, len(j.staged.work))
		clear(j.children)
	}
	for _, invoke := range j.state.step.dispatch(j.state.size.GetGrants()) {
		j.nodes[invoke.GetNode()] = true
		ctx.Send(j.invoker(ctx, invoke.GetAttempt().GetFunction()), invoke)
	}
}

// invoker returns the child that runs a function of the step, spawning it for
// its first attempt.
func (j *job) invoker(ctx actor.Context, function uint32) *actor.PID {
	if pid := j.byFunc[function]; pid != nil {
		return pid
	}
	pid := ctx.Spawn(j.deps.Invoker)
	j.byFunc[function] = pid
	j.children[pid.GetId()] = child{step: j.state.step, function: function}
	return pid
}

func (j *job) onFunctionFinished(ctx actor.Context, m *messages.FunctionFinished) {
	if j.ended != nil {
		return
	}
	answer := m.GetAnswer()
	switch accepted, err := j.state.finish(answer); {
	case err != nil:
		j.fail(ctx, answer.GetAttempt(), wire.Failure(err), ranFor(answer))
	case accepted:
		ctx.Stop(j.byFunc[answer.GetAttempt().GetFunction()])
	}
}

func (j *job) onFunctionLost(ctx actor.Context, m *messages.FunctionLost) {
	if j.ended == nil {
		j.fail(ctx, m.GetAttempt(), m.GetFailure(), 0)
	}
}

// fail notes that an attempt failed whose invoker is well.
func (j *job) fail(ctx actor.Context, attempt *messages.AttemptRef, failure *messages.Failure, ran time.Duration) {
	if v, open := j.state.fail(attempt, failure, ran); open {
		j.after(v, attempt)
		if v.lost {
			ctx.Stop(j.byFunc[attempt.GetFunction()])
		}
	}
}

// onChildGone forgets an invoker. One that went without being told to leaves
// its attempt to fail.
func (j *job) onChildGone(pid *actor.PID) {
	c, ours := j.children[pid.GetId()]
	delete(j.children, pid.GetId())
	if !ours || c.step != j.state.step || j.ended != nil {
		return
	}
	j.byFunc[c.function] = nil
	if a := c.step.work[c.function]; a.running {
		attempt := a.invoke.GetAttempt()
		v, _ := j.state.fail(attempt, wire.Failure(fault.New("train.supervise", fault.Unavailable, "the invoker is gone")), 0)
		j.after(v, attempt)
	}
}

func (j *job) onResizeJob(ctx actor.Context, m *messages.ResizeJob) {
	reply := &messages.ResizeJobReply{Job: j.state.ref}
	if m.GetJob().GetIncarnation() > j.state.ref.GetIncarnation() {
		reply.Failure = wire.Failure(fault.New("train.resize", fault.NotFound, "incarnation %d is not here", m.GetJob().GetIncarnation()))
	} else {
		reply.Failure = wire.Failure(j.state.resize(m.GetSize()))
	}
	reply.Seq = j.state.size.GetSeq()
	reply.EffectiveEpoch, reply.EffectiveRound = j.state.nextRound()
	ctx.Respond(reply)
}

func (j *job) onRequestParallelismReply(m *messages.RequestParallelismReply) {
	if !j.state.sizing || m.GetEpoch() != j.state.epoch || m.GetJob().GetIncarnation() != j.state.ref.GetIncarnation() {
		return
	}
	j.state.sizing = false
	if err := j.state.resize(m.GetSize()); err != nil {
		j.state.warn("the Scheduler's answer is ignored: " + err.Error())
	}
	if m.GetWarning() != "" {
		j.state.warn(m.GetWarning())
	}
}

func (j *job) onSizeDue(m *sizeDue) {
	if j.state.sizing && m.epoch == j.state.epoch {
		j.state.sizing = false
		j.log.Warn("the scheduler did not answer, the parallelism stays", zap.Uint32("epoch", m.epoch))
	}
}

func (j *job) onStopJob(ctx actor.Context, m *messages.StopJob) {
	var err error
	switch {
	case j.ended != nil && j.ended.GetResult().GetPhase() != messages.Phase_PHASE_STOPPED:
		err = fault.New("train.stop", fault.Conflict, "job %s has ended", j.state.ref.GetId())
	case j.ended == nil && j.state.saving:
		err = fault.New("train.stop", fault.Conflict, "job %s is trained and stores its result", j.state.ref.GetId())
	case j.ended == nil:
		j.end(ctx, messages.Phase_PHASE_STOPPED, &messages.Failure{Op: "train.stop", Text: m.GetReason()}, "")
	}
	ctx.Respond(&messages.StopJobReply{Failure: wire.Failure(err)})
}

func (j *job) onTick(ctx actor.Context) {
	j.cancelTk = j.deps.Rim.SendAfter(repeatEvery, ctx.Self(), &tick{})
	j.outbox.Repeat(ctx, j.deps.Journal())
	switch {
	case j.ended != nil:
		j.tellEnd(ctx)
	case j.state.sizing:
		j.requestParallelism(ctx)
	}
	if j.ended == nil && j.state.step != nil {
		for function, a := range j.state.step.work {
			if a.running {
				ctx.Send(j.byFunc[function], a.invoke)
			}
		}
	}
}

// post sends the events of this turn to the Journal.
func (j *job) post(ctx actor.Context) {
	for _, event := range j.state.events {
		j.outbox.Post(ctx, j.deps.Journal(), j.deps.Rim.Now(), event)
	}
	j.state.events = nil
}

func (j *job) adopt() {
	w := &adoptWork{
		ctx: j.work, space: j.deps.Space, open: j.deps.OpenModel, base: j.state.model,
		from: j.state.opts.GetInit(), partial: j.state.opts.GetInitPartial(), key: j.key("model-0"),
	}
	j.produce(w.run)
}

func (j *job) onAdopted(m *adopted) {
	switch {
	case j.ended != nil:
	case m.err != nil:
		j.retryEffect(adopt, m.err)
	default:
		j.failures = 0
		j.state.adopting = false
		j.state.model = m.model
	}
}

func (j *job) merge() {
	st := j.state
	w := &mergeWork{
		space: j.deps.Space, rim: j.deps.Rim, step: st.merging,
		key:        j.key(fmt.Sprintf("model-%d", st.version+1)),
		unweighted: st.opts.GetMerge() == "average:unweighted",
		optimizers: st.opts.GetOptimizerState() == "average",
	}
	if strings.HasPrefix(st.model.GetKey(), j.key("")) { // else a host's: see keep
		w.obsolete = append(w.obsolete, st.model.GetKey())
	}
	if st.shared != nil {
		w.obsolete = append(w.obsolete, st.shared.GetKey())
	}
	j.produce(w.run)
}

func (j *job) onMerged(ctx actor.Context, m *merged) {
	if j.ended != nil {
		return
	}
	if m.err != nil {
		j.retryEffect(merge, m.err)
		return
	}
	j.failures = 0
	step := j.state.merging.ref
	j.state.merged(m, j.deps.Rim.Now())
	j.release(ctx, &messages.ReleaseTensors{Step: step, Keep: j.state.keep()})
	if j.state.sizing {
		j.requestParallelism(ctx)
		j.deps.Rim.SendAfter(sizeTimeout, ctx.Self(), &sizeDue{epoch: j.state.epoch})
	}
}

func (j *job) requestParallelism(ctx actor.Context) {
	r := j.state.history.record
	ctx.Request(j.deps.Scheduler(), &messages.RequestParallelism{
		Job: j.state.ref, Epoch: j.state.epoch, Parallelism: r.GetParallelism(),
		Seconds: j.state.history.trained.Sub(j.state.history.epochStarted).Seconds(), Samples: r.GetSamples(),
	})
}

// retryEffect tries again what failed in the world, if that can help.
func (j *job) retryEffect(what effect, err error) {
	j.failures++
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.Corrupt, fault.Unknown:
		if j.failures <= effectRetries {
			j.log.Warn("effect failed, trying again", zap.Stringer("op", what), zap.Error(err))
			j.state.warn(fmt.Sprintf("%v failed and is tried again: %v", what, err))
			j.deps.Rim.SendAfter(retryCap>>max(0, effectRetries-j.failures), j.self, &effectDue{what})
			return
		}
	}
	j.state.fatal = wire.Failure(err)
}

func (j *job) onEffectDue(ctx actor.Context, m *effectDue) {
	if j.ended == nil {
		j.do(ctx, m.what)
	}
}

func (j *job) save(ctx actor.Context) {
	ref, task, work := j.state.ref, j.state.task, j.work
	result := j.result(messages.Phase_PHASE_SUCCEEDED, nil, "")
	model := wire.PlaneRef(j.state.model)
	j.deps.Rim.Go(ctx.Self(), func() any {
		blob, err := j.deps.Space.Open(model)
		if err != nil {
			return &saved{err: fmt.Errorf("open the result: %w", err)}
		}
		defer blob.Close()
		url, err := j.deps.Models.Save(work, ref, task, result, blob)
		return &saved{url: url, err: err}
	})
}

func (j *job) onSaved(ctx actor.Context, m *saved) {
	if j.ended != nil {
		return
	}
	if m.err != nil {
		j.retryEffect(save, m.err)
		return
	}
	j.end(ctx, messages.Phase_PHASE_SUCCEEDED, nil, m.url)
}

// end closes the job: its functions stop, its tensors go, and its
// ParameterServer and the Journal hear of it until they have answered.
func (j *job) end(ctx actor.Context, phase messages.Phase, failure *messages.Failure, url string) {
	for _, pid := range ctx.Children() {
		ctx.Stop(pid)
	}
	j.state.abandon()
	result := j.result(phase, failure, url)
	j.ended = &messages.JobFinished{Job: j.state.ref, Result: result}
	j.state.emit(&messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: result}}})
	j.endedAt = j.deps.Rim.Now()
	j.cancelWork()
	j.tidy()
	j.tellEnd(ctx)
	j.log.Info("job ended", zap.Stringer("phase", phase), zap.String("error", failure.GetText()))
}

// tellEnd says that the job has ended to whoever has not answered yet.
func (j *job) tellEnd(ctx actor.Context) {
	if !j.accepted {
		ctx.Request(ctx.Parent(), j.ended)
	}
	if j.deps.Rim.Now().Sub(j.endedAt) >= lingerFor {
		clear(j.nodes) // gone, and their tensors with them
	}
	j.releaseAll(ctx)
}

// leave ends the actor. One that has not ended its job dies of a bug, or with
// its node: what it has here goes, and hosts hear of it once, without an answer.
func (j *job) leave(ctx actor.Context) {
	j.left = true
	j.cancelTk()
	j.cancelWork()
	if j.ended == nil {
		j.tidy()
		j.releaseAll(ctx)
	}
}

func (j *job) releaseAll(ctx actor.Context) {
	j.release(ctx, &messages.ReleaseTensors{
		Step:       &messages.AttemptRef{Job: j.state.ref, Epoch: j.state.epoch, Round: j.state.round},
		Everything: true,
	})
}

func (j *job) onReleased(m *messages.ReleaseTensorsReply) {
	if j.ended != nil && m.GetJob().GetIncarnation() == j.state.ref.GetIncarnation() {
		delete(j.nodes, m.GetNode())
	}
}

func (j *job) result(phase messages.Phase, failure *messages.Failure, url string) *messages.JobResult {
	r := j.state.history.result(phase, failure, j.state.opts.GetMerge(), j.deps.Rim.Now())
	r.Model = url
	return r
}

// release tells every host that may hold tensors of the job what may go.
func (j *job) release(ctx actor.Context, m *messages.ReleaseTensors) {
	for node := range j.nodes {
		ctx.Request(j.deps.Host(node), m)
	}
}

// produce runs work that leaves tensors under the job's keys. Work that is done
// only after the job has ended, or died, leaves none.
func (j *job) produce(work func() any) {
	ctx, remove := j.work, j.remover()
	j.deps.Rim.Go(j.self, func() any {
		result := work()
		if ctx.Err() != nil {
			remove()
		}
		return result
	})
}

// tidy removes what work of the job has left.
func (j *job) tidy() {
	remove := j.remover()
	j.deps.Rim.Go(j.self, func() any {
		remove()
		return &tidied{}
	})
}

// remover returns what removes the tensors under the job's keys, off the actor.
func (j *job) remover() func() {
	space, prefix := j.deps.Space, j.key("")
	return func() { _ = space.Remove(space.List(prefix)...) } // what stays goes with the process
}

// key names a tensor of the job's own.
func (j *job) key(name string) string {
	return fmt.Sprintf("%s/%d/merged/%s", j.state.ref.GetId(), j.state.ref.GetIncarnation(), name)
}
