package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// The steps that the decisions in state.go are made of.

// fill starts what queues, while slots are free.
func (s *state) fill() {
	for s.queue.Len() > 0 {
		a := s.queue.Front().Value.(*attempt)
		slot := s.pick(a)
		if slot < 0 {
			return
		}
		s.queue.Remove(a.queued)
		a.queued, a.run = nil, &run{
			slot: slot, inv: a.inv, attempt: a,
			elsewhere: s.elsewhere != nil && s.elsewhere(a.inv), starting: s.starts != nil && s.starts(a.inv),
		}
		s.slots[slot] = a.run
		s.changed = true
		s.orders.start = append(s.orders.start, a.run)
	}
}

// pick returns the first free slot, but not the one where the function failed
// last if another is free; -1 when none is.
func (s *state) pick(a *attempt) int {
	avoid, failed := a.job.failedOn[a.inv.GetAttempt().GetFunction()]
	slot := s.free(0)
	if failed && slot == avoid {
		if next := s.free(slot + 1); next >= 0 {
			return next
		}
	}
	return slot
}

// free returns the first slot from one on that an attempt may have; -1: none.
func (s *state) free(from int) int {
	if s.exhausted() {
		return -1
	}
	for slot := from; slot < len(s.slots); slot++ {
		if s.slots[slot] == nil && s.offered(slot) {
			return slot
		}
	}
	return -1
}

// hear returns what is known of the job of ref. If ref is of a later step than
// any before, what the job still queues or runs of the earlier ones is dropped.
func (s *state) hear(ref *messages.AttemptRef) *job {
	j := s.job(ref.GetJob().GetId())
	if j.isNews(ref) {
		s.dropAll(j)
		j.enter(ref)
	}
	return j
}

// job returns the record of a job. A new one may take the place of the one
// known longest that has no attempt here.
func (s *state) job(id string) *job {
	if j, ok := s.jobs[id]; ok {
		return j
	}
	if len(s.heardOf) >= jobsRemembered {
		idle := func(id string) bool { return len(s.jobs[id].attempts) == 0 }
		if i := slices.IndexFunc(s.heardOf, idle); i >= 0 {
			delete(s.jobs, s.heardOf[i])
			s.heardOf = slices.Delete(s.heardOf, i, i+1)
		}
	}
	j := newJob()
	s.jobs[id] = j
	s.heardOf = append(s.heardOf, id)
	return j
}

// open returns the attempts that queue, in order, and then those that run.
func (s *state) open() []*attempt {
	var open []*attempt
	for e := s.queue.Front(); e != nil; e = e.Next() {
		open = append(open, e.Value.(*attempt))
	}
	for _, r := range s.slots {
		if r != nil && r.attempt != nil {
			open = append(open, r.attempt)
		}
	}
	return open
}

// dropAll forgets all attempts of a job, those that ended too, and what was made of
// their answers.
func (s *state) dropAll(j *job) {
	s.abandon(j)
	if len(j.attempts) == 0 {
		return
	}
	for _, a := range s.open() {
		if a.job == j {
			s.drop(a)
		}
	}
	clear(j.attempts)
}

// drop forgets an open attempt. Its slot is free once the runtime has returned.
func (s *state) drop(a *attempt) {
	delete(a.job.attempts, placeOf(a.inv.GetAttempt()))
	if a.run == nil {
		s.queue.Remove(a.queued)
		a.queued = nil
		return
	}
	a.run.attempt = nil
	s.cancelRun(a.run, context.Canceled)
	a.run = nil
}

func (s *state) cancelRun(r *run, cause error) {
	if !r.cancelled {
		r.cancelled, r.cause = true, cause
		s.orders.cancel = append(s.orders.cancel, r)
	}
}

// fail ends a running attempt without an answer, but with what its function warned
// of.
func (s *state) fail(a *attempt, failure *messages.Failure, took time.Duration, now time.Time, warnings ...string) {
	s.wentWrong(a.run, failure, now)
	a.job.failedOn[a.inv.GetAttempt().GetFunction()] = a.run.slot
	s.end(a, &messages.InvokeFailed{
		Attempt: a.inv.GetAttempt(), Failure: failure, DurationUs: uint64(took.Microseconds()), Slot: uint32(a.run.slot) + 1,
		Warnings: warnings,
	})
}

// end ends a running attempt.
func (s *state) end(a *attempt, what proto.Message) {
	a.run.attempt, a.run, a.end = nil, nil, what
	s.answer(a.asker, what)
}

func (s *state) answer(to *actor.PID, what proto.Message) {
	s.orders.answers = append(s.orders.answers, answer{to, what})
}

// retired counts the slots that are not usable.
func (s *state) retired() int {
	var n int
	for _, r := range s.slots {
		if r != nil && r.retired {
			n++
		}
	}
	return n
}

// keysOf names the tensors of an answer.
func keysOf(answer *messages.Invoked) []string {
	var keys []string
	for _, ref := range []*messages.TensorRef{answer.GetModel(), answer.GetOptimizer(), answer.GetResidual()} {
		if ref != nil {
			keys = append(keys, ref.GetKey())
		}
	}
	return keys
}

// check says which invariant of state is broken.
func (s *state) check() error {
	open := map[*attempt]bool{}
	for _, a := range s.open() {
		open[a] = true
		if a.end != nil || (a.run == nil) == (a.queued == nil) {
			return fmt.Errorf("attempt %v is not in one place", a.inv.GetAttempt())
		}
		if a.run != nil && (a.run.attempt != a || s.slots[a.run.slot] != a.run) {
			return fmt.Errorf("attempt %v is not on its slot", a.inv.GetAttempt())
		}
	}
	for _, id := range s.heardOf {
		for p, a := range s.jobs[id].attempts {
			if a.end == nil && !open[a] {
				return fmt.Errorf("job %s: attempt %v neither queues nor runs nor has ended", id, p)
			}
			delete(open, a)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("%d attempts are open that no job knows", len(open))
	}
	for i, r := range s.slots {
		if r != nil && (r.slot != i || (r.attempt == nil && !r.cancelled) || (r.retired && !r.cancelled)) {
			return fmt.Errorf("slot %d: run on slot %d, cancelled %t, retired %t", i, r.slot, r.cancelled, r.retired)
		}
	}
	if s.queue.Len() > 0 && s.free(0) >= 0 {
		return fmt.Errorf("%d attempts queue though a slot is free", s.queue.Len())
	}
	if n := s.quarantinedSlots(); n > 0 && s.usable() == 0 && n > s.retired() {
		return fmt.Errorf("%d slots are in quarantine, and none is usable", n)
	}
	if len(s.jobs) != len(s.heardOf) {
		return fmt.Errorf("%d jobs, %d of them in order", len(s.jobs), len(s.heardOf))
	}
	return nil
}
