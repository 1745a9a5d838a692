package train

import (
	"slices"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// assignment is the positions that one function consumes in a step. It is done
// by whichever of its attempts is accepted first: all of them would give the
// same bits.
type assignment struct {
	ranges    ranges
	samples   uint64
	seed      uint64
	optimizer *messages.TensorRef // to start from; nil: none
	residual  *messages.TensorRef // what the function's last answer lacked; nil: nothing
	home      string              // the node where it should run, for what lies there; "": any

	begun    uint32     // attempts so far; the latest has this number
	open     []*attempt // that run now, in the order they began
	failures []failure
	cuts     int // attempts that their deadline ended

	// At most one of these comes about.
	answer  *messages.Invoked // accepted
	givenUp bool              // its positions go back into the epoch
	dropped bool              // its positions are skipped
}

// attempt is one that runs, as far as the job knows.
type attempt struct {
	invoke *messages.Invoke
	lane   int       // which of the assignment's invokers runs it
	since  time.Time // when it had its slot; zero: not yet, as far as is known
}

// lanes is how many attempts at an assignment may be open: one and its backup.
const lanes = 2

// failure is how an attempt ended without an answer that counts.
type failure struct {
	*messages.Failure
	node string
	slot uint32 // of the node, from 1; 0: unknown

	leaves  bool // the assignment is to run elsewhere next, where another node has slots
	charged bool // the job's budget has paid for it
	excused bool // the node is to blame, which is left alone: nobody pays
}

// over reports whether nothing more is to come of the assignment.
func (a *assignment) over() bool { return a.answer != nil || a.givenUp || a.dropped }

// freeLane is the first lane without an open attempt.
func (a *assignment) freeLane() int {
	for lane := range lanes {
		if a.onLane(lane) == nil {
			return lane
		}
	}
	return lanes // a bug: see state.check
}

// onLane returns the open attempt on a lane; nil: there is none.
func (a *assignment) onLane(lane int) *attempt {
	if i := slices.IndexFunc(a.open, func(t *attempt) bool { return t.lane == lane }); i >= 0 {
		return a.open[i]
	}
	return nil
}

// failedItself reports whether the last failure was the function's own doing on
// a slot that is known, so that the next attempt has to show whether it fails
// on another one, too.
func (a *assignment) failedItself() bool {
	last := len(a.failures) - 1
	return last >= 0 && a.failures[last].own() && a.failures[last].slot != 0
}

// waits reports whether an assignment that has no place yet lets others pass: it
// has to run on another slot, or another node, than where it failed.
func (a *assignment) waits() bool {
	return a.failedItself() || len(a.failures) > 0 && a.failures[len(a.failures)-1].leaves
}

// own reports whether a failure is the function's own doing, not chaos's.
func (f failure) own() bool {
	kind := f.GetKind()
	return !f.GetChaos() && (kind == messages.FailureKind_FAILURE_KIND_USER_CODE || kind == messages.FailureKind_FAILURE_KIND_REJECTED)
}

// elsewhere reports whether two failures happened on two slots. Where one
// happened may be unknown; then they did.
func (f failure) elsewhere(other failure) bool {
	return f.slot == 0 || other.slot == 0 || f.slot != other.slot || f.node != other.node
}
