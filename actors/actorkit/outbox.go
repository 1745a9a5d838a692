package actorkit

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// Outbox gets the events of one incarnation of a job to the Journal at least
// once and in order: it numbers them, keeps them until the Journal has answered
// for them, and sends what is left again on request. It is a field of its
// actor and runs only inside Receive.
type Outbox struct {
	job     *messages.JobRef
	next    uint64
	unacked []*messages.JobEvent
}

// NewOutbox returns an empty outbox for an incarnation of a job.
func NewOutbox(job *messages.JobRef) *Outbox { return &Outbox{job: job} }

// Post numbers an event, dates it and sends it to the Journal. It owns the
// event from then on.
func (o *Outbox) Post(ctx actor.Context, journal *actor.PID, now time.Time, event *messages.JobEvent) {
	o.next++
	event.Job, event.Seq, event.TimeMs = o.job, o.next, now.UnixMilli()
	o.send(ctx, journal, event)
}

func (o *Outbox) send(ctx actor.Context, journal *actor.PID, event *messages.JobEvent) {
	o.unacked = append(o.unacked, event)
	if first := o.unacked[0].GetSeq(); first > 1 && event.GetStarted() != nil && o.unacked[0].GetJob().GetIncarnation() == event.GetJob().GetIncarnation() {
		event.GetStarted().First = first // it is said again, to a Journal that has heard nothing of it
	}
	Request(ctx, journal, event)
}

// Forward sends the Journal an event that has its number already: the next of the
// job's incarnation, or the first of a higher one. It owns the event from then on.
func (o *Outbox) Forward(ctx actor.Context, journal *actor.PID, event *messages.JobEvent) {
	o.job, o.next = event.GetJob(), event.GetSeq()
	o.send(ctx, journal, event)
}

// Repeat sends again what the Journal has not answered for.
func (o *Outbox) Repeat(ctx actor.Context, journal *actor.PID) {
	for _, event := range o.unacked {
		Request(ctx, journal, event)
	}
}

// Acknowledge drops what the Journal says it has. Answers may come late,
// repeatedly and for another incarnation.
func (o *Outbox) Acknowledge(reply *messages.JobEventReply) {
	for len(o.unacked) > 0 && answers(reply, o.unacked[0]) {
		o.unacked = o.unacked[1:]
	}
}

// Empty reports whether the Journal has everything.
func (o *Outbox) Empty() bool { return len(o.unacked) == 0 }

func answers(reply *messages.JobEventReply, event *messages.JobEvent) bool {
	a, b := reply.GetJob(), event.GetJob()
	return a.GetId() == b.GetId() && a.GetIncarnation() == b.GetIncarnation() && event.GetSeq() <= reply.GetSeq()
}
