package testkit

import (
	"runtime"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox replaces the library's: it processes one message per turn, and turns
// are drawn by the simulation. As there, system messages come first and a
// failed actor's user messages wait until its supervisor has decided.
type mailbox struct {
	sim       *Sim
	id        string // of its actor
	invoker   actor.MessageInvoker
	system    fifo[letter]
	user      fifo[letter]
	suspended bool
	scheduled bool // a turn of it is in the pool
}

type letter struct {
	from string
	msg  any // an envelope where there is a sender or header
}

var _ actor.Mailbox = (*mailbox)(nil)

// RegisterHandlers implements actor.Mailbox. The dispatcher is not used.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
	m.id = invoker.(interface{ Self() *actor.PID }).Self().Id
}

// Start implements actor.Mailbox.
func (m *mailbox) Start() {}

// UserMessageCount implements actor.Mailbox.
func (m *mailbox) UserMessageCount() int { return m.user.len() }

// PostSystemMessage implements actor.Mailbox.
func (m *mailbox) PostSystemMessage(msg any) {
	m.system.push(letter{m.sim.runningID(), msg})
	m.schedule()
}

// PostUserMessage implements actor.Mailbox. A message that the simulation
// hands over is kept for the turn that follows; one that came past the sender
// middleware (a poison pill) has its place behind what its sender sent before.
func (m *mailbox) PostUserMessage(msg any) {
	s := m.sim
	if s.handing {
		s.handing, s.arrived = false, m
		m.user.push(letter{s.arriving, msg})
		return
	}
	s.push(entry{kind: carry, from: s.runningID(), to: &actor.PID{Id: m.id}, box: m, payload: msg})
}

// receive processes what came in: all system messages, then one user message.
func (m *mailbox) receive() {
	for m.system.len() > 0 {
		m.next()
	}
	m.next()
	m.schedule()
}

// next processes one message, if there is one that may be processed.
func (m *mailbox) next() {
	switch {
	case m.system.len() > 0:
		l := m.system.pop()
		switch l.msg.(type) {
		case *actor.SuspendMailbox:
			m.suspended = true
		case *actor.ResumeMailbox:
			m.suspended = false
		default:
			m.process(l, m.invoker.InvokeSystemMessage)
		}
	case !m.suspended && !m.sim.closing && m.user.len() > 0:
		l := m.user.pop()
		m.process(l, m.invokeUser)
	}
}

// schedule puts a turn into the pool where there is something left to do.
func (m *mailbox) schedule() {
	if m.scheduled || m.system.len() == 0 && (m.suspended || m.sim.closing || m.user.len() == 0) {
		return
	}
	m.scheduled = true
	m.sim.pool.toss(entry{kind: turn, box: m})
}

// process is one delivery.
func (m *mailbox) process(l letter, invoke func(any)) {
	n := m.sim.begin(l.from, m.id, l.msg)
	m.run(n, l.msg, invoke)
	m.sim.end()
}

// run runs the actor. A panic goes to its supervisor.
func (m *mailbox) run(n uint64, msg any, invoke func(any)) {
	s := m.sim
	s.running = m
	defer func() {
		if reason := recover(); reason != nil {
			s.trace.note(n, panicked)
			if err, ok := reason.(runtime.Error); ok { // a bug, whatever the test is about
				name := s.name(actor.UnwrapEnvelopeMessage(msg))
				s.t.Logf("%v: %s panicked at %s: %v\n%s", s.elapsed, m.id, name.text, err, debug.Stack())
			}
			m.invoker.EscalateFailure(reason, msg)
		}
		s.running = nil
	}()
	invoke(msg)
}

// invokeUser hands a user message to the actor, or crashes it as Crash asked.
func (m *mailbox) invokeUser(msg any) {
	if len(m.sim.crashes) == 0 {
		m.invoker.InvokeUserMessage(msg)
		return
	}
	crash, ok := m.sim.crashes[m.id]
	delete(m.sim.crashes, m.id)
	if !ok || crash.after {
		m.invoker.InvokeUserMessage(msg)
	}
	if ok {
		panic(crash.err)
	}
}
