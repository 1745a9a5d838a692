package journal

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

const (
	eventsKept = 10_000 // of one job
	endedKept  = 100    // jobs that have ended: the store has the others
	// eventsHeld bounds the events of a job that wait for a gap to be filled.
	// Others are repeated by their sender, like any that got lost.
	eventsHeld = 1_024
	// patience is how often what comes after a gap is repeated before the gap
	// counts as one that the sender cannot fill.
	patience = 10
)

// state is what a journal keeps. No I/O, no clock, no actor context.
// Invariants, held between messages and checked by check:
//   - a job's events ascend by (incarnation, seq) and none is of a higher
//     incarnation than the job
//   - what is held lies beyond a gap
//   - ended names each job that has ended once
//   - limits are kept, and no job is without events, watchers and held events
type state struct {
	jobs  map[string]*job
	ended []string // jobs, in the order in which they ended
}

// job is what is kept of one job.
type job struct {
	incarnation uint64 // the highest of which an event has come
	last        uint64 // seq in it up to which nothing is missing
	events      []*messages.JobEvent
	ended       bool
	held        map[uint64]*messages.JobEvent // by seq, beyond a gap after last
	repeats     int                           // of the first that is held
	watchers    []*actor.PID                  // in order of arrival
}

func newState() *state { return &state{jobs: map[string]*job{}} }

// add takes an event. It returns the seq up to which the event's incarnation is
// answered for, the events that watchers see now, and how many of those are
// empty because they were given up.
func (s *state) add(e *messages.JobEvent) (answered uint64, shown []*messages.JobEvent, skipped uint64) {
	id, incarnation := e.GetJob().GetId(), e.GetJob().GetIncarnation()
	j := s.job(id)
	if incarnation < j.incarnation {
		return e.GetSeq(), nil, 0 // nobody wants to know, so its sender may forget it
	}
	if incarnation > j.incarnation {
		s.takeOver(id, j, incarnation)
	}
	j.hold(e)
	before := j.last
	skipped = j.skip(e.GetStarted().GetFirst())
	shown = fill(nil, e.GetJob(), before, j.last+1)
	for next := j.held[j.last+1]; next != nil; next = j.held[j.last+1] {
		delete(j.held, j.last+1)
		j.last++
		j.keep(next)
		shown = append(shown, next)
		if actorkit.IsEnd(next) && !j.ended {
			j.ended = true
			s.ended = append(s.ended, id)
		}
	}
	s.forget()
	s.tidy(id, j)
	return j.last, shown, skipped
}

// takeOver begins an incarnation: the one before has lost the job.
func (s *state) takeOver(id string, j *job, incarnation uint64) {
	j.incarnation, j.last, j.repeats = incarnation, 0, 0
	clear(j.held)
	if j.ended { // and was resumed
		j.ended = false
		s.ended = slices.DeleteFunc(s.ended, func(other string) bool { return other == id })
	}
}

// forget drops the events of the jobs that ended first, when there are too many.
func (s *state) forget() {
	for len(s.ended) > endedKept {
		id := s.ended[0]
		s.ended = s.ended[1:]
		j := s.jobs[id]
		j.ended, j.events = false, nil
		s.tidy(id, j)
	}
}

// hold takes an event in, unless it is kept already or too many wait.
func (j *job) hold(e *messages.JobEvent) {
	if e.GetSeq() <= j.last {
		return
	}
	if _, again := j.held[e.GetSeq()]; again {
		if e.GetSeq() == j.firstHeld() {
			j.repeats++
		}
		return
	}
	if len(j.held) >= eventsHeld && e.GetSeq() != j.last+1 {
		return
	}
	if first := j.firstHeld(); first == 0 || e.GetSeq() < first {
		j.repeats = 0
	}
	j.held[e.GetSeq()] = e
}

// skip gives up a gap that is not going to be filled, and returns its length: one that
// was repeated over, or lies below the first event that the sender has.
func (j *job) skip(first uint64) uint64 {
	until := j.firstHeld()
	if j.repeats < patience {
		until = min(until, first)
	}
	if until <= j.last+1 {
		return 0
	}
	gap := until - j.last - 1
	j.last, j.repeats = j.last+gap, 0
	return gap
}

// firstHeld returns the lowest seq that is held, 0 for none.
func (j *job) firstHeld() uint64 {
	var first uint64
	for seq := range j.held {
		if first == 0 || seq < first {
			first = seq
		}
	}
	return first
}

