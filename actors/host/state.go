package host

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

const (
	// lease is how long an attempt lives without a repeat of its Invoke.
	lease = 10 * time.Second
	// jobsRemembered bounds the jobs of which something is known though no
	// attempt of theirs is.
	jobsRemembered = 4096
)

// state is what a host knows. No I/O, no clock, no actor context: decisions are
// collected in orders, which the actor takes and obeys after each message.
// Invariants, held between messages and checked by check:
//   - an attempt is queued, running or ended, and each knows of the other
//   - a run that nobody wants is cancelled; a retired one was cancelled
//   - nothing queues while a slot is free that is offered
//   - a slot is in quarantine only while another one is usable
type state struct {
	node   string   // the host's
	slots  []*run   // by slot; nil is free
	health []health // by slot
	lent   int      // how many of the slots are offered
	// lendings are what jobs in processes of their own have of them, by job.
	lendings map[string]lending
	queue    *list.List // of *attempt, in order of arrival
	jobs     map[string]*job
	heardOf  []string // the keys of jobs, in order of arrival
	changed  bool     // what a report says, since the last one
	// answered counts the attempts that gave an answer.
	answered uint64
	starts   func(*messages.Invoke) bool // whether an attempt's function says when it is at work; nil: none does
	// elsewhere is whether it runs where the slot is not; nil: none does.
	elsewhere func(*messages.Invoke) bool
	orders    orders
}

// run is the runtime at work on a slot. It occupies the slot until the runtime
// has returned, whatever becomes of its attempt.
type run struct {
	slot      int
	inv       *messages.Invoke
	attempt   *attempt // nil: nobody wants its answer any more
	elsewhere bool     // the function runs where the slot is not
	starting  bool     // the function has yet to say that it is at work
	cancelled bool
	cause     error // of that: the function's time is over, or nobody wants it
	retired   bool

	// The actor's. Result is set once the runtime has returned, by whoever
	// notices; it is here so that a crash of the actor does not lose it.
	stop   context.CancelCauseFunc // cancels the runtime; nil until it was started
	disarm func()                  // ends the timer of the function time-out
	result atomic.Pointer[result]
	began  atomic.Pointer[time.Time] // when a function that may take long to start did
}

// result is what a runtime returned with.
type result struct {
	answer *messages.Invoked
	err    error
	took   time.Duration // since the function was at work
}

// orders is what there is to do outside the state.
type orders struct {
	start, cancel     []*run
	retired, returned []*run // slots lost, and lost ones that came back
	quarantined       []quarantined
	offered           []int // slots whose quarantine is over
	answers           []answer
	add, abandon      []*addition
	remove            []string // keys of answers that nobody wants
	release           []*messages.ReleaseTensors
}

type answer struct {
	to   *actor.PID
	what proto.Message
}

// newState returns the state of a host with some slots, of which runs that a
// former boot has left (all cancelled) hold theirs.
func newState(slots int, left []*run) state {
	s := state{slots: make([]*run, slots), health: make([]health, slots), lent: slots, lendings: map[string]lending{}, queue: list.New(), jobs: map[string]*job{}}
	for _, r := range left {
		r.attempt, r.cancelled = nil, true
		s.slots[r.slot] = r
	}
	return s
}

// take returns the orders collected so far.
func (s *state) take() orders {
	o := s.orders
	s.orders = orders{}
	return o
}

// invoke takes an attempt on, or tells again how it is.
func (s *state) invoke(inv *messages.Invoke, asker *actor.PID, now time.Time) {
	ref := inv.GetAttempt()
	j := s.hear(ref)
	if err := j.refuse(ref); err != nil {
		s.answer(asker, &messages.InvokeFailed{Attempt: ref, Failure: wire.Failure(err)})
		return
	}
	a, ok := j.attempts[placeOf(ref)]
	if !ok && inv.GetRenewal() {
		s.answer(asker, &messages.InvokeAccepted{Attempt: ref, Wanted: true})
		return
	}
	if !ok {
		a = &attempt{job: j, inv: inv}
		a.queued = s.queue.PushBack(a)
		j.attempts[placeOf(ref)] = a
	}
	a.asker, a.heard = asker, now
	s.fill()
	s.answer(asker, a.status())
}

