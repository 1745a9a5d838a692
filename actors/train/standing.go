package train

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// A node gets nothing to do for a while, which doubles, that the job does not hear,
// or where attempts fail again and again while other nodes answer. The Scheduler may
// hear it well all the same, and grant its slots; and as it fails at once it would
// always be the one with a slot free.
const (
	aloneFor  = 20 * time.Second
	aloneMost = 10 * time.Minute
	// sickRow is how many attempts in a row fail on such a node.
	sickRow = 3
)

// standing is how a node does, as this job has it.
type standing struct {
	until    time.Time     // nothing is to be sent there; zero: it is used
	last     time.Duration // for which it was left alone
	row      int           // attempts there that failed one after the other, for reasons of the node
	answered bool          // one there has, in this incarnation
	told     bool          // people were told that it is sick
}

// sick reports whether too many attempts failed there in a row.
func (n standing) sick() bool { return n.row >= sickRow }

// doubtful reports whether an attempt that has just failed there is better not
// repeated there: nothing shows that the node is well.
func (n standing) doubtful() bool { return n.row > 1 || n.row == 1 && !n.answered }

// alone returns the standing of a node that is left alone from now on.
func (n standing) alone(now time.Time) standing {
	n.last = min(max(2*n.last, aloneFor), aloneMost)
	n.until = now.Add(n.last)
	return n
}

// standings are those, by node.
type standings struct {
	of   map[string]standing
	last time.Time // by then, none is left alone any more
}

func (all *standings) leave(node string, n standing, now time.Time) {
	n = n.alone(now)
	all.of[node] = n
	if n.until.After(all.last) {
		all.last = n.until
	}
}

// unheard notes that nothing was heard of attempts on another node, or that what
// lies there cannot be had.
func (s *state) unheard(node string, now time.Time) {
	n := s.standings.of[node]
	if node == s.node || now.Before(n.until) {
		return // what began before is no news
	}
	s.standings.leave(node, n, now)
}

// silenced notes that nothing was heard of an open attempt.
func (s *state) silenced(ref *messages.AttemptRef, now time.Time) {
	if _, t, open := s.step.find(ref); open {
		s.unheard(t.invoke.GetNode(), now)
	}
}

// heard notes a sign of life of a node: it says nothing of how attempts there end.
func (s *state) heard(node string) {
	if n, ok := s.standings.of[node]; ok && !n.sick() {
		n.until, n.last = time.Time{}, 0
		s.standings.of[node] = n
	}
}

// well notes that a node has run a function to its end, with an answer or not.
func (s *state) well(node string, answered bool) {
	n := s.standings.of[node]
	s.standings.of[node] = standing{answered: n.answered || answered, told: n.told}
}

// blamesNode reports whether a failure may be the node's: it cannot start workers,
// or loses them, or cannot read or keep what they need. What the function or the
// invocation is to blame for, and what chaos did, says nothing about the node.
func (f failure) blamesNode() bool {
	if f.GetChaos() || f.GetOp() == nodeOp || f.GetOp() == stateOp {
		return false
	}
	switch f.GetKind() {
	case messages.FailureKind_FAILURE_KIND_UNAVAILABLE, messages.FailureKind_FAILURE_KIND_CORRUPT, messages.FailureKind_FAILURE_KIND_UNSPECIFIED:
		return true
	}
	return false
}

// attribute notes what the latest failure of an assignment says about its node.
// One where attempts fail again and again, though another one answers, is left
// alone, and what failed there is nobody else's fault.
func (s *state) attribute(a *assignment, now time.Time) {
	f := &a.failures[len(a.failures)-1]
	switch {
	case f.own():
		s.well(f.node, false)
	case f.blamesNode():
		n := s.standings.of[f.node]
		n.row++
		s.standings.of[f.node] = n
		f.leaves = n.doubtful()
		if n.sick() && !now.Before(n.until) && s.othersAnswer(f.node) {
			s.leaveSick(f, now)
		}
		if s.isLeftAlone(f.node, now) {
			s.excuse(f.node)
		}
	}
}

// leaveSick leaves the node of a failure alone, and says so the first time.
func (s *state) leaveSick(f *failure, now time.Time) {
	n := s.standings.of[f.node]
	first := !n.told
	n.told = true
	s.standings.leave(f.node, n, now)
	if first {
		s.warn(fmt.Sprintf("node %q is left alone for %v, and longer if it goes on so: %d attempts there failed in a row while other nodes answer; the last: %s",
			f.node, s.standings.of[f.node].last, n.row, f.GetText()))
	}
}

// excuse has no assignment, nor the job, pay for what failed on a node in the
// running step.
func (s *state) excuse(node string) {
	if s.step == nil {
		return
	}
	for _, a := range s.step.work {
		for i := range a.failures {
			if f := &a.failures[i]; f.node == node && f.blamesNode() && !f.excused {
				f.excused = true
				if f.charged {
					f.charged = false
					s.budget = min(s.budget+1, s.fullBudget())
				}
			}
		}
	}
}

// othersAnswer reports whether another node with slots has answered, and is not
// sick itself.
func (s *state) othersAnswer(node string) bool {
	return slices.ContainsFunc(s.size.GetGrants(), func(g *messages.SlotGrant) bool {
		n := s.standings.of[g.GetNode()]
		return g.GetNode() != node && g.GetSlots() > 0 && n.answered && !n.sick()
	})
}

// isLeftAlone reports whether nothing is sent to a node.
func (s *state) isLeftAlone(node string, now time.Time) bool {
	return now.Before(s.standings.of[node].until) &&
		!slices.ContainsFunc(s.within(now), func(g *messages.SlotGrant) bool { return g.GetNode() == node })
}

// within are the granted slots that are to be used: those of nodes that are not
// left alone, or if all are, all.
func (s *state) within(now time.Time) []*messages.SlotGrant {
	grants := s.size.GetGrants()
	if !now.Before(s.standings.last) {
		return grants // as a rule
	}
	var used []*messages.SlotGrant
	for _, g := range grants {
		if !now.Before(s.standings.of[g.GetNode()].until) {
			used = append(used, g)
		}
	}
	if slots(used) == 0 {
		return grants
	}
	return used
}

// forgive forgets how nodes did that are gone: they come back as others.
func (s *state) forgive() {
	for _, node := range s.size.GetGone() {
		delete(s.standings.of, node)
	}
}
