package testkit

import (
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// Faults says what happens to messages between actors. It never touches system
// messages and lifecycle, what an actor sends to itself, timers, results of
// slow work, what the test itself sends, and answers to Ask. Without faults,
// messages from one actor to another arrive once and in the order they were
// sent, as the actor library guarantees.
type Faults struct {
	Drop      float64 // share of messages that are lost, in [0, 1]
	Duplicate float64 // share of the others that arrive once more, possibly much later, in [0, 1]
	Delay     float64 // share of arrivals that others may overtake, in [0, 1]
	// MaxDelay bounds how long a delayed message is under way. With 0 it may
	// only be overtaken by what is under way already or sent before the clock
	// moves.
	MaxDelay time.Duration
	// PerType replaces the shares for messages of a type, named as in its
	// declaration and without package: "Invoke". Only and Except of the
	// replacement are not looked at. A piece of a message (messages.Piece) counts as
	// what it is a piece of.
	PerType map[string]Faults
	// Only, unless empty, names the types that faults may happen to.
	Only []string
	// Except names types that no fault happens to.
	Except []string
}

// Counts says how much has happened in a simulation.
type Counts struct {
	Delivered  uint64 // messages that arrived: user and system messages, dead letters
	DeadLetter uint64 // user messages that found no actor
	Dropped    uint64 // messages lost by Faults or Cut
	Duplicated uint64 // second arrivals that Faults added
	Delayed    uint64 // arrivals taken out of their order by Faults
}

// Counts returns how much has happened so far.
func (s *Sim) Counts() Counts { return s.counts }

// Senders that are no actors; their messages are not faulted.
const (
	fromTest   = "(test)"
	fromRim    = "(rim)"
	fromSystem = "(system)"
	asking     = "(ask)" // prefix of where answers to Ask go
)

// intercept is sender middleware: user messages go through the pool, and their
// receiver is looked up when they arrive.
func (s *Sim) intercept(actor.SenderFunc) actor.SenderFunc {
	return func(ctx actor.SenderContext, to *actor.PID, envelope *actor.MessageEnvelope) {
		from := s.runningID()
		if self := ctx.Self(); self != nil {
			from = self.Id
		}
		s.send(from, to, envelope)
	}
}

// send puts a message under way, subject to Faults.
func (s *Sim) send(from string, to *actor.PID, envelope *actor.MessageEnvelope) {
	e := entry{kind: carry, from: from, to: to, payload: envelope}
	if envelope.Sender == nil && envelope.Header == nil {
		e.payload = envelope.Message // what the library delivers without middleware
	}
	if s.closing || !s.faulty(from, to) {
		s.push(e)
		return
	}
	if s.Cut != nil && s.Cut(&actor.PID{Address: to.Address, Id: from}, to, envelope.Message) {
		s.drop(e)
		return
	}
	f := s.faultsOf(envelope.Message)
	if s.strikes(f.Drop) {
		s.drop(e)
		return
	}
	if s.strikes(f.Duplicate) {
		s.counts.Duplicated++
		if s.strikes(0.5) {
			s.toss(e)
		} else {
			s.detour(e, f)
		}
	}
	if s.strikes(f.Delay) {
		s.counts.Delayed++
		s.detour(e, f)
		return
	}
	s.push(e)
}

// faulty reports whether a message from and to these may meet a fault.
func (s *Sim) faulty(from string, to *actor.PID) bool {
	return from != to.Id && from != fromTest && !strings.HasPrefix(to.Id, asking)
}

// faultsOf returns the shares for a message.
func (s *Sim) faultsOf(msg any) Faults {
	f := s.Faults
	if f.PerType == nil && f.Only == nil && f.Except == nil {
		return f
	}
	name := s.name(msg).text
	if p, ok := msg.(*messages.Piece); ok {
		name = strings.TrimPrefix(p.GetType(), "troupe.messages.")
	}
	if len(f.Only) > 0 && !slices.Contains(f.Only, name) || slices.Contains(f.Except, name) {
		return Faults{}
	}
	if own, ok := f.PerType[name]; ok {
		return own
	}
	return f
}

func (s *Sim) strikes(share float64) bool { return share > 0 && s.rng.Float64() < share }

func (s *Sim) drop(e entry) {
	s.counts.Dropped++
	s.trace.note(s.record(e.from, e.to.Id, e.payload), dropped)
}

// detour sends a message past the order of its sender and receiver.
func (s *Sim) detour(e entry, f Faults) {
	if f.MaxDelay <= 0 {
		s.toss(e)
		return
	}
	s.after(1+time.Duration(s.rng.Int64N(int64(f.MaxDelay))), e)
}

// push puts an entry into the pool, in order.
func (s *Sim) push(e entry) {
	if !s.closing {
		s.pool.push(e.to.Id, e)
	}
}

// toss puts an entry into the pool, in order with nothing.
func (s *Sim) toss(e entry) {
	if !s.closing {
		s.pool.toss(e)
	}
}

// runningID returns the id of the actor whose turn it is.
func (s *Sim) runningID() string {
	if s.running == nil {
		return fromTest
	}
	return s.running.id
}