// cancel ends an attempt, or sees to it that it never begins. An answer that is
// there already stays: it may be part of a merge.
func (s *state) cancel(m *messages.CancelInvocation, now time.Time) {
	ref := m.GetAttempt()
	j := s.hear(ref)
	if j.refuse(ref) != nil {
		return
	}
	a, ok := j.attempts[placeOf(ref)]
	if ok && a.end != nil {
		return
	}
	if ok && a.run != nil && m.GetOverdue() {
		s.overdue(a, now)
	}
	if ok {
		s.drop(a)
	}
	j.cancelled[placeOf(ref)] = struct{}{}
}

// overdue ends the run of an attempt that has had its time, as its job sees it.
func (s *state) overdue(a *attempt, now time.Time) {
	failure := wire.Failure(fault.New("host.run", fault.Unavailable, "took much longer than other functions of its round"))
	failure.Chaos = blames(Chaos(a.inv), true)
	s.wentWrong(a.run, failure, now)
	a.job.failedOn[a.inv.GetAttempt().GetFunction()] = a.run.slot
	s.cancelRun(a.run, context.DeadlineExceeded)
}

// release closes a step and all before it. What an earlier incarnation asks for
// is not done: the tensors that it does not name may be the next one's.
func (s *state) release(m *messages.ReleaseTensors) {
	ref := m.GetStep()
	j := s.hear(ref)
	if ref.GetJob().GetIncarnation() < j.step.GetJob().GetIncarnation() {
		return
	}
	switch {
	case m.GetEverything():
		s.dropAll(j)
		j.over = true
	case !j.over && actorkit.CompareSteps(ref, j.step) == 0:
		s.dropAll(j)
		j.closed = true
	}
	s.orders.release = append(s.orders.release, m)
}

// began is told that the function of a run is at work, which may be known.
func (s *state) began(r *run) {
	if !r.starting {
		return
	}
	r.starting = false
	if a := r.attempt; a != nil {
		s.answer(a.asker, a.status())
	}
}

// ended is told that the runtime of a run has returned, which may be known.
func (s *state) ended(r *run, result *result, now time.Time) {
	if s.slots[r.slot] != r {
		return
	}
	s.slots[r.slot] = nil
	s.changed = true
	if r.retired {
		s.orders.returned = append(s.orders.returned, r)
	}
	switch a, answer := r.attempt, result.answer; {
	case a == nil:
		s.orders.remove = append(s.orders.remove, keysOf(answer)...)
	case result.err != nil:
		failure := wire.Failure(result.err)
		failure.Chaos = blames(Chaos(r.inv), false)
		s.fail(a, failure, result.took, now, warningsOf(result.err)...)
	default:
		s.wentWell(r)
		answer.Attempt, answer.DurationUs = a.inv.GetAttempt(), uint64(result.took.Microseconds())
		s.end(a, answer)
	}
	s.fill()
}

// timeOut is told that a run has had its function's time.
func (s *state) timeOut(r *run, took time.Duration, now time.Time) {
	if r.attempt == nil {
		return
	}
	a, limit := r.attempt, timeLimit(r.inv)
	failure := wire.Failure(fault.New("host.run", fault.Unavailable, "timed out after %v%s", limit, s.outOfTime(r.inv)))
	failure.Chaos = blames(Chaos(r.inv), true)
	s.cancelRun(r, context.DeadlineExceeded)
	s.fail(a, failure, took, now)
}

// retire is told that a run was cancelled and had the time to return.
func (s *state) retire(r *run) {
	if s.slots[r.slot] != r || !r.cancelled || r.retired {
		return
	}
	r.retired, s.changed = true, true
	s.orders.retired = append(s.orders.retired, r)
	s.spare()
	s.fill() // it does not count among those that are offered any more
}

// expire forgets the attempts whose invoker sends no sign of life any more.
func (s *state) expire(now time.Time) {
	for _, a := range s.open() {
		if now.Sub(a.heard) >= lease {
			s.drop(a)
		}
	}
	s.takeBack(now)
}

// report says what the slots are at, and that it was said.
func (s *state) report() (usable uint32, held []*messages.AttemptRef) {
	s.changed = false
	for slot, r := range s.slots {
		if s.retiredAt(slot) || !s.offered(slot) {
			continue
		}
		usable++
		if r != nil {
			held = append(held, r.inv.GetAttempt())
		}
	}
	return min(usable, uint32(s.lent)), append(held, s.heldElsewhere()...)
}
