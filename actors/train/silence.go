package train

import (
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// A node that the job does not hear gets nothing to do for a while, which doubles:
// the Scheduler may hear it well all the same, and grant its slots.
const (
	shunFor  = 20 * time.Second
	shunMost = 10 * time.Minute
)

// silence is about a node that this job does not hear, though it is listed.
type silence struct {
	until time.Time     // nothing is to be sent there
	last  time.Duration // for which it was shunned
}

// silences are those, by node.
type silences map[string]silence

// unheard notes that nothing was heard of attempts on another node, or that what
// lies there cannot be had.
func (s *state) unheard(node string, now time.Time) {
	if node == s.node || now.Before(s.silent[node].until) {
		return // what began before is no news
	}
	d := min(max(2*s.silent[node].last, shunFor), shunMost)
	s.silent[node] = silence{until: now.Add(d), last: d}
}

// silenced notes that nothing was heard of an open attempt.
func (s *state) silenced(ref *messages.AttemptRef, now time.Time) {
	if _, t, open := s.step.find(ref); open {
		s.unheard(t.invoke.GetNode(), now)
	}
}

// heard notes a sign of life of a node.
func (s *state) heard(node string) { delete(s.silent, node) }

// within are the granted slots that are to be used: those of nodes that the job
// hears, or if it hears none, all.
func (s *state) within(now time.Time) []*messages.SlotGrant {
	grants := s.size.GetGrants()
	if len(s.silent) == 0 {
		return grants // as a rule
	}
	var heard []*messages.SlotGrant
	for _, g := range grants {
		if !now.Before(s.silent[g.GetNode()].until) {
			heard = append(heard, g)
		}
	}
	if slots(heard) == 0 {
		return grants
	}
	return heard
}
