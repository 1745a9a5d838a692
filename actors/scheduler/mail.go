package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

// mail gets the Scheduler's events of every job to the Journal. A job's outbox
// is kept until the job has ended and the Journal has everything.
type mail struct {
	journal func() *actor.PID
	boxes   map[string]*box // by job id
}

type box struct {
	*actorkit.Outbox
	closed bool // nothing more will be posted
}

func newMail(journal func() *actor.PID) *mail {
	return &mail{journal: journal, boxes: map[string]*box{}}
}

// post sends an event, and again with each repeat until it is acknowledged.
func (m *mail) post(ctx actor.Context, now time.Time, e event) {
	b := m.boxes[e.job]
	if b == nil {
		b = &box{Outbox: actorkit.NewOutbox(&messages.JobRef{Id: e.job})}
		m.boxes[e.job] = b
	}
	if e.event != nil {
		b.Post(ctx, m.journal(), now, e.event)
	}
	b.closed = b.closed || e.last
	m.tidy(e.job, b)
}

// repeat sends again what the Journal has not acknowledged.
func (m *mail) repeat(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(m.boxes)) {
		if b := m.boxes[id]; !b.Empty() {
			b.Repeat(ctx, m.journal())
		}
	}
}

// acknowledge takes in what the Journal has.
func (m *mail) acknowledge(reply *messages.JobEventReply) {
	if b := m.boxes[reply.GetJob().GetId()]; b != nil {
		b.Acknowledge(reply)
		m.tidy(reply.GetJob().GetId(), b)
	}
}

// tidy drops an outbox that has done its work.
func (m *mail) tidy(id string, b *box) {
	if b.closed && b.Empty() {
		delete(m.boxes, id)
	}
}
