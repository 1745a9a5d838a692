package train

import (
	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// child is what an invoker works on: a function's assignment of a step, of
// whose attempts it runs one after the other, on a lane of its own.
type child struct {
	step     *step
	function uint32
	lane     int
}

// dispatch sends out the invocations that have a slot.
func (j *job) dispatch(ctx actor.Context) {
	if j.state.step == nil {
		return
	}
	if j.staged != j.state.step {
		j.staged = j.state.step
		j.invokers = make([][lanes]*actor.PID, len(j.staged.work))
		clear(j.children)
	}
	for _, t := range j.state.step.dispatch(j.state.within(j.deps.Rim.Now())) {
		j.send(ctx, t)
	}
}

// send gives an attempt to the invoker of its lane, spawning it for the first.
func (j *job) send(ctx actor.Context, t *attempt) {
	j.state.nodes[t.invoke.GetNode()] = true
	function := t.invoke.GetAttempt().GetFunction()
	invoker := &j.invokers[function][t.lane]
	if *invoker == nil {
		*invoker = ctx.Spawn(j.deps.Invoker)
		j.children[(*invoker).GetId()] = child{step: j.state.step, function: function, lane: t.lane}
	}
	ctx.Send(*invoker, t.invoke)
}

// dismiss stops the invokers of a function; what they still wait for, they
// cancel.
func (j *job) dismiss(ctx actor.Context, function uint32) {
	for lane := range lanes {
		j.dismissOne(ctx, function, lane)
	}
}

func (j *job) dismissOne(ctx actor.Context, function uint32, lane int) {
	if invoker := &j.invokers[function][lane]; *invoker != nil {
		ctx.Stop(*invoker)
		*invoker = nil
	}
}

// repeat tells invokers again what they may have missed.
func (j *job) repeat(ctx actor.Context) {
	if j.state.step == nil {
		return
	}
	for function, a := range j.state.step.work {
		for _, t := range a.open {
			ctx.Send(j.invokers[function][t.lane], t.invoke)
		}
	}
}

// hurry ends the attempts that have had their time, and has stragglers run a
// second time where there is room.
func (j *job) hurry(ctx actor.Context) {
	now := j.deps.Rim.Now()
	for _, f := range j.state.overdue(now) {
		if _, t, ok := j.state.step.find(f.attempt); ok {
			actorkit.Send(ctx, j.deps.Host(t.invoke.GetNode()), &messages.CancelInvocation{Attempt: f.attempt, Overdue: true})
		}
		j.cut(ctx, f)
	}
	if j.state.fatal != nil {
		return
	}
	j.twice(ctx, "function is late, running it a second time", j.state.backups(now))
	j.twice(ctx, "the node of a function leaves, running it a second time", j.state.hastened(now))
}

// twice runs functions a second time, and tells the log why.
func (j *job) twice(ctx actor.Context, why string, seconds []*attempt) {
	for _, t := range seconds {
		ref := t.invoke.GetAttempt()
		j.log.Info(why, zap.Uint32("epoch", ref.GetEpoch()), zap.Uint32("round", ref.GetRound()),
			zap.Uint32("function", ref.GetFunction()), zap.Uint32("attempt", ref.GetAttempt()), zap.String("node", t.invoke.GetNode()))
		j.send(ctx, t)
	}
}

// cut ends an attempt whose invoker still waits for it.
func (j *job) cut(ctx actor.Context, f failed) {
	if _, t, ok := j.state.step.find(f.attempt); ok {
		j.dismissOne(ctx, f.attempt.GetFunction(), t.lane)
	}
	j.fail(ctx, f)
}

func (j *job) onFunctionStarted(m *messages.FunctionStarted) {
	if j.ended == nil {
		j.state.start(m.GetAttempt(), j.deps.Rim.Now())
		j.state.warnOnce(m.GetWarnings())
	}
}

func (j *job) onFunctionFinished(ctx actor.Context, m *messages.FunctionFinished) {
	if j.ended != nil {
		return
	}
	answer := m.GetAnswer()
	switch accepted, err := j.state.finish(answer, j.deps.Rim.Now()); {
	case err != nil:
		j.fail(ctx, failed{attempt: answer.GetAttempt(), failure: wire.Failure(err), ran: ranFor(answer)})
	case accepted:
		j.dismiss(ctx, answer.GetAttempt().GetFunction())
		if answer.GetAttempt().GetTask() == messages.Task_TASK_INIT && answer.GetModel().GetNode() == j.deps.Node {
			j.releaseFirst(ctx, answer.GetModel())
		}
	}
}

// releaseFirst lets go of what earlier tries at the first model, and earlier
// incarnations, have left.
func (j *job) releaseFirst(ctx actor.Context, model *messages.TensorRef) {
	j.release(ctx, &messages.ReleaseTensors{
		Step: &messages.AttemptRef{Job: j.state.ref, Task: messages.Task_TASK_INIT}, Keep: []string{model.GetKey()},
	})
}

func (j *job) onFunctionLost(ctx actor.Context, m *messages.FunctionLost) {
	if j.ended == nil {
		j.state.silenced(m.GetAttempt(), j.deps.Rim.Now())
		j.fail(ctx, failed{attempt: m.GetAttempt(), failure: m.GetFailure()})
	}
}

// fail notes that an attempt failed whose invoker is well, or gone.
func (j *job) fail(ctx actor.Context, f failed) {
	v, open := j.state.fail(f, j.deps.Rim.Now())
	if !open {
		return
	}
	j.after(v, f)
	if v.ends() {
		j.dismiss(ctx, f.attempt.GetFunction())
	}
}

// onChildGone forgets an invoker. One that went without being told to leaves
// its attempt to fail.
func (j *job) onChildGone(ctx actor.Context, pid *actor.PID) {
	c, ours := j.children[pid.GetId()]
	delete(j.children, pid.GetId())
	if !ours || c.step != j.state.step || j.ended != nil || !pid.Equal(j.invokers[c.function][c.lane]) {
		return
	}
	j.invokers[c.function][c.lane] = nil
	if t := c.step.work[c.function].onLane(c.lane); t != nil {
		j.fail(ctx, failed{attempt: t.invoke.GetAttempt(), failure: wire.Failure(fault.New("train.supervise", fault.Unavailable, "the invoker is gone"))})
	}
}
