package testkit

import (
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// patience is how much virtual time Ask and Expect give the actors.
const patience = 10 * time.Minute

// Drain delivers until nothing is left but what waits for the clock: timers,
// messages delayed by Faults, results of work that takes time. With Step 0 it
// does not move the clock.
func (s *Sim) Drain() {
	s.t.Helper()
	for s.step() {
	}
}

// Run delivers until nothing at all is left, moving the clock as needed. A
// timer that is set again and again makes it fail at the limit of virtual time.
func (s *Sim) Run(limit time.Duration) {
	s.t.Helper()
	until := s.elapsed + limit
	for s.step() || s.jump(until) {
	}
	if len(s.timers) > 0 && !s.broken {
		s.Fail("still running after %v of virtual time", limit)
	}
}

// RunUntil delivers until cond holds, and moves the clock to the next timer
// where nothing else is left. It fails the test if limit of virtual time passes
// first, or if the simulation runs dry: no timer is left either.
func (s *Sim) RunUntil(cond func() bool, limit time.Duration) {
	s.t.Helper()
	s.runUntil(cond, limit, "the condition did not hold")
}

// Advance moves the clock by d and fires the timers on the way, each after
// everything before it has been delivered.
func (s *Sim) Advance(d time.Duration) {
	s.t.Helper()
	until := s.elapsed + d
	for s.step() || s.jump(until) {
	}
	s.moveTo(until)
}

// At makes the test do something once d of virtual time has passed, between
// two deliveries: crash an actor, change Faults, cut a link.
func (s *Sim) At(d time.Duration, do func()) {
	s.after(d, entry{kind: action, from: fromTest, payload: do})
}

// Ask sends a request from the test and returns the answer. It runs the
// simulation until there is one, moving the clock if need be, and fails the
// test when the simulation runs dry, after ten virtual minutes, or when there
// is no such actor. Neither request nor answer meets a fault.
func (s *Sim) Ask(to *actor.PID, msg any) any {
	s.t.Helper()
	s.asks++
	in := &inbox{}
	pid, _ := s.system.ProcessRegistry.Add(in, fmt.Sprintf("%s%d", asking, s.asks))
	defer s.system.ProcessRegistry.Remove(pid)
	s.send(fromTest, to, &actor.MessageEnvelope{Message: msg, Sender: pid})
	s.runUntil(func() bool { return in.full }, patience, "no answer of %s to %s", to.Id, s.name(msg).text)
	if _, dead := in.msg.(*actor.DeadLetterResponse); dead {
		s.Fail("no actor %s to answer %s", to.Id, s.name(msg).text)
	}
	return in.msg
}

// Ask is Sim.Ask for an answer of type T; another one fails the test.
func Ask[T any](s *Sim, to *actor.PID, msg any) T {
	s.t.Helper()
	answer := s.Ask(to, msg)
	as, ok := answer.(T)
	if !ok {
		s.Fail("%s answered %s with %T, want %T", to.Id, s.name(msg).text, answer, as)
	}
	return as
}

// Fail fails the test with a text, the last deliveries, and how to replay.
func (s *Sim) Fail(format string, args ...any) {
	s.t.Helper()
	s.broken = true
	top, _, _ := strings.Cut(s.t.Name(), "/")
	s.t.Fatalf("%s\nvirtual time %v, %d deliveries, the last of them:\n%s\nreplay: go test -run '^%s$' -seed=%d",
		fmt.Sprintf(format, args...), s.elapsed, s.counts.Delivered, s.trace.report(), top, s.seed)
}

func (s *Sim) runUntil(cond func() bool, limit time.Duration, format string, args ...any) {
	s.t.Helper()
	until := s.elapsed + limit
	for !cond() && !s.broken {
		if s.elapsed <= until && (s.step() || s.jump(until)) || s.broken { // Step moves the clock too
			continue
		}
		if len(s.pool.ready) == 0 && len(s.timers) == 0 {
			s.Fail(format+", and nothing is left to happen", args...)
		} else {
			s.Fail(format+" within %v of virtual time", append(args, limit)...)
		}
	}
}

// jump moves the clock to the next timer, if there is one until then.
func (s *Sim) jump(until time.Duration) bool {
	if s.broken || len(s.timers) == 0 || s.timers[0].at > until {
		return false
	}
	s.moveTo(s.timers[0].at)
	return true
}

// step makes one thing happen and reports whether there was one.
func (s *Sim) step() bool {
	if s.broken {
		return false
	}
	if s.running != nil || s.checking {
		s.Fail("the simulation cannot be run from inside an actor or a check")
		return false
	}
	s.release()
	if len(s.pool.ready) == 0 {
		return false
	}
	e := s.pool.pick(s.rng)
	if len(s.frozen) > 0 && !s.closing {
		if until := s.thaws(e.target()); until > s.elapsed {
			e.ordered = e.kind == carry
			s.after(until-s.elapsed, e)
			return true
		}
	}
	switch e.kind {
	case carry:
		s.deliver(e)
	case turn:
		e.box.scheduled = false
		e.box.next()
		e.box.schedule()
	case work:
		s.perform(e)
	case action:
		e.payload.(func())()
	}
	return true
}

// deliver lets a message reach whoever has its receiver's name by now.
func (s *Sim) deliver(e entry) {
	if e.box != nil {
		e.box.user.push(letter{e.from, e.payload})
		e.box.receive()
		return
	}
	process, _ := s.system.ProcessRegistry.Get(e.to)
	s.handing, s.arriving, s.arrived = true, e.from, nil
	process.SendUserMessage(e.to, e.payload)
	s.handing = false
	if box := s.arrived; box != nil {
		box.receive()
		return
	}
	n := s.begin(e.from, e.to.Id, e.payload)
	if process == actor.Process(s.system.DeadLetter) { // else a future, or an answer to Ask
		s.counts.DeadLetter++
		s.trace.note(n, deadLetter)
	}
	s.end()
}

// begin opens a delivery and returns the number of its record.
func (s *Sim) begin(from, to string, msg any) uint64 {
	s.counts.Delivered++
	return s.record(from, to, msg)
}

// end closes a delivery: time passes, and what must hold is checked.
func (s *Sim) end() {
	s.elapsed += s.Step
	s.instant++
	if s.Step > 0 {
		s.instant = 0
	}
	if s.closing || s.broken {
		return
	}
	s.checking = true
	for _, check := range s.checks {
		if err := check(); err != nil {
			s.Fail("invariant broken: %v", err)
			break
		}
	}
	s.checking = false
	if s.instant > s.Limit {
		s.Fail("livelock: more than %d deliveries at one instant of virtual time", s.Limit)
	}
}

// inbox holds the answer to one Ask.
type inbox struct {
	full bool
	msg  any
}

var _ actor.Process = (*inbox)(nil)

func (in *inbox) SendUserMessage(_ *actor.PID, msg any) {
	if !in.full {
		in.full, in.msg = true, actor.UnwrapEnvelopeMessage(msg)
	}
}

func (in *inbox) SendSystemMessage(*actor.PID, any) {}

func (in *inbox) Stop(*actor.PID) {}
