package host

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// onOfferSlots changes how many slots are offered, and tells the Scheduler before
// it answers: who has the answer may count on what comes after it to be seen
// behind the report.
func (h *host) onOfferSlots(ctx actor.Context, m *messages.OfferSlots) {
	if m.GetSeq() > h.estate.offer {
		h.estate.offer, h.estate.lent = m.GetSeq(), int(min(m.GetSlots(), uint32(h.deps.Slots)))
		h.state.lend(h.estate.lent)
		h.obey(ctx)
		h.reportNow(ctx, h.deps.Rim.Now())
	}
	if ctx.Sender() != nil {
		ctx.Respond(&messages.OfferSlotsReply{Seq: h.estate.offer})
	}
}

// lend changes how many attempts may run at once. Those that run already may be
// more: none begins until they are fewer.
func (s *state) lend(slots int) {
	s.lent, s.changed = slots, true
	s.fill()
}

// exhausted reports whether as many attempts hold a slot as are offered.
func (s *state) exhausted() bool {
	held := 0
	for slot, r := range s.slots {
		if r != nil && !s.retiredAt(slot) {
			held++
		}
	}
	return held >= s.lent
}

// lending is what a job in a process of its own has of the slots.
type lending struct {
	ref   *messages.JobRef
	seq   uint64
	slots uint32
	heard time.Time
}

// lendTo takes in what a job has. What came before is ignored.
func (s *state) lendTo(m *messages.SlotsLent, now time.Time) {
	id, incarnation := m.GetJob().GetId(), m.GetJob().GetIncarnation()
	l, known := s.lendings[id]
	if known && (incarnation < l.ref.GetIncarnation() || incarnation == l.ref.GetIncarnation() && m.GetSeq() < l.seq) {
		return
	}
	s.changed = s.changed || l.slots != m.GetSlots()
	s.lendings[id] = lending{m.GetJob(), m.GetSeq(), m.GetSlots(), now}
}

// takeBack forgets what jobs have that are silent.
func (s *state) takeBack(now time.Time) {
	maps.DeleteFunc(s.lendings, func(_ string, l lending) bool { return now.Sub(l.heard) >= lease })
}

// heldElsewhere names, for each slot that is lent, who has it.
func (s *state) heldElsewhere() (held []*messages.AttemptRef) {
	for _, id := range slices.Sorted(maps.Keys(s.lendings)) {
		for range s.lendings[id].slots {
			held = append(held, &messages.AttemptRef{Job: s.lendings[id].ref})
		}
	}
	return held
}
