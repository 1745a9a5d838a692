package train

import (
	"fmt"
	"math"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// finish takes the answer of an open attempt and reports whether it counts. The
// error, Rejected, says why an open attempt's answer may not: it is that
// attempt's failure.
func (s *state) finish(answer *messages.Invoked) (accepted bool, err error) {
	a, ok := s.step.find(answer.GetAttempt())
	if !ok {
		return false, nil // late, repeated or forged
	}
	if err := s.acceptable(a, answer); err != nil {
		return false, err
	}
	s.history.ran(ranFor(answer))
	s.step.end(a)
	s.step.open--
	a.answer = answer
	s.budget = min(s.budget+1, s.fullBudget())
	return true, nil
}

// ranFor returns for how long an answer's function ran.
func ranFor(answer *messages.Invoked) time.Duration {
	return time.Duration(answer.GetDurationUs()) * time.Microsecond
}

// acceptable says why an answer may not count. Hosts have looked at the
// weights; these are the promises that need no look at them.
func (s *state) acceptable(a *assignment, answer *messages.Invoked) error {
	task := s.step.ref.GetTask()
	switch {
	case task != messages.Task_TASK_VALIDATE && answer.GetModel() == nil:
		return fault.New("train.accept", fault.Rejected, "the answer has no model")
	case task != messages.Task_TASK_INIT && answer.GetSamples() != a.samples:
		return fault.New("train.accept", fault.Rejected, "the answer counts %d samples of an assignment of %d", answer.GetSamples(), a.samples)
	case math.IsNaN(answer.GetLoss()) || math.IsInf(answer.GetLoss(), 0):
		return fault.New("train.accept", fault.Rejected, "the loss is %v", answer.GetLoss())
	}
	return nil
}

// fail notes that an open attempt failed after it ran for a while, and decides
// what comes of it. It reports whether it was an open attempt.
func (s *state) fail(attempt *messages.AttemptRef, failure *messages.Failure, ran time.Duration) (verdict, bool) {
	a, ok := s.step.find(attempt)
	if !ok {
		return verdict{}, false
	}
	s.step.end(a)
	s.history.ran(ran)
	a.failures = append(a.failures, failure)
	if failure.GetKind() == messages.FailureKind_FAILURE_KIND_REJECTED {
		s.history.rejected()
	}
	v := judge(a.failures, s.opts.GetRetries(), derive(s.opts.GetSeed(), drawJitter, attempt.GetEpoch(), attempt.GetRound(), attempt.GetFunction()))
	if !failure.GetChaos() {
		if s.budget--; s.budget < 0 && v.fatal == nil {
			v.fatal = wire.Failure(fault.New("train.fail", fault.Unavailable,
				"functions fail more often than they succeed; the last: %s", failure.GetText()))
		}
	}
	switch {
	case v.fatal != nil:
		s.fatal = s.explain(a, attempt, v.fatal)
	case v.lost:
		a.givenUp = true
		s.step.open--
		s.history.lost()
	default:
		s.history.retried()
	}
	s.emit(&messages.JobEvent{What: &messages.JobEvent_FunctionFailed{FunctionFailed: &messages.FunctionFailed{
		Attempt: attempt, Failure: failure, GivenUp: v.lost, RetryMs: uint64(v.after.Milliseconds()),
	}}})
	return v, true
}

// explain makes of the failure that ends the job what a person can act on.
func (s *state) explain(a *assignment, attempt *messages.AttemptRef, failure *messages.Failure) *messages.Failure {
	out := &messages.Failure{Kind: failure.GetKind(), Op: failure.GetOp(), Trace: failure.GetTrace()}
	where := fmt.Sprintf("epoch %d, round %d, function %d", attempt.GetEpoch(), attempt.GetRound(), attempt.GetFunction())
	switch failure.GetKind() {
	case messages.FailureKind_FAILURE_KIND_REJECTED:
		var positions string
		for _, r := range a.ranges {
			positions += fmt.Sprintf(" [%d,%d)", r.lo, r.hi)
		}
		switch {
		case attempt.GetTask() == messages.Task_TASK_INIT:
			out.Text = fmt.Sprintf("the first model was rejected twice: %s; look at what the function begins with", failure.GetText())
		case attempt.GetTask() == messages.Task_TASK_VALIDATE:
			out.Text = fmt.Sprintf("the validation was rejected twice (epoch %d, test positions%s): %s; look at how the function validates, or lower --lr",
				attempt.GetEpoch(), positions, failure.GetText())
		case failure.GetOp() == "host.check": // counts: see actors/host
			out.Text = fmt.Sprintf("the answer was rejected twice (%s): %s; look at what the function reports", where, failure.GetText())
		default:
			out.Text = fmt.Sprintf("diverged: %s, %s, positions%s, lr %v; lower --lr, or look at the data at these positions",
				failure.GetText(), where, positions, s.task.GetLr())
		}
	case messages.FailureKind_FAILURE_KIND_USER_CODE:
		out.Text = fmt.Sprintf("the function raised the same error twice (%s): %s", where, failure.GetText())
	default:
		out.Text = failure.GetText()
	}
	return out
}

// retryDue lets an assignment run again if it still waits for that.
func (s *state) retryDue(step *step, function uint32, attempt uint32) {
	if step != s.step {
		return
	}
	if a := step.work[function]; a.attempt == attempt && !a.running && !a.over() {
		step.again(function)
	}
}
