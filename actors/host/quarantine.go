package host

import (
	"time"

	"github.com/troupe-ml/troupe/messages"
)

const (
	// rowLimit is how many attempts in a row a slot may fail.
	rowLimit = 3
	// A slot in quarantine is not offered for spellFirst; each time its first
	// attempt after that fails too for twice as long, up to spellLongest.
	spellFirst   = 30 * time.Second
	spellLongest = 10 * time.Minute
)

// health is how the attempts on a slot went.
type health struct {
	row   int           // that failed one after the other, for reasons of the slot
	since uint64        // answers of the host when the row began
	until time.Time     // end of its quarantine; zero: it is offered
	spell time.Duration // of the last quarantine; zero: none since an attempt went well
}

// quarantined is what is told of a slot that is not offered.
type quarantined struct {
	slot   int
	row    int
	spell  time.Duration
	reason string // of the last failure
}

// blamesSlot reports whether a failure may be the slot's: what its worker is, or
// has, or what it does to who runs on it. What the function or the invocation is
// to blame for, and what chaos did, says nothing about the slot.
func blamesSlot(failure *messages.Failure) bool {
	if failure.GetChaos() {
		return false
	}
	switch failure.GetKind() {
	case messages.FailureKind_FAILURE_KIND_UNAVAILABLE, messages.FailureKind_FAILURE_KIND_UNSPECIFIED:
		return true
	}
	return false
}

// clearsSlot reports whether an end without an answer shows that the slot is
// well: the function ran there, and raised, or answered what may not be used.
func clearsSlot(failure *messages.Failure) bool {
	switch failure.GetKind() {
	case messages.FailureKind_FAILURE_KIND_USER_CODE, messages.FailureKind_FAILURE_KIND_REJECTED:
		return !failure.GetChaos()
	}
	return false
}

// wentWell is told that an attempt gave an answer.
func (s *state) wentWell(r *run) {
	if r.elsewhere {
		return
	}
	s.answered++
	s.health[r.slot] = health{}
}

// wentWrong is told that an attempt failed; one that ran elsewhere says nothing
// about its slot. A slot that fails again and
// again, though another slot has given an answer meanwhile (so it is the slot and
// not what runs everywhere), is not offered for a while. One that is usable
// always stays.
func (s *state) wentWrong(r *run, failure *messages.Failure, now time.Time) {
	slot := r.slot
	h := &s.health[slot]
	switch {
	case r.elsewhere:
	case clearsSlot(failure):
		*h = health{}
	case blamesSlot(failure):
		if h.row == 0 {
			h.since = s.answered
		}
		h.row++
		if h.row >= rowLimit && s.answered > h.since && s.usable() > 1 && s.offered(slot) {
			s.quarantine(slot, failure.GetText(), now)
		}
	}
}

func (s *state) quarantine(slot int, reason string, now time.Time) {
	h := &s.health[slot]
	h.spell = min(max(2*h.spell, spellFirst), spellLongest)
	h.until = now.Add(h.spell)
	s.changed = true
	s.orders.quarantined = append(s.orders.quarantined, quarantined{slot: slot, row: h.row, spell: h.spell, reason: reason})
}

// parole offers the slots again whose quarantine is over: their next attempt
// decides.
func (s *state) parole(now time.Time) {
	for slot := range s.health {
		if h := &s.health[slot]; !h.until.IsZero() && !now.Before(h.until) {
			s.offer(slot)
		}
	}
	s.fill()
}

// spare offers the slot again whose quarantine ends first, where no other one is
// usable any more.
func (s *state) spare() {
	if s.usable() > 0 {
		return
	}
	first := -1
	for slot, h := range s.health {
		if !s.retiredAt(slot) && !h.until.IsZero() && (first < 0 || h.until.Before(s.health[first].until)) {
			first = slot
		}
	}
	if first >= 0 {
		s.offer(first)
		s.fill()
	}
}

func (s *state) offer(slot int) {
	s.health[slot].until = time.Time{}
	s.changed = true
	s.orders.offered = append(s.orders.offered, slot)
}

// offered reports whether a slot is not in quarantine.
func (s *state) offered(slot int) bool { return s.health[slot].until.IsZero() }

func (s *state) retiredAt(slot int) bool { return s.slots[slot] != nil && s.slots[slot].retired }

// usable counts the slots that are neither retired nor in quarantine.
func (s *state) usable() (n int) {
	for slot := range s.slots {
		if s.offered(slot) && !s.retiredAt(slot) {
			n++
		}
	}
	return n
}

// quarantinedSlots counts the slots in quarantine.
func (s *state) quarantinedSlots() (n int) {
	for slot := range s.slots {
		if !s.offered(slot) {
			n++
		}
	}
	return n
}