// keep adds an event behind all others.
func (j *job) keep(e *messages.JobEvent) {
	j.events = append(j.events, e)
	if len(j.events) <= eventsKept {
		return
	}
	isRound := func(e *messages.JobEvent) bool { return e.GetRoundMerged() != nil }
	drop := max(slices.IndexFunc(j.events, isRound), 0)
	j.events = slices.Delete(j.events, drop, drop+1)
}

// watch adds a watcher of a job and reports whether it is new.
func (s *state) watch(id string, watcher *actor.PID) bool {
	j := s.job(id)
	if slices.ContainsFunc(j.watchers, watcher.Equal) {
		return false
	}
	j.watchers = append(j.watchers, watcher)
	return true
}

// unwatch drops a watcher from all jobs.
func (s *state) unwatch(watcher *actor.PID) {
	for id, j := range s.jobs {
		j.watchers = slices.DeleteFunc(j.watchers, watcher.Equal)
		s.tidy(id, j)
	}
}

// watchers returns those of a job.
func (s *state) watchers(id string) []*actor.PID {
	if j := s.jobs[id]; j != nil {
		return j.watchers
	}
	return nil
}

// after returns the events beyond a watcher's cursor, without gaps: empty ones
// stand for those that were dropped. They are not to be changed.
func (s *state) after(m *messages.WatchJob) []*messages.JobEvent {
	j := s.jobs[m.GetJobId()]
	if j == nil {
		return nil
	}
	at, _ := slices.BinarySearchFunc(j.events, m, func(e *messages.JobEvent, m *messages.WatchJob) int {
		if isAfter(e, m.GetAfterIncarnation(), m.GetAfterSeq()) {
			return 1
		}
		return -1
	})
	var shown []*messages.JobEvent
	incarnation, seq := m.GetAfterIncarnation(), m.GetAfterSeq()
	for _, e := range j.events[at:] {
		if e.GetJob().GetIncarnation() != incarnation {
			incarnation, seq = e.GetJob().GetIncarnation(), 0
		}
		shown = append(fill(shown, e.GetJob(), seq, e.GetSeq()), e)
		seq = e.GetSeq()
	}
	return shown
}

// fill adds empty events for those between two seqs, both exclusive.
func fill(events []*messages.JobEvent, job *messages.JobRef, after, before uint64) []*messages.JobEvent {
	for seq := after + 1; seq < before; seq++ {
		events = append(events, &messages.JobEvent{Job: job, Seq: seq})
	}
	return events
}

func isAfter(e *messages.JobEvent, incarnation, seq uint64) bool {
	if own := e.GetJob().GetIncarnation(); own != incarnation {
		return own > incarnation
	}
	return e.GetSeq() > seq
}

func (s *state) job(id string) *job {
	j, ok := s.jobs[id]
	if !ok {
		j = &job{held: map[uint64]*messages.JobEvent{}}
		s.jobs[id] = j
	}
	return j
}

// tidy drops a job of which nothing is left.
func (s *state) tidy(id string, j *job) {
	if len(j.events)+len(j.held)+len(j.watchers) == 0 {
		delete(s.jobs, id)
	}
}

// check says which invariant of state is broken.
func (s *state) check() error {
	ended := map[string]bool{}
	for _, id := range s.ended {
		if ended[id] || s.jobs[id] == nil || !s.jobs[id].ended {
			return fmt.Errorf("job %s is listed as ended, again or though it has not", id)
		}
		ended[id] = true
	}
	if len(s.ended) > endedKept {
		return fmt.Errorf("%d ended jobs are kept", len(s.ended))
	}
	for id, j := range s.jobs {
		if j.ended && !ended[id] {
			return fmt.Errorf("job %s has ended and is not listed", id)
		}
		if err := j.check(); err != nil {
			return fmt.Errorf("job %s: %w", id, err)
		}
	}
	return nil
}

func (j *job) check() error {
	if len(j.events) > eventsKept || len(j.held) > eventsHeld {
		return fmt.Errorf("%d events, %d held", len(j.events), len(j.held))
	}
	if len(j.events)+len(j.held)+len(j.watchers) == 0 {
		return fmt.Errorf("nothing is left of it")
	}
	for i, e := range j.events {
		if e.GetJob().GetIncarnation() > j.incarnation {
			return fmt.Errorf("event of incarnation %d in %d", e.GetJob().GetIncarnation(), j.incarnation)
		}
		if i > 0 && !isAfter(e, j.events[i-1].GetJob().GetIncarnation(), j.events[i-1].GetSeq()) {
			return fmt.Errorf("event %d does not come after the one before", i)
		}
	}
	for seq := range j.held {
		if seq <= j.last+1 {
			return fmt.Errorf("event %d is held though all up to %d are kept", seq, j.last)
		}
	}
	return nil
}
