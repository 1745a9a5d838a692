package train

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// attemptFailed is the panic value of an invoker whose function failed.
type attemptFailed interface {
	error
	Attempt() *messages.AttemptRef
	Failure() *messages.Failure
	Slot() uint32 // of the node, from 1; 0: unknown
	Ran() time.Duration
	Warnings() []string
}

// HandleFailure makes the job the supervisor of its invokers. It runs within a
// turn of the job's mailbox, so it may use the job's fields, but it has no
// context: it decides, directs the child, and leaves the rest to childFailed.
func (j *job) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, pid *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	c, ours := j.children[pid.GetId()]
	if !ours || j.left || j.ended != nil || c.step != j.state.step || !pid.Equal(j.invokers[c.function][c.lane]) {
		supervisor.StopChildren(pid) // what it worked on is over
		return
	}
	t := c.step.work[c.function].onLane(c.lane)
	if t == nil {
		supervisor.RestartChildren(pid) // a bug of ours, between two attempts
		return
	}
	f := panicked(reason)
	if f.attempt == nil {
		f.attempt = t.invoke.GetAttempt()
	}
	v, open := j.state.fail(f, j.deps.Rim.Now())
	if v.ends() {
		for lane, invoker := range j.invokers[c.function] {
			if invoker != nil {
				supervisor.StopChildren(invoker)
				j.invokers[c.function][lane] = nil
			}
		}
	} else {
		supervisor.RestartChildren(pid)
	}
	if open { // else an earlier attempt's failure came again, and the open attempt is repeated to the invoker
		j.after(v, f)
	}
}

// logFailure says what went wrong, with the traceback of the user's code.
func (j *job) logFailure(f failed, v verdict) {
	err, trace := wire.Error(f.failure), zap.Skip()
	if f.failure.GetTrace() != "" {
		trace = zap.String("trace", f.failure.GetTrace())
	}
	j.log.Warn("function failed", zap.Uint32("epoch", f.attempt.GetEpoch()), zap.Uint32("round", f.attempt.GetRound()),
		zap.Uint32("function", f.attempt.GetFunction()), zap.Uint32("attempt", f.attempt.GetAttempt()),
		zap.Bool("given_up", v.lost || v.dropped), zap.Stringer("kind", fault.KindOf(err)), zap.Error(err), trace)
}

// after has the job go on after a failure: what is to be told is told and a
// free slot used at once, and the assignment is tried again when it is time.
func (j *job) after(v verdict, f failed) {
	j.logFailure(f, v)
	if v.retry() {
		j.deps.Rim.SendAfter(v.after, j.self, &retryDue{step: j.state.step, function: f.attempt.GetFunction(), begun: v.begun})
	}
	if !v.retry() || v.after > 0 {
		j.deps.Rim.SendAfter(0, j.self, &childFailed{})
	}
}

// panicked reads what an invoker panicked with: its function's failure in an
// attempt, or a bug of ours, which names none.
func panicked(reason any) failed {
	err := actorkit.Panicked(reason)
	if f, ok := errors.AsType[attemptFailed](err); ok {
		return failed{attempt: f.Attempt(), failure: f.Failure(), slot: f.Slot(), ran: f.Ran(), warnings: f.Warnings()}
	}
	return failed{failure: wire.Failure(err)}
}
