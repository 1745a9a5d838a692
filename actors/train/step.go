package train

import (
	"cmp"
	"math"
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
	running map[string]int // open attempts, by node
	claims  map[string]int // of the waiting functions those that should run there, by node
	rest    ranges         // of the epoch that is in no assignment
	open    int            // assignments that are not over
	started time.Time
}

func newStep(ref *messages.AttemptRef, plan *messages.RoundPlan, parts []ranges, now time.Time) *step {
	s := &step{ref: ref, plan: plan, running: map[string]int{}, claims: map[string]int{}, open: len(parts), started: now}
	for i, part := range parts {
		s.work = append(s.work, &assignment{ranges: part, samples: part.total()})
		s.waiting = append(s.waiting, uint32(i))
	}
	return s
}

// stay says where a function that waits should run.
func (s *step) stay(function uint32, node string) {
	if node != "" {
		s.work[function].home = node
		s.claims[node]++
	}
}

// settle says of those that may run anywhere where they should, as long as there is
// room: evenly over what is free, but neighbours beside each other, on the node that
// has the most room the most. So what a node has of the round is whole nodes of the
// tree of the merge, as far as that can be, which it adds up.
func (s *step) settle(grants []*messages.SlotGrant) {
	if len(grants) == 0 {
		return
	}
	free := make([]int, len(grants))
	for i, g := range grants {
		free[i] = int(g.GetSlots()) - s.claims[g.GetNode()]
	}
	order := make([]int, len(grants))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(free[b], free[a]) })
	homeless := slices.DeleteFunc(slices.Clone(s.waiting), func(function uint32) bool { return s.work[function].home != "" })
	shares := make([]int, len(grants))
	for range homeless {
		most := slices.MaxFunc(order, func(a, b int) int { return cmp.Compare(free[a], free[b]) })
		if free[most] <= 0 {
			break
		}
		free[most]--
		shares[most]++
	}
	for _, i := range order {
		for _, function := range homeless[:shares[i]] {
			s.stay(function, grants[i].GetNode())
		}
		homeless = homeless[shares[i]:]
	}
}

// dispatch picks the functions that run next, in the order of their ids, while
// nodes have granted slots free, and opens an attempt for each. One that has to
// run elsewhere than where it failed lets the others pass.
func (s *step) dispatch(grants []*messages.SlotGrant) []*attempt {
	var out []*attempt
	passed := 0
	for len(s.waiting) > passed {
		function := s.waiting[passed]
		a := s.work[function]
		node, ok := s.place(grants, a)
		switch {
		case ok && passed == 0: // as a rule: nothing is to be moved
			s.waiting = s.waiting[1:]
		case ok:
			s.waiting = slices.Delete(s.waiting, passed, passed+1)
		case a.waits():
			passed++
			continue
		default:
			return out
		}
		if a.home != "" {
			s.claims[a.home]--
		}
		out = append(out, s.begin(a, function, node))
	}
	return out
}

// begin opens an attempt at an assignment on a node.
func (s *step) begin(a *assignment, function uint32, node string) *attempt {
	s.running[node]++
	a.begun++
	t := &attempt{lane: a.freeLane(), invoke: &messages.Invoke{
		Attempt: &messages.AttemptRef{
			Job: s.ref.GetJob(), Epoch: s.ref.GetEpoch(), Round: s.ref.GetRound(), Task: s.ref.GetTask(),
			Function: function, Attempt: a.begun,
		},
		Node: node, Plan: s.plan, Ranges: a.ranges.message(), Seed: a.seed, Optimizer: a.optimizer, Residual: a.residual,
		Fresh: slices.ContainsFunc(a.failures, failure.own),
	}}
	a.open = append(a.open, t)
	return t
}

// place picks the assignment's home if it has a granted slot free; else the node
// with the most that no other function waits for, but not the one where the
// assignment has just failed if another has one. A function that failed by
// itself, where two slots are granted, has to get another one: on the node of
// its failure two must be free, since its host gives it the other. One that a
// doubtful node failed waits for another one.
func (s *step) place(grants []*messages.SlotGrant, a *assignment) (node string, ok bool) {
	best, avoid, needed := 0, "", 1
	if last := len(a.failures) - 1; last >= 0 {
		if avoid = a.failures[last].node; a.failedItself() && slots(grants) > 1 {
			needed = 2
		} else if a.failures[last].leaves && slots(grants) > slotsOf(grants, avoid) {
			needed = math.MaxInt
		}
	}
	for _, g := range grants {
		free := int(g.GetSlots()) - s.running[g.GetNode()]
		if free <= 0 || g.GetNode() == avoid && free < needed {
			continue
		}
		if g.GetNode() == a.home && a.home != avoid {
			return a.home, true
		}
		unclaimed := free - s.claims[g.GetNode()]
		if better := unclaimed > best || node == avoid; !ok || (better && g.GetNode() != avoid) {
			node, best, ok = g.GetNode(), unclaimed, true
		}
	}
	return node, ok
}

// slots is how many slots are granted.
func slots(grants []*messages.SlotGrant) (n uint32) {
	for _, g := range grants {
		n += g.GetSlots()
	}
	return n
}

// slotsOf is how many of them a node has.
func slotsOf(grants []*messages.SlotGrant, node string) uint32 {
	return slots(slices.DeleteFunc(slices.Clone(grants), func(g *messages.SlotGrant) bool { return g.GetNode() != node }))
}

// find returns the open attempt that a reference names, and its assignment.
func (s *step) find(ref *messages.AttemptRef) (*assignment, *attempt, bool) {
	if s == nil || ref.GetJob().GetId() != s.ref.GetJob().GetId() || actorkit.CompareSteps(ref, s.ref) != 0 ||
		int(ref.GetFunction()) >= len(s.work) {
		return nil, nil, false
	}
	a := s.work[ref.GetFunction()]
	for _, t := range a.open {
		if t.invoke.GetAttempt().GetAttempt() == ref.GetAttempt() {
			return a, t, true
		}
	}
	return nil, nil, false
}

// end closes an open attempt of an assignment; its slot is free again.
func (s *step) end(a *assignment, t *attempt) {
	a.open = slices.DeleteFunc(a.open, func(other *attempt) bool { return other == t })
	s.running[t.invoke.GetNode()]--
}

// again lets a function run once more, before those with higher ids.
func (s *step) again(function uint32) {
	at, _ := slices.BinarySearchFunc(s.waiting, function, cmp.Compare[uint32])
	s.waiting = slices.Insert(s.waiting, at, function)
	if home := s.work[function].home; home != "" {
		s.claims[home]++
	}
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

// unfinished returns the positions that are still to do: no accepted answer
// covers them, and they were not dropped.
func (s *step) unfinished() ranges {
	var out ranges
	for _, a := range s.work {
		if a.answer == nil && !a.dropped {
			out = append(out, a.ranges...)
		}
	}
	return ranges(nil).union(out)
}

// dropped returns how many assignments were dropped, and their samples.
func (s *step) dropped() (assignments int, samples uint64) {
	for _, a := range s.work {
		if a.dropped {
			assignments++
			samples += a.samples
		}
	}
	return assignments, samples
}
