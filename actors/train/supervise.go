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
	Ran() time.Duration
}

// HandleFailure makes the job the supervisor of its invokers. It runs within a
// turn of the job's mailbox, so it may use the job's fields, but it has no
// context: it decides, directs the child, and leaves the rest to childFailed.
func (j *job) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, pid *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	c, ours := j.children[pid.GetId()]
	switch {
	case !ours || j.left || j.ended != nil || c.step != j.state.step || c.step.work[c.function].over():
		supervisor.StopChildren(pid) // what it worked on is over
		return
	case !c.step.work[c.function].running:
		supervisor.RestartChildren(pid) // a bug of ours, between two attempts
		return
	}
	attempt, failure, ran := failureOf(reason)
	if attempt == nil {
		attempt = c.step.work[c.function].invoke.GetAttempt()
	}
	v, open := j.state.fail(attempt, failure, ran)
	if v.lost || v.fatal != nil {
		supervisor.StopChildren(pid)
	} else {
		supervisor.RestartChildren(pid)
	}
	if open { // else an earlier attempt's failure came again, and the open attempt is repeated to the invoker
		j.after(v, attempt, failure)
	}
}

// logFailure says what went wrong, with the traceback of the user's code.
func (j *job) logFailure(attempt *messages.AttemptRef, failure *messages.Failure, v verdict) {
	err, trace := wire.Error(failure), zap.Skip()
	if failure.GetTrace() != "" {
		trace = zap.String("trace", failure.GetTrace())
	}
	j.log.Warn("function failed", zap.Uint32("epoch", attempt.GetEpoch()), zap.Uint32("round", attempt.GetRound()),
		zap.Uint32("function", attempt.GetFunction()), zap.Uint32("attempt", attempt.GetAttempt()),
		zap.Bool("given_up", v.lost), zap.Stringer("kind", fault.KindOf(err)), zap.Error(err), trace)
}

// after has the job go on after a failure: what is to be told is told and a
// free slot used at once, and the assignment is tried again when it is time.
func (j *job) after(v verdict, attempt *messages.AttemptRef, failure *messages.Failure) {
	j.logFailure(attempt, failure, v)
	retry := !v.lost && v.fatal == nil
	if retry {
		j.deps.Rim.SendAfter(v.after, j.self, &retryDue{step: j.state.step, function: attempt.GetFunction(), attempt: attempt.GetAttempt()})
	}
	if !retry || v.after > 0 {
		j.deps.Rim.SendAfter(0, j.self, &childFailed{})
	}
}

// failureOf reads what an invoker panicked with: its function's failure in an
// attempt, or a bug of ours, which names none.
func failureOf(reason any) (*messages.AttemptRef, *messages.Failure, time.Duration) {
	err := actorkit.Panicked(reason)
	if f, ok := errors.AsType[attemptFailed](err); ok {
		return f.Attempt(), f.Failure(), f.Ran()
	}
	return nil, wire.Failure(err), 0
}
