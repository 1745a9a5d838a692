package train

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

// step is the functions that run side by side: the init, one round's training,
// or one validation.
type step struct {
	ref     *messages.AttemptRef // function and attempt unset
	plan    *messages.RoundPlan
	work    []*assignment
	waiting []uint32       // functions that may run, ascending
	running map[string]int // functions that run, by node
	open    int            // assignments that are neither answered nor given up
	started time.Time
}

// assignment is the positions that one function consumes in a step.
type assignment struct {
	ranges    ranges
	samples   uint64
	seed      uint64
	optimizer *messages.TensorRef // to start from; nil: none

	attempt  uint32           // the latest; 0 before the first
	running  bool             // the latest attempt is open
	invoke   *messages.Invoke // of the latest attempt
	failures []*messages.Failure
	answer   *messages.Invoked // accepted
	givenUp  bool
}

// over reports whether nothing more is to come of the assignment.
func (a *assignment) over() bool { return a.answer != nil || a.givenUp }

func newStep(ref *messages.AttemptRef, plan *messages.RoundPlan, parts []ranges, now time.Time) *step {
	s := &step{ref: ref, plan: plan, running: map[string]int{}, open: len(parts), started: now}
	for i, part := range parts {
		s.work = append(s.work, &assignment{ranges: part, samples: part.total()})
		s.waiting = append(s.waiting, uint32(i))
	}
	return s
}

// dispatch picks the functions that run next, in the order of their ids, while
// nodes have granted slots free, and opens an attempt for each.
func (s *step) dispatch(grants []*messages.SlotGrant) []*messages.Invoke {
	var out []*messages.Invoke
	for len(s.waiting) > 0 {
		function := s.waiting[0]
		a := s.work[function]
		node, ok := s.place(grants, a)
		if !ok {
			break
		}
		s.waiting = s.waiting[1:]
		s.running[node]++
		a.attempt++
		a.running = true
		a.invoke = &messages.Invoke{
			Attempt: &messages.AttemptRef{
				Job: s.ref.GetJob(), Epoch: s.ref.GetEpoch(), Round: s.ref.GetRound(), Task: s.ref.GetTask(),
				Function: function, Attempt: a.attempt,
			},
			Node: node, Plan: s.plan, Ranges: a.ranges.message(), Seed: a.seed, Optimizer: a.optimizer,
		}
		out = append(out, a.invoke)
	}
	return out
}

// place picks the node with the most granted slots free, but not the one where
// the assignment has just failed if another has one.
func (s *step) place(grants []*messages.SlotGrant, a *assignment) (node string, ok bool) {
	best, avoid := 0, ""
	if len(a.failures) > 0 {
		avoid = a.invoke.GetNode()
	}
	for _, g := range grants {
		free := int(g.GetSlots()) - s.running[g.GetNode()]
		if free <= 0 {
			continue
		}
		if better := free > best || node == avoid; !ok || (better && g.GetNode() != avoid) {
			node, best, ok = g.GetNode(), free, true
		}
	}
	return node, ok
}

// find returns the assignment whose open attempt a reference names.
func (s *step) find(attempt *messages.AttemptRef) (*assignment, bool) {
	if s == nil || attempt.GetJob().GetId() != s.ref.GetJob().GetId() || actorkit.CompareSteps(attempt, s.ref) != 0 ||
		int(attempt.GetFunction()) >= len(s.work) {
		return nil, false
	}
	a := s.work[attempt.GetFunction()]
	return a, a.running && a.attempt == attempt.GetAttempt()
}

// end closes the open attempt of an assignment; its slot is free again.
func (s *step) end(a *assignment) {
	a.running = false
	s.running[a.invoke.GetNode()]--
}

// again lets a function run once more, before those with higher ids.
func (s *step) again(function uint32) {
	at, _ := slices.BinarySearchFunc(s.waiting, function, cmp.Compare[uint32])
	s.waiting = slices.Insert(s.waiting, at, function)
}

// answers returns the accepted answers by function id.
func (s *step) answers() []*messages.Invoked {
	var out []*messages.Invoked
	for _, a := range s.work {
		if a.answer != nil {
			out = append(out, a.answer)
		}
	}
	return out
}

// unfinished returns the positions that no accepted answer covers.
func (s *step) unfinished() ranges {
	var out ranges
	for _, a := range s.work {
		if a.answer == nil {
			out = append(out, a.ranges...)
		}
	}
	return ranges(nil).union(out)
}
