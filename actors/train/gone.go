package train

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// outOfReach is why an accepted answer cannot be had.
type outOfReach struct {
	function uint32
	err      error
}

func (o *outOfReach) Error() string { return o.err.Error() }

func (o *outOfReach) Unwrap() error { return o.err }

// stateOp is the operation of a host's failure to open the optimizer state that a
// function was to start from.
const stateOp = "host.optimizer"

// isGone reports whether a node is, as far as the Scheduler has said.
func (s *state) isGone(node string) bool { return slices.Contains(s.size.GetGone(), node) }

// lostAll reports whether what lay on a node is lost. What lies beside the job is
// there as long as the job, whatever its host does.
func (s *state) lostAll(node string) bool { return node != s.node && s.isGone(node) }

// leaveNodes gives up, at once, what runs and what lies on nodes that are gone.
func (j *job) leaveNodes(ctx actor.Context) {
	if j.ended == nil && j.state.tired(j.deps.Rim.Now()) {
		j.combine()
	}
	for _, f := range j.state.stranded() {
		j.cut(ctx, f)
	}
	if j.state.fatal != nil {
		return
	}
	now := j.deps.Rim.Now()
	for _, function := range j.state.step.gone(j.state.lostAll) {
		j.lose(ctx, function, errGone(j.state.step.work[function].goneTo(j.state.lostAll)), now)
	}
	j.state.forsake()
	j.forgetBrought()
}

func errGone(node string) error {
	return fault.New(nodeOp, fault.Unavailable, "node %q is gone", node)
}

// nodeOp is the operation of a failure that is a node's end.
const nodeOp = "train.node"

// blameless reports whether a failure says nothing about the attempt: its node has
// gone, or is left alone, or the optimizer state is that it was to start from, of
// which there is none the next time but one.
func (f failure) blameless() bool { return f.excused || f.GetOp() == nodeOp || f.GetOp() == stateOp }

// lose has an assignment of the running step done again whose answer cannot be
// had.
func (j *job) lose(ctx actor.Context, function uint32, why error, now time.Time) {
	v, f := j.state.lose(function, wire.Failure(why), now)
	j.after(v, f)
	if v.ends() {
		j.dismiss(ctx, function)
	}
}

// reopen goes back to a step whose answers were all there, as one of them cannot
// be had: err says which, and why. It reports whether it has; if not, what failed
// is to be tried again as it is.
func (j *job) reopen(ctx actor.Context, err error) bool {
	lost, ok := errors.AsType[*outOfReach](err)
	if !ok || !j.state.isLost(lost, j.failures) {
		return false
	}
	j.log.Warn("an answer is lost, its assignment is done again", zap.Uint32("function", lost.function), zap.Error(err))
	j.failures = 0
	now := j.deps.Rim.Now()
	j.state.reopened()
	j.unlate()
	if fault.KindOf(lost.err) == fault.Unavailable {
		j.state.unheard(j.state.step.work[lost.function].answer.GetModel().GetNode(), now)
	}
	if node := j.state.step.work[lost.function].answer.GetModel().GetNode(); !j.state.lostAll(node) {
		j.lose(ctx, lost.function, fault.New("train.answer", fault.Unavailable, "the answer is lost: %w", err), now)
	}
	if j.state.fatal == nil {
		j.leaveNodes(ctx)
	}
	return true
}

// stranded returns the failures of the open attempts on nodes that are gone.
func (s *state) stranded() []failed {
	if s.step == nil {
		return nil
	}
	var out []failed
	for _, a := range s.step.work {
		for _, t := range a.open {
			if node := t.invoke.GetNode(); s.isGone(node) {
				out = append(out, failed{attempt: t.invoke.GetAttempt(), failure: wire.Failure(errGone(node))})
			}
		}
	}
	return out
}

// gone returns the functions whose accepted answers lie on nodes of that kind.
func (s *step) gone(is func(node string) bool) []uint32 {
	if s == nil {
		return nil
	}
	var out []uint32
	for function, a := range s.work {
		if a.goneTo(is) != "" {
			out = append(out, uint32(function))
		}
	}
	return out
}

// goneTo is the node of that kind where a part of the accepted answer lies, "" for
// none: of a node that left while its tensors were fetched it may be one of two.
func (a *assignment) goneTo(is func(node string) bool) string {
	for _, ref := range partsOf(a.answer) {
		if is(ref.GetNode()) {
			return ref.GetNode()
		}
	}
	return ""
}

// isLost reports whether an answer that could not be opened so many times in a row
// is not worth another try: its node is gone, or has lost it, or is out of reach.
func (s *state) isLost(o *outOfReach, failures int) bool {
	switch fault.KindOf(o.err) {
	case fault.NotFound, fault.Corrupt:
		return true
	case fault.Unavailable:
		node := s.merging.work[o.function].answer.GetModel().GetNode()
		return s.lostAll(node) || node != s.node && failures >= effectRetries
	}
	return false
}

// lose takes the accepted answer of an assignment away, as if its attempt had
// failed.
func (s *state) lose(function uint32, why *messages.Failure, now time.Time) (verdict, failed) {
	a := s.step.work[function]
	f := failed{attempt: a.answer.GetAttempt(), failure: why}
	node := a.answer.GetModel().GetNode()
	a.answer = nil
	s.step.open++
	return s.failed(a, f, node, now), f
}

// reopened puts a step back on the stage that had ended.
func (s *state) reopened() {
	s.step, s.merging, s.sums = s.merging, nil, nil
	if s.step.ref.GetTask() == messages.Task_TASK_INIT {
		s.model, s.adopting = nil, false
		return
	}
	_, samples := s.step.dropped()
	s.todo = s.step.rest
	s.history.undropped(samples)
}

// forgetState has an assignment start from no optimizer state, and no residual,
// once nothing of it runs, if the one that it was to start from is gone, or could
// not be had twice. The history names it.
func (s *state) forgetState(a *assignment, f failed) {
	if len(a.open) > 0 || f.attempt.GetTask() != messages.Task_TASK_TRAIN {
		return
	}
	missed := 0
	for _, earlier := range a.failures {
		if earlier.GetOp() == stateOp {
			missed++
		}
	}
	for _, ref := range []**messages.TensorRef{&a.optimizer, &a.residual} {
		if *ref != nil && (s.lostAll((*ref).GetNode()) || missed > 1) {
			*ref, a.home = nil, ""
			s.history.freshOptimizer(f.attempt.GetFunction())
		}
	}
}

// forsake forgets the optimizer states and residuals that went with their nodes: for functions
// that have yet to run, for rounds to come, and for whoever goes on with the job.
func (s *state) forsake() {
	if len(s.size.GetGone()) == 0 {
		return
	}
	if s.step != nil {
		for function, a := range s.step.work {
			if !a.over() {
				ref := proto.CloneOf(s.step.ref)
				ref.Function = uint32(function)
				s.forgetState(a, failed{attempt: ref})
			}
		}
	}
	for _, refs := range []perFunction{s.optimizers, s.residuals} {
		for function, ref := range refs {
			if s.lostAll(ref.GetNode()) {
				delete(refs, function)
				s.bereft[function] = true
			}
		}
	}
	s.unmark(s.lostAll)
}
