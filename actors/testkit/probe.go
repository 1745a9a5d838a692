package testkit

import (
	"github.com/asynkron/protoactor-go/actor"
)

// Probe is an actor that records what it receives: a peer played by the test.
// What it sends meets faults like what any actor sends.
type Probe struct {
	PID *actor.PID
	// Answer, unless nil, is called with every message; what it returns goes
	// to the message's sender, unless that is nil. Messages it answers are not
	// recorded.
	Answer func(msg any) any

	sim      *Sim
	received []received
	sender   *actor.PID // of the message Expect returned last
}

type received struct {
	msg    any
	sender *actor.PID
}

// Probe spawns a probe as a root actor.
func (s *Sim) Probe(name string) *Probe {
	s.t.Helper()
	p := &Probe{sim: s}
	p.PID = s.Spawn(name, actor.PropsFromFunc(p.receive))
	return p
}

// Expect removes the oldest message of type T that the probe has recorded and
// returns it. While there is none it runs the simulation, moving the clock if
// need be; it fails the test when the simulation runs dry or after ten virtual
// minutes.
func Expect[T any](p *Probe) T {
	p.sim.t.Helper()
	var found T
	p.sim.runUntil(func() bool { return take(p, &found) }, patience, "%s received no %T", p.PID.Id, found)
	return found
}

// ExpectNone delivers all there is without moving the clock, and fails the test
// if the probe has recorded a message of type T.
func ExpectNone[T any](p *Probe) {
	p.sim.t.Helper()
	p.sim.Drain()
	var found T
	if take(p, &found) {
		p.sim.Fail("%s received an unexpected %T: %v", p.PID.Id, found, found)
	}
}

// Messages returns what was recorded and not yet expected, oldest first.
func (p *Probe) Messages() []any {
	msgs := make([]any, len(p.received))
	for i, r := range p.received {
		msgs[i] = r.msg
	}
	return msgs
}

// Clear forgets what was recorded.
func (p *Probe) Clear() { p.received = nil }

// Send sends a message that names the probe as its sender.
func (p *Probe) Send(to *actor.PID, msg any) {
	p.sim.send(p.PID.Id, to, &actor.MessageEnvelope{Message: msg, Sender: p.PID})
}

// Respond sends a message to the sender of what Expect returned last, nil if
// that had none: then the test fails.
func (p *Probe) Respond(msg any) {
	p.sim.t.Helper()
	if p.sender == nil {
		p.sim.Fail("%s has nobody to respond to", p.PID.Id)
		return
	}
	p.Send(p.sender, msg)
}

// Watch makes the probe record an *actor.Terminated once an actor has stopped.
func (p *Probe) Watch(pid *actor.PID) {
	process, _ := p.sim.system.ProcessRegistry.Get(pid)
	process.SendSystemMessage(pid, &actor.Watch{Watcher: p.PID})
}

func (p *Probe) receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting:
	default:
		if p.Answer != nil {
			if answer := p.Answer(msg); answer != nil {
				ctx.Respond(answer)
				return
			}
		}
		p.received = append(p.received, received{msg, ctx.Sender()})
	}
}

// take moves the oldest message of type T out of what p has recorded.
func take[T any](p *Probe, found *T) bool {
	for i, r := range p.received {
		if msg, ok := r.msg.(T); ok {
			*found, p.sender = msg, r.sender
			p.received = append(p.received[:i], p.received[i+1:]...)
			return true
		}
	}
	return false
}
