package train

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

// finish takes the answer of an open attempt and reports whether it counts:
// then it is the assignment's, and other attempts at it are over. The error,
// Rejected, says why an open attempt's answer may not: it is that attempt's
// failure.
func (s *state) finish(answer *messages.Invoked, now time.Time) (accepted bool, err error) {
	a, t, ok := s.step.find(answer.GetAttempt())
	if !ok {
		return false, nil // late, repeated or forged
	}
	if err := s.acceptable(a, answer); err != nil {
		return false, err
	}
	s.warnOnce(answer.GetWarnings())
	s.history.ran(ranFor(answer))
	s.well(t.invoke.GetNode(), true)
	s.step.end(a, t)
	a.answer = answer
	s.close(a, now)
	s.budget = min(s.budget+1, s.fullBudget())
	return true, nil
}

// close notes that an assignment is over: attempts that still run are in vain.
func (s *state) close(a *assignment, now time.Time) {
	for len(a.open) > 0 {
		t := a.open[0]
		s.history.ran(t.ran(now))
		s.step.end(a, t)
	}
	if s.step.open--; s.step.open == 0 {
		s.paces.learn(s.step)
	}
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
	case (answer.GetResidual() != nil) != encodes(s.step.plan):
		return fault.New("train.accept", fault.Rejected, "the answer is not encoded as compress %q says", s.step.plan.GetCompress())
	case task != messages.Task_TASK_INIT && answer.GetSamples() != a.samples:
		return fault.New("train.accept", fault.Rejected, "the answer counts %d samples of an assignment of %d", answer.GetSamples(), a.samples)
	case math.IsNaN(answer.GetLoss()) || math.IsInf(answer.GetLoss(), 0):
		return fault.New("train.accept", fault.Rejected, "the loss is %v", answer.GetLoss())
	}
	return nil
}

// encodes reports whether the answers of a step are to come with residuals.
func encodes(plan *messages.RoundPlan) bool {
	encoding, err := tensor.ParseEncoding(plan.GetCompress())
	return err == nil && encoding != tensor.Plain
}

// failed is an attempt's failure, as it reaches the job.
type failed struct {
	attempt  *messages.AttemptRef
	failure  *messages.Failure
	slot     uint32 // from 1; 0: unknown
	ran      time.Duration
	warnings []string // of the function
}

// fail notes that an open attempt failed, and decides what comes of it. It
// reports whether it was an open attempt.
func (s *state) fail(f failed, now time.Time) (verdict, bool) {
	a, t, ok := s.step.find(f.attempt)
	if !ok {
		return verdict{}, false
	}
	s.warnOnce(f.warnings)
	s.step.end(a, t)
	s.history.ran(f.ran)
	return s.failed(a, f, t.invoke.GetNode(), now), true
}

// failed decides what comes of an attempt on a node that gives no answer, or
// none that can be had.
func (s *state) failed(a *assignment, f failed, node string, now time.Time) verdict {
	a.failures = append(a.failures, failure{Failure: f.failure, node: node, slot: f.slot})
	s.attribute(a, now)
	s.forgetState(a, f)
	if f.failure.GetKind() == messages.FailureKind_FAILURE_KIND_REJECTED {
		s.history.rejected()
	}
	v := s.verdict(a, f)
	switch {
	case v.fatal != nil:
		s.fatal = s.explain(a, f.attempt, v.fatal)
	case v.dropped:
		a.dropped = true
		s.close(a, now)
		s.drop(a, f)
	case v.lost:
		a.givenUp = true
		s.close(a, now)
		s.history.lost()
	case v.retry():
		s.history.retried()
	}
	s.emit(&messages.JobEvent{What: &messages.JobEvent_FunctionFailed{FunctionFailed: &messages.FunctionFailed{
		Attempt: f.attempt, Failure: f.failure, GivenUp: v.lost || v.dropped, RetryMs: uint64(v.after.Milliseconds()),
	}}})
	return v
}

