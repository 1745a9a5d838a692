package train

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

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
		if answer.GetAttempt().GetTask() == messages.Task_TASK_INIT { // those of earlier tries and incarnations may go
			j.release(ctx, &messages.ReleaseTensors{Step: j.state.step.ref, Keep: []string{answer.GetModel().GetKey()}})
		}
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
		j.after(v, attempt, failure)
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
		failure := wire.Failure(fault.New("train.supervise", fault.Unavailable, "the invoker is gone"))
		v, _ := j.state.fail(attempt, failure, 0)
		j.after(v, attempt, failure)
	}
}
