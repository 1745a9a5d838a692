package scheduler

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// usualParallelism is the N that a job starts with at most, unless asked.
const usualParallelism = 4

// static reports whether the job's N never changes.
func (j *job) static() bool { return j.task.GetOptions().GetStaticParallelism() }

// bounds returns the least and the greatest N of a job, 1 <= lo <= hi.
func (s *state) bounds(j *job) (lo, hi uint32) {
	o := j.task.GetOptions()
	lo, hi = max(1, o.GetMinParallelism()), o.GetMaxParallelism()
	if hi == 0 {
		hi = max(s.slotsFor(j), o.GetDefaultParallelism())
	}
	lo = min(lo, task.MaxParallelism)
	return lo, min(max(lo, hi), task.MaxParallelism)
}

// clamp returns n, or the bound of the job that it exceeds.
func (s *state) clamp(j *job, n uint32) uint32 {
	lo, hi := s.bounds(j)
	return min(max(n, lo), hi)
}

// first returns the N of a job's first epoch, where so many slots are free.
func (s *state) first(j *job, free uint32) uint32 {
	if n := j.task.GetOptions().GetDefaultParallelism(); n > 0 {
		return s.clamp(j, n)
	}
	return s.clamp(j, min(free, usualParallelism))
}

// wavesWarning returns what a person should know about an N above all slots,
// and "" where there is nothing to say or where it was said before.
func (s *state) wavesWarning(j *job, n uint32) string {
	slots := s.slotsFor(j)
	if j.warned || slots == 0 || n <= slots {
		return ""
	}
	j.warned = true
	what := "-p"
	if j.task.GetOptions().GetDefaultParallelism() == 0 {
		what = "--min-parallelism"
	}
	plural := "s"
	if slots == 1 {
		plural = ""
	}
	return fmt.Sprintf("%s %d exceeds the %d slot%s: functions run in waves of %d", what, n, slots, plural, slots)
}

// lose lets an elastic job follow the slots that it has left, of those it had
// before. Without any its N stays, and it waits.
func (s *state) lose(j *job, before uint32) {
	if !j.static() {
		if j.loss == nil {
			j.loss = &loss{n: j.n, slots: before}
		}
		if left := j.slots(); left > 0 {
			j.n = s.clamp(j, min(j.n, left))
		}
	}
	s.resized(j)
}

// gain gives slots to a job that lacked them. An elastic one that lost slots
// follows what it has, and has its N back once it has its slots back; any other
// grows to what is wanted as far as it has slots, and never shrinks by it.
func (s *state) gain(j *job, grants map[string]uint32) {
	j.give(grants)
	if slots := j.slots(); !j.static() {
		reach := s.clamp(j, min(j.wanted, slots))
		switch {
		case j.loss == nil:
			j.n = max(j.n, reach)
		case slots >= j.loss.slots:
			j.n = max(s.clamp(j, j.loss.n), reach)
			j.loss = nil
		default:
			j.n = reach
		}
	}
	j.disturbed = true
	s.resized(j)
}

// resized numbers a new size, for the actor to send.
func (s *state) resized(j *job) {
	j.seq++
	s.touch(j)
}

// onRequest answers a job's request for the N of its next epoch; nil where
// there is nobody to answer. What the answer changes, the job knows by it.
func (s *state) onRequest(now time.Time, m *messages.RequestParallelism) *messages.RequestParallelismReply {
	j := s.jobs[m.GetJob().GetId()]
	if j == nil || j.phase == queued || m.GetJob().GetIncarnation() < j.incarnation || m.GetJob().GetIncarnation() <= j.after {
		return nil
	}
	if m.GetJob().GetIncarnation() > j.answered.GetJob().GetIncarnation() {
		j.answered = nil // a later incarnation may have gone back some epochs
	}
	s.runs(j, m.GetJob())
	if j.answered != nil && m.GetEpoch() <= j.answered.GetEpoch() {
		if m.GetEpoch() < j.answered.GetEpoch() {
			return nil
		}
		return j.answered
	}
	warning := s.decide(j, Measurement{m.GetParallelism(), m.GetSeconds(), m.GetSamples()})
	s.settle(now)
	j.answered = &messages.RequestParallelismReply{
		Job: m.GetJob(), Epoch: m.GetEpoch(), Size: j.size(s.term, s.outlook()), Warning: warning,
	}
	return j.answered
}

// decide sets the job's N after an epoch, and returns a warning or "". A job
// that grows gets the free slots it needs, one that shrinks gives up those it
// has too many.
func (s *state) decide(j *job, m Measurement) (warning string) {
	disturbed := j.disturbed || j.loss != nil
	j.disturbed = false
	if j.static() || disturbed || !m.sound() {
		return ""
	}
	if len(j.past) == maxPast {
		j.past = append(j.past[:0], j.past[1:]...)
	}
	j.past = append(j.past, m)
	answer := s.policy.Parallelism(j.past)
	j.wanted = s.clamp(j, rounded(answer, j.n))

	n := s.reach(j)
	if j.clamped || answer >= 1 && answer <= task.MaxParallelism {
		return ""
	}
	j.clamped = true
	return fmt.Sprintf("the policy %s asked for a parallelism of %v: the job goes on with %d", s.policy.Name(), answer, n)
}

// reach brings a job's N to what is wanted, as far as slots are free: one that
// grows gets them, one that shrinks gives up those it has too many.
func (s *state) reach(j *job) uint32 {
	free, had := s.free(), j.slots()
	n := j.wanted
	if n > j.n {
		n = max(j.n, min(n, had+free.count(j)))
	}
	if n != j.n {
		j.n = n
		if n > had {
			j.give(free.take(j, n-had))
		}
		j.release(n)
		s.resized(j)
	}
	return n
}

// set changes the N of an elastic job as a person wants it. It stays so until
// the policy, or a loss of slots, says something else.
func (s *state) set(now time.Time, m *messages.SetParallelism) error {
	j := s.jobs[m.GetJobId()]
	if j == nil {
		return fault.New("scheduler.set", fault.NotFound, "no job %s runs or waits here", m.GetJobId())
	}
	if !j.means(m.GetKey()) {
		return j.resumed("scheduler.set")
	}
	lo, hi := s.bounds(j)
	switch n := m.GetParallelism(); {
	case j.static():
		return fault.New("scheduler.set", fault.Conflict, "job %s keeps its parallelism, as it was submitted (static_parallelism)", j.id)
	case n > hi:
		return fault.New("scheduler.set", fault.Invalid, "parallelism %d: job %s may have %d to %d: give one of those, or start a job with a greater max_parallelism",
			n, j.id, lo, hi)
	case n < lo:
		return fault.New("scheduler.set", fault.Invalid, "parallelism %d: job %s may have %d to %d: give one of those", n, j.id, lo, hi)
	case j.phase == queued:
		j.task = proto.CloneOf(j.task)
		j.task.Options.DefaultParallelism = n
	default:
		j.wanted, j.loss, j.disturbed = n, nil, true
		s.reach(j)
		s.settle(now)
	}
	return nil
}

// sound reports whether the measurement can be reckoned with.
func (m Measurement) sound() bool {
	return m.Parallelism > 0 && m.Samples > 0 && m.Seconds > 0 && !math.IsInf(m.Seconds, 0)
}

// rounded returns a policy's answer as a number of functions in
// [1, task.MaxParallelism], and stay where it is none.
func rounded(answer float64, stay uint32) uint32 {
	if math.IsNaN(answer) {
		return stay
	}
	return uint32(min(max(math.Round(answer), 1), task.MaxParallelism))
}
