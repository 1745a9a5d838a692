package paramserver

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

const (
	// maxRespawns is how often a job is started again that died and has not got
	// further since.
	maxRespawns = 3
	// patience is for how long an owner that gives no sign of life is waited for.
	patience = 10 * time.Second
	// endFor is for how long an end waits for the store before it is told without
	// that: longer than an owner that has died may be waited for.
	endFor = patience + 5*time.Second
	// backOff is the wait before the first respawn; it doubles with each.
	backOff = time.Second
	// maxEnded is how many jobs without a child are remembered whose end the
	// Scheduler has.
	maxEnded = 1000
)

// state is what the ParameterServer knows. No I/O, no clock, no actor context.
// Invariants, held between messages and checked by check:
//   - a job has a result exactly when it has ended, or is about to
//   - a waiting job has no child; a running one has, and owns what it runs
//   - at most maxEnded jobs without a child are remembered whose end the
//     Scheduler has
type state struct {
	term uint64 // the highest heard of
	jobs map[string]*job
	done []string // ids of jobs whose end the Scheduler has, oldest first
}

func newState() *state { return &state{jobs: map[string]*job{}} }

// begin takes in a StartJob. It returns the job, and whether it is to be owned
// now; Conflict if a later term rules. A job that has ended begins anew where it
// was asked for anew, once its child is gone.
func (s *state) begin(now time.Time, m *messages.StartJob) (j *job, begun bool, err error) {
	if err := s.rule(m.GetSize()); err != nil {
		return nil, false, err
	}
	j = s.jobs[m.GetJobId()]
	switch {
	case j == nil:
		j = &job{lives: map[string]bool{}}
	case m.GetKey() == j.start.GetKey():
		j.resize(m.GetSize())
		return j, false, nil
	case j.lives[m.GetKey()] || j.blocks(m) || j.phase != ended || !j.reported || j.leaving > 0:
		return j, false, nil // of a life that is over, or the one before is not
	default:
		s.done = slices.DeleteFunc(s.done, func(id string) bool { return id == j.id })
	}
	j.lives[m.GetKey()] = true
	j = &job{id: m.GetJobId(), start: m, started: now, lives: j.lives}
	s.jobs[j.id] = j
	return j, true, nil
}

// wanted reports whether a job still waits to be owned.
func (s *state) wanted(j *job) bool { return s.jobs[j.id] == j && j.phase == waiting }

// stale returns the owner that counts as gone, the zero value for none.
func (j *job) stale(now time.Time) (gone store.Sighting) {
	if j.seen != gone && now.Sub(j.seenAt) >= patience {
		return j.seen
	}
	return gone
}

// refused takes in that a waiting job could not be owned, and reports whether
// it has ended by that; else it is tried again. An owner that gives a sign of
// life runs the job, so that it is not ours to run.
func (s *state) refused(now time.Time, j *job, seen store.Sighting, err error) (concluded bool) {
	if j.mayBeOwned(now, seen, err) {
		return false
	}
	j.crash, j.final = err, true
	j.conclude(now)
	if fault.KindOf(err) == fault.Conflict && seen.Incarnation > 0 {
		j.takenOver(seen)
	}
	return true
}

// mayBeOwned takes in that a job could not be owned, and reports whether that can
// change: the store is away, or its owner has given no sign of life so far.
func (j *job) mayBeOwned(now time.Time, seen store.Sighting, err error) bool {
	kind := fault.KindOf(err)
	switch none := (store.Sighting{}); {
	case kind == fault.Conflict && seen != none && (j.seen == none || j.seen == seen):
		if j.seen == none {
			j.seen, j.seenAt = seen, now
		}
		return true
	case kind == fault.Unavailable || kind == fault.Unknown:
		j.seenAt = now // while we cannot see the owner it may have given signs of life, or not been able to
		return true
	}
	return false
}

// takenOver has a concluded job be another's, which is no end of it.
func (j *job) takenOver(by store.Sighting) {
	result := proto.CloneOf(j.end)
	result.Phase, result.Failure = messages.Phase_PHASE_TAKEN_OVER, wire.Failure(by.TakenOver("paramserver.own", j.id))
	j.sealing = false
	j.tell(j.over+1, result)
}