// verdict is judge's, with what the rest of the job has to say to it: bad
// samples may be dropped, an assignment whose other attempt runs is not given
// up, and the job has a budget.
func (s *state) verdict(a *assignment, f failed) verdict {
	ref := f.attempt
	v := judge(a.failures, s.opts.GetRetries(), s.slots(),
		derive(s.opts.GetSeed(), drawJitter, ref.GetEpoch(), ref.GetRound(), ref.GetFunction()))
	v.begun = a.begun
	if s.opts.GetOnBadSamples() == "drop" && ref.GetTask() == messages.Task_TASK_TRAIN && deterministic(a.failures, s.slots()) {
		s.budget = min(s.budget+len(a.failures)-1, s.fullBudget()) // asked for: the others were paid for
		return verdict{dropped: true, begun: a.begun}
	}
	if last := &a.failures[len(a.failures)-1]; !f.failure.GetChaos() && !last.blameless() {
		last.charged = true
		if s.budget--; s.budget < 0 && v.fatal == nil {
			v.fatal = wire.Failure(fault.New("train.fail", fault.Unavailable,
				"functions fail more often than they succeed; the last: %s", f.failure.GetText()))
		}
	}
	if v.fatal == nil && len(a.open) > 0 {
		return verdict{twin: true, begun: a.begun}
	}
	return v
}

// where names an attempt's place in the job.
func where(attempt *messages.AttemptRef) string {
	if attempt.GetTask() == messages.Task_TASK_INIT {
		return "before the first epoch"
	}
	return fmt.Sprintf("epoch %d, round %d, function %d", attempt.GetEpoch(), attempt.GetRound(), attempt.GetFunction())
}

// positions names an assignment's positions, with a space before each range.
func (a *assignment) positions() string {
	var text string
	for _, r := range a.ranges {
		text += fmt.Sprintf(" [%d,%d)", r.lo, r.hi)
	}
	return text
}

// explain makes of the failure that ends the job what a person can act on.
func (s *state) explain(a *assignment, attempt *messages.AttemptRef, failure *messages.Failure) *messages.Failure {
	out := &messages.Failure{Kind: failure.GetKind(), Op: failure.GetOp(), Trace: failure.GetTrace()}
	where, positions := where(attempt), a.positions()
	switch failure.GetKind() {
	case messages.FailureKind_FAILURE_KIND_REJECTED:
		switch {
		case attempt.GetTask() == messages.Task_TASK_INIT:
			out.Text = fmt.Sprintf("the first model was rejected twice: %s; look at what the function begins with", failure.GetText())
		case attempt.GetTask() == messages.Task_TASK_VALIDATE && isForm(failure):
			out.Text = fmt.Sprintf("the validation was rejected twice (epoch %d, test positions%s): %s; look at what the function's validation reports",
				attempt.GetEpoch(), positions, failure.GetText())
		case attempt.GetTask() == messages.Task_TASK_VALIDATE:
			out.Text = fmt.Sprintf("the validation was rejected twice (epoch %d, test positions%s): %s; look at how the function validates, or lower --lr",
				attempt.GetEpoch(), positions, failure.GetText())
		case failure.GetOp() == "host.check":
			out.Text = fmt.Sprintf("the answer was rejected twice (%s): %s; look at what the function reports", where, failure.GetText())
		case isForm(failure):
			out.Text = fmt.Sprintf("the answer was rejected twice (%s): %s; look at what the function (its endpoint, where it has one) sends",
				where, failure.GetText())
		default:
			out.Text = fmt.Sprintf("diverged: %s, %s, positions%s, lr %v; lower --lr, or look at the data at these positions "+
				"(--on-bad-samples drop skips them)",
				failure.GetText(), where, positions, s.task.GetLr())
		}
	case messages.FailureKind_FAILURE_KIND_USER_CODE:
		out.Text = fmt.Sprintf("the function raised the same error twice (%s): %s", where, failure.GetText())
	default:
		out.Text = failure.GetText()
	}
	return out
}

// isForm reports whether an answer was rejected for what it is, counts among that,
// and not for what was learned: see actors/host and functions/remote.
func isForm(rejected *messages.Failure) bool {
	return slices.Contains([]string{"host.check", "host.form", "remote.answer", "remote.put"}, rejected.GetOp())
}

// retryDue lets an assignment run again if it still waits for that: so many
// attempts at it have begun.
func (s *state) retryDue(step *step, function uint32, begun uint32) {
	if step != s.step {
		return
	}
	if a := step.work[function]; a.begun == begun && len(a.open) == 0 && !a.over() {
		step.again(function)
	}
}
