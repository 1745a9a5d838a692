package train

import (
	"slices"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// An attempt that takes much longer than its peers is a straggler. Limits are
// multiples of what its assignment should take, but never less than that and a
// few seconds: a machine that is busy, or a worker that has to be started first,
// is no reason. See ADR 17 for where the numbers come from.
const (
	// A backup costs a slot that nobody else wants.
	backupFactor = 2
	backupGrace  = 2 * time.Second
	// A cut costs what the attempt has done, and one of its retries.
	cutFactor = 4
	cutGrace  = 10 * time.Second
	// While too few peers have answered, only what the last step took can be
	// gone by, which is a guess: N and the machine's load may have changed.
	guessFactor = 8
	guessGrace  = 30 * time.Second
	// maxDoublings bounds by how much a limit grows: it doubles with each cut,
	// so that an assignment which is slow in earnest ends some time.
	maxDoublings = 10
)

// pace is the run time of a sample, in seconds.
type pace float64

// takes is how long so many samples should take.
func (p pace) takes(samples uint64) time.Duration {
	return time.Duration(float64(p) * float64(samples) * float64(time.Second))
}

// paces is what the last step of each task went at.
type paces map[messages.Task]pace

// learn takes in a step that has ended.
func (p paces) learn(s *step) {
	if at, ok := s.pace(); ok {
		p[s.ref.GetTask()] = at
	}
}

// pace is the median of the accepted answers, once half of the step's
// assignments have one.
func (s *step) pace() (pace, bool) {
	if s == nil {
		return 0, false
	}
	if answered := len(s.work) - s.open; answered == 0 || 2*answered < len(s.work) {
		return 0, false
	}
	var each []pace
	for _, a := range s.work {
		if a.answer != nil && a.samples > 0 {
			each = append(each, pace(ranFor(a.answer).Seconds()/float64(a.samples)))
		}
	}
	if 2*len(each) < len(s.work) || len(each) == 0 {
		return 0, false
	}
	slices.Sort(each)
	return each[len(each)/2], true
}

// ran is for how long an attempt has had its slot.
func (t *attempt) ran(now time.Time) time.Duration {
	if t.since.IsZero() {
		return 0
	}
	return now.Sub(t.since)
}

// limits is after what time attempts at an assignment of a length are backed
// up, and cut when it was cut so often before.
func limits(length time.Duration, cuts int) (backup, cut time.Duration) {
	return max(backupFactor*length, length+backupGrace), max(cutFactor*length, length+cutGrace) << min(cuts, maxDoublings)
}

// guessedLimit is after what time an attempt is cut that has no peers.
func guessedLimit(length time.Duration, cuts int) time.Duration {
	return max(guessFactor*length, length+guessGrace) << min(cuts, maxDoublings)
}

// start notes that an open attempt has its slot.
func (s *state) start(ref *messages.AttemptRef, now time.Time) {
	if _, t, ok := s.step.find(ref); ok && t.since.IsZero() {
		t.since = now
		s.heard(t.invoke.GetNode())
	}
}

// overdue returns the failures of the open attempts that have had their time.
func (s *state) overdue(now time.Time) []failed {
	if s.step == nil {
		return nil
	}
	peers, known := s.step.pace()
	guess, guessed := s.paces[s.step.ref.GetTask()]
	if !known && !guessed {
		return nil
	}
	var out []failed
	for _, a := range s.step.work {
		for _, t := range a.open {
			length, limit := peers.takes(a.samples), time.Duration(0)
			if known {
				_, limit = limits(length, a.cuts)
			} else {
				length = guess.takes(a.samples)
				limit = guessedLimit(length, a.cuts)
			}
			if ran := t.ran(now); a.samples > 0 && ran >= limit {
				a.cuts++
				out = append(out, cutOff(t, ran, length))
			}
		}
	}
	return out
}

func cutOff(t *attempt, ran, length time.Duration) failed {
	const unit = time.Millisecond
	return failed{attempt: t.invoke.GetAttempt(), ran: ran, failure: wire.Failure(fault.New("train.cut", fault.Unavailable,
		"timed out after %v on node %q: its peers would have taken %v", ran.Round(unit), t.invoke.GetNode(), length.Round(unit)))}
}

// backups opens a second attempt at each straggler's assignment, while slots
// are free that nothing waits for.
func (s *state) backups(now time.Time) []*attempt {
	peers, known := s.step.pace()
	if !known {
		return nil
	}
	return s.second(now, func(a *assignment) bool {
		limit, _ := limits(peers.takes(a.samples), a.cuts)
		return a.open[0].ran(now) >= limit && a.samples > 0
	})
}

// second opens another attempt at each assignment with one that is so.
func (s *state) second(now time.Time, is func(*assignment) bool) []*attempt {
	if s.step == nil || !s.opts.GetBackup() || s.step.wanting() {
		return nil
	}
	var out []*attempt
	for function, a := range s.step.work {
		if len(a.open) != 1 || !is(a) {
			continue
		}
		node, ok := s.step.spare(s.within(now), a.open[0].invoke.GetNode())
		if !ok {
			return out
		}
		out = append(out, s.step.begin(a, uint32(function), node))
		s.history.backedUp()
	}
	return out
}

// wanting reports whether an assignment waits for a slot, or for its time to be
// tried again.
func (s *step) wanting() bool {
	return slices.ContainsFunc(s.work, func(a *assignment) bool { return len(a.open) == 0 && !a.over() })
}

// spare is the node with the most granted slots free, another one than avoid
// where there is one.
func (s *step) spare(grants []*messages.SlotGrant, avoid string) (node string, ok bool) {
	best := 0
	for _, g := range grants {
		free := int(g.GetSlots()) - s.running[g.GetNode()]
		if free <= 0 || g.GetNode() == avoid && ok {
			continue
		}
		if !ok || node == avoid || free > best {
			node, best, ok = g.GetNode(), free, true
		}
	}
	return node, ok
}
