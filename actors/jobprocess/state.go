package jobprocess

import (
	"fmt"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

const (
	// missedMost is how many signs of life in a row a process may owe; each is
	// waited for up to CheckFor, a second apart.
	missedMost = 4
	// CheckFor is for how long a Check waits.
	CheckFor = 2 * time.Second
	// goneFor is how long a process may stay whose job has ended.
	goneFor = 10 * time.Second
)

// stage is how far the process is; it only increases.
type stage uint8

const (
	begun  stage = iota
	there        // the process runs
	atWork       // and has its task
	over         // the job has ended there; the process is to end
	ended        // it is gone, and the end is told
)

// place is that of an event.
type place struct{ incarnation, seq uint64 }

// state is what is known of the process. No I/O, no clock, no actor context.
// Invariants, held between messages and checked by check:
//   - there is an end exactly from over on
//   - no event is passed on twice, or out of order
//   - one size is on its way at a time, and one stop
type state struct {
	ref   *messages.JobRef // what runs there: the incarnation grows
	task  *messages.TrainTask
	stage stage

	size     *messages.JobSize // the newest
	sent     *messages.JobSize // that the process knows
	resizing *messages.JobSize // on its way; nil: none
	stop     *messages.StopJob // asked for and not yet obeyed; nil: none
	stopping bool              // it is on its way
	held     bool              // what could not be said waits for the next tick

	last    place // of the events passed on
	version uint64
	asks    *messages.RequestParallelism // not answered; nil: nothing
	end     *messages.JobEvent           // that the job has ended there
	result  *messages.JobResult          // how
	endedAt time.Time

	missed   int
	checking bool
	busy     uint32 // slots that its functions held at the last sign of life
}

func newState(ref *messages.JobRef, start *messages.StartJob) *state {
	return &state{ref: ref, task: start.GetTask(), size: start.GetSize(), last: place{ref.GetIncarnation(), 0}}
}

func (s *state) static() bool { return s.task.GetOptions().GetStaticParallelism() }

// sizeOf is a size as the process takes it.
func sizeOf(size *messages.JobSize) Size {
	out := Size{Parallelism: size.GetParallelism()}
	for _, g := range size.GetGrants() {
		out.Slots += g.GetSlots()
	}
	return out
}

// sizeOf is a size as the running process takes it. N of a static job does not
// change.
func (s *state) sizeOf(size *messages.JobSize) Size {
	out := sizeOf(size)
	if s.static() {
		out.Parallelism = 0
	}
	return out
}

// launched takes in that the process is there, and returns the size that goes to it
// with its task.
func (s *state) launched() *messages.JobSize {
	s.stage, s.sent = max(s.stage, there), s.size
	return s.size
}

// started takes in that the process has its task.
func (s *state) started() { s.stage = max(s.stage, atWork) }

// lent is how many slots functions there may hold: those that the process knows of,
// those that it may have heard of, and those that it had to give back and still
// holds.
func (s *state) lent() uint32 {
	if s.stage == ended || s.sent == nil {
		return 0
	}
	return max(sizeOf(s.sent).Slots, sizeOf(s.resizing).Slots, s.busy)
}

// resize takes in a size. An older one is ignored. Invalid; NotFound where it is
// for an incarnation that is not here.
func (s *state) resize(ref *messages.JobRef, size *messages.JobSize) error {
	n := size.GetParallelism()
	switch {
	case ref.GetIncarnation() > s.ref.GetIncarnation():
		return fault.New("jobprocess.resize", fault.NotFound, "incarnation %d is not here", ref.GetIncarnation())
	case n < 1 || n > task.MaxParallelism:
		return fault.New("jobprocess.resize", fault.Invalid, "parallelism %d not in [1, %d]", n, task.MaxParallelism)
	case newer(size, s.size):
		s.size = size
	}
	return nil
}

func newer(a, b *messages.JobSize) bool {
	return a.GetTerm() > b.GetTerm() || a.GetTerm() == b.GetTerm() && a.GetSeq() > b.GetSeq()
}

// toResize returns the size that is to go to the process now; nil: none.
func (s *state) toResize() *messages.JobSize {
	if s.stage != atWork || s.held || s.resizing != nil || !newer(s.size, s.sent) {
		return nil
	}
	s.resizing = s.size
	return s.size
}

// resized takes in how that went. What the process refuses is not tried again.
func (s *state) resized(size *messages.JobSize, err error) {
	s.resizing = nil
	if s.held = fault.KindOf(err) == fault.Unavailable; !s.held {
		s.sent = size
	}
}

// halt takes in that the job is to stop. Conflict: it has ended otherwise.
func (s *state) halt(m *messages.StopJob) error {
	switch {
	case s.stage >= over && s.result.GetPhase() == messages.Phase_PHASE_TAKEN_OVER:
		return wire.Error(s.result.GetFailure())
	case s.stage >= over && s.result.GetPhase() != messages.Phase_PHASE_STOPPED:
		return fault.New("jobprocess.stop", fault.Conflict, "job %s has ended", s.ref.GetId())
	case s.stage < over:
		s.stop = m
	}
	return nil
}

// toStop returns the stop that is to go to the process now; nil: none.
func (s *state) toStop() *messages.StopJob {
	if s.stage != atWork || s.held || s.stopping || s.stop == nil {
		return nil
	}
	s.stopping = true
	return s.stop
}

// stopped takes in how that went, and reports whether it is decided: what could
// not be said is said again.
func (s *state) stopped(err error) (decided bool) {
	s.stopping = false
	if s.held = fault.KindOf(err) == fault.Unavailable; !s.held {
		s.stop = nil
	}
	return !s.held
}

// toCheck reports whether a sign of life is to be asked for now.
func (s *state) toCheck() bool {
	if s.stage != atWork || s.checking {
		return false
	}
	s.checking = true
	return true
}

// checked takes in whether there was one, with the slots that are held, and returns what to crash with; nil:
// nothing.
func (s *state) checked(busy uint32, err error) error {
	s.checking = false
	if err == nil {
		s.missed, s.busy = 0, busy
		return nil
	}
	if s.missed++; s.missed < missedMost || s.stage != atWork {
		return nil
	}
	return fault.New("jobprocess.check", fault.Unavailable, "its process gave no sign of life for about %v", missedMost*CheckFor+missedMost*repeatEvery/2)
}

// lingers reports whether the process should be gone by now.
func (s *state) lingers(now time.Time) bool { return s.stage == over && now.Sub(s.endedAt) >= goneFor }

// exited takes in that the process is gone. It returns the event that the job has
// ended, or what to crash with.
func (s *state) exited(how string) (*messages.JobEvent, error) {
	if s.stage != over {
		return nil, fault.New("jobprocess.watch", fault.Unavailable, "its process %s", how)
	}
	s.stage = ended
	return s.end, nil
}

// finished is what the ParameterServer is told at the end.
func (s *state) finished() *messages.JobFinished {
	return &messages.JobFinished{Job: s.ref, Result: s.result}
}

// progress is what the ParameterServer is told before.
func (s *state) progress() *messages.KeepState {
	return &messages.KeepState{State: &messages.JobState{Job: s.ref, ModelVersion: s.version}}
}

// check returns an error when an invariant of state does not hold.
func (s *state) check() error {
	switch {
	case (s.end != nil) != (s.stage >= over) || (s.end != nil) != (s.result != nil):
		return fmt.Errorf("stage %d with end %v", s.stage, s.end)
	case s.last.incarnation != s.ref.GetIncarnation():
		return fmt.Errorf("events up to %v are passed on, and incarnation %d runs", s.last, s.ref.GetIncarnation())
	case newer(s.sent, s.size):
		return fmt.Errorf("the process knows size %v, and the newest is %v", s.sent, s.size)
	}
	return nil
}
