package scheduler

import (
	"cmp"
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
	boxes   map[place]*box
}

// place is where in a job's course events belong.
type place struct {
	job         string
	incarnation uint64
}

type box struct {
	*actorkit.Outbox
	closed bool // nothing more will be posted
}

func newMail(journal func() *actor.PID) *mail {
	return &mail{journal: journal, boxes: map[place]*box{}}
}

// post sends an event, and again with each repeat until it is acknowledged.
func (m *mail) post(ctx actor.Context, now time.Time, e event) {
	at := place{e.job, e.incarnation}
	b := m.boxes[at]
	if b == nil {
		b = &box{Outbox: actorkit.NewOutbox(&messages.JobRef{Id: e.job, Incarnation: e.incarnation})}
		m.boxes[at] = b
	}
	if e.event != nil {
		if !e.at.IsZero() {
			now = e.at
		}
		b.Post(ctx, m.journal(), now, e.event)
	}
	b.closed = b.closed || e.last || e.incarnation > 0 // of a later one there is but the end
	m.tidy(at, b)
}

// repeat sends again what the Journal has not acknowledged.
func (m *mail) repeat(ctx actor.Context) {
	places := slices.SortedFunc(maps.Keys(m.boxes), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.incarnation, b.incarnation))
	})
	for _, at := range places {
		if b := m.boxes[at]; !b.Empty() {
			b.Repeat(ctx, m.journal())
		}
	}
}

// acknowledge takes in what the Journal has.
func (m *mail) acknowledge(reply *messages.JobEventReply) {
	at := place{reply.GetJob().GetId(), reply.GetJob().GetIncarnation()}
	if b := m.boxes[at]; b != nil {
		b.Acknowledge(reply)
		m.tidy(at, b)
	}
}

// tidy drops an outbox that has done its work.
func (m *mail) tidy(at place, b *box) {
	if b.closed && b.Empty() {
		delete(m.boxes, at)
	}
}