// hasEnded reports whether a waiting job that this node owns now has ended
// already, by what it told the store before it died.
func (s *state) hasEnded(j *job, owned *Owned) bool {
	thisLife := j.incarnation > 0 || owned.EndedBy > j.start.GetAfterIncarnation() // which may have begun on another node
	if owned.Ended == nil || !thisLife && owned.Ended.GetPhase() != messages.Phase_PHASE_SUCCEEDED {
		return false // it is to go on
	}
	j.owned, j.released, j.incarnation = owned, false, owned.Incarnation
	j.phase, j.result = ended, owned.Ended
	return true
}

// owns takes in that this node owns a waiting job, which runs from now on.
func (s *state) owns(now time.Time, j *job, owned *Owned) {
	if j.incarnation == 0 {
		j.waited(now.Sub(j.started))
	}
	j.reach(owned.Reached)
	j.owned, j.released, j.incarnation, j.seen = owned, false, owned.Incarnation, store.Sighting{}
	j.phase, j.alive, j.crash = running, true, nil
	j.obstacle, j.told = nil, actorkit.Sparse{}
}

// follow takes in that a job's child goes on under a higher incarnation, as one
// does whose job has a process of its own, and reports whether that is news.
func (s *state) follow(ref *messages.JobRef) bool {
	j := s.jobs[ref.GetId()]
	if j == nil || j.phase != running || ref.GetIncarnation() <= j.incarnation {
		return false
	}
	owned := *j.owned
	owned.Incarnation = ref.GetIncarnation()
	j.owned, j.incarnation = &owned, owned.Incarnation
	return true
}

// reached takes in how far the running or last incarnation of a job has come,
// which the store need not know yet.
func (s *state) reached(m *messages.JobState) {
	if j := s.jobs[m.GetJob().GetId()]; j != nil && m.GetJob().GetIncarnation() == j.incarnation {
		j.reach(m.GetModelVersion())
	}
}

// resize takes in a ResizeJob and returns its job, which is to be told if it
// has a child and else begins with the size. Errors: Conflict if a later term
// rules, NotFound if there is no such job or it has ended, Invalid.
func (s *state) resize(m *messages.ResizeJob) (*job, error) {
	if err := s.rule(m.GetSize()); err != nil {
		return nil, err
	}
	id := m.GetJob().GetId()
	j := s.jobs[id]
	switch n := m.GetSize().GetParallelism(); {
	case j == nil || j.phase >= ending:
		return nil, fault.New("paramserver.resize", fault.NotFound, "job %s does not run here", id)
	case n < 1 || n > task.MaxParallelism:
		return nil, fault.New("paramserver.resize", fault.Invalid, "parallelism %d not in [1, %d]", n, task.MaxParallelism)
	}
	j.resize(m.GetSize())
	return j, nil
}

// rule refuses what a Scheduler of an earlier term sent.
func (s *state) rule(size *messages.JobSize) error {
	if term := size.GetTerm(); term < s.term {
		return fault.New("paramserver.obey", fault.Conflict, "term %d is over: the Scheduler of term %d rules", term, s.term)
	}
	s.term = size.GetTerm()
	return nil
}

// halt takes in a StopJob and returns the job, and whether it has ended by it,
// as one between two incarnations does. Errors: NotFound, Conflict if it has
// ended otherwise.
func (s *state) halt(now time.Time, m *messages.StopJob) (j *job, concluded bool, err error) {
	j = s.jobs[m.GetJobId()]
	switch {
	case j != nil && m.GetKey() != "" && m.GetKey() != j.start.GetKey():
		return nil, false, fault.New("paramserver.stop", fault.Conflict, "that life of job %s is over", j.id)
	case j == nil:
		return nil, false, fault.New("paramserver.stop", fault.NotFound, "there is no job %s", m.GetJobId())
	case j.result.GetPhase() == messages.Phase_PHASE_TAKEN_OVER:
		return nil, false, wire.Error(j.result.GetFailure())
	case j.phase >= ending && j.result.GetPhase() != messages.Phase_PHASE_STOPPED:
		return nil, false, fault.New("paramserver.stop", fault.Conflict, "job %s has ended already", j.id)
	case j.phase < ending && j.stop == nil:
		j.stop = m
	}
	if j.phase == waiting {
		j.conclude(now)
		concluded = true
	}
	return j, concluded, nil
}

// finish takes in how a job ended, and returns it if that is news, else nil.
// What an earlier incarnation says is none. A job whose child is dead already,
// so that the Journal may not hear of the end, has concluded by it.
func (s *state) finish(m *messages.JobFinished) (j *job, concluded bool) {
	j = s.jobs[m.GetJob().GetId()]
	if j == nil || j.phase >= ending || m.GetJob().GetIncarnation() != j.incarnation || m.GetResult() == nil {
		return nil, false
	}
	concluded = j.phase == waiting
	j.phase, j.result = ended, m.GetResult()
	if concluded {
		j.incarnation++
	}
	return j, concluded
}

