package host

import (
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