// crashed notes why an incarnation is about to die.
func (s *state) crashed(ref *messages.JobRef, why error) {
	if j := s.jobs[ref.GetId()]; j != nil && j.alive && j.incarnation == ref.GetIncarnation() {
		j.crash = why
	}
}

// outcome says what follows from a child's death.
type outcome uint8

const (
	nothing   outcome = iota // it had its end, and has said so
	respawn                  // the next incarnation is due after a back-off
	concluded                // the job has ended by it: its end is to be told
)

// gone takes in that an incarnation's child is dead. It returns the job, which
// is nil where nothing follows.
func (s *state) gone(now time.Time, ref *messages.JobRef) (*job, outcome) {
	j := s.jobs[ref.GetId()]
	if j == nil || !j.alive || j.incarnation != ref.GetIncarnation() {
		return nil, nothing
	}
	j.alive = false
	if j.phase == ended {
		s.forget()
		if j.crash == nil {
			return j, nothing
		}
		j.incarnation++ // the Journal may not have heard of the end
		return j, concluded
	}
	if j.crash == nil {
		j.crash = fault.New("paramserver.supervise", fault.Unknown, "it stopped without a result")
	}
	if j.stop != nil || j.respawns >= maxRespawns || !respawnHelps(fault.KindOf(j.crash)) {
		j.conclude(now)
		return j, concluded
	}
	j.phase = waiting
	j.respawns++
	return j, respawn
}

// respawnHelps reports whether a job that died of an error of this kind is worth
// another incarnation.
func respawnHelps(k fault.Kind) bool {
	switch k {
	case fault.Unknown, fault.Unavailable, fault.Corrupt:
		return true
	case fault.Invalid, fault.NotFound, fault.Conflict, fault.UserCode, fault.Rejected:
	}
	return false
}

// acknowledged takes in that the Scheduler has a job's end.
func (s *state) acknowledged(m *messages.JobFinishedReply) {
	j := s.jobs[m.GetJob().GetId()]
	if j == nil || j.phase != ended || j.reported || m.GetJob().GetIncarnation() != j.incarnation {
		return
	}
	j.reported = true
	s.done = append(s.done, j.id)
	s.forget()
}

// forget drops the oldest jobs whose end the Scheduler has and that have no
// child left.
func (s *state) forget() {
	for excess := len(s.done) - maxEnded; excess > 0; excess-- {
		i := slices.IndexFunc(s.done, func(id string) bool { return !s.jobs[id].alive })
		if i < 0 {
			return
		}
		delete(s.jobs, s.done[i])
		s.done = slices.Delete(s.done, i, i+1)
	}
}

// unreported returns the jobs whose end the Scheduler does not have, in the
// order of their ids.
func (s *state) unreported() []*job {
	return s.sorted(func(j *job) bool { return j.phase == ended && !j.reported })
}

// sorted returns the jobs that are so, in the order of their ids.
func (s *state) sorted(so func(*job) bool) []*job {
	var jobs []*job
	for _, j := range s.jobs {
		if so(j) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int { return cmp.Compare(a.id, b.id) })
	return jobs
}

// check returns an error when an invariant of state does not hold.
func (s *state) check() error {
	forgettable := 0
	for _, j := range s.jobs {
		if (j.phase >= ending) != (j.result != nil) || j.reported && j.phase != ended || j.phase == ending && !j.sealing {
			return fmt.Errorf("job %s in phase %d has result %v, reported %t", j.id, j.phase, j.result, j.reported)
		}
		if (j.phase == waiting || j.phase == ending) && j.alive || j.phase == running && !j.alive {
			return fmt.Errorf("job %s in phase %d: a child is alive: %t", j.id, j.phase, j.alive)
		}
		if j.phase == running && (j.owned == nil || j.owned.Incarnation != j.incarnation) || j.respawns > maxRespawns {
			return fmt.Errorf("job %s in phase %d runs incarnation %d after %d respawns, and owns %v", j.id, j.phase, j.incarnation, j.respawns, j.owned)
		}
		if j.reported && !j.alive {
			forgettable++
		}
	}
	if forgettable > maxEnded {
		return fmt.Errorf("%d ended jobs are remembered", forgettable)
	}
	return nil
}
