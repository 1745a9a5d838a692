package scheduler

import (
	"slices"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// pollEvery is how often the Scheduler asks how a running job is.
const pollEvery = 5 * time.Second

// state is what the Scheduler knows. No I/O, no clock, no actor context.
// Invariants, held between messages and checked by check:
//   - the slots of a host that are granted never exceed those that it offers
//   - each job is in exactly one of queue and live, both sorted, and is not in ended
//   - a queued job has no N, no slots and no home, every other 1 <= N <= its bound and a home
//   - while a job is queued no slot is free that it may have
//   - a job without loss that is static or has its N has at most N slots
type state struct {
	node   string // this one
	term   uint64 // of this Scheduler's reign
	policy Policy
	newID  func() string

	hosts   map[string]*host // by node; those gone for a while, too
	members map[string]bool  // nodes that the cluster has; nil: nobody has said

	jobs  map[string]*job   // by id; that have not ended
	queue []*job            // not yet started, in order
	live  []*job            // started, in order
	keys  map[string]string // id by submission key, ended jobs included
	ended *endings

	barren      time.Time // since when hosts are there and none has a slot; zero: one has, or none is there
	submissions uint64
	touched     []*job  // whose start, size or stop the actor is to send
	news        []event // that the actor is to post
}

// event is an event of a job that the actor is to post.
type event struct {
	job         string
	incarnation uint64 // that the event is of; 0: of the job before its first
	event       *messages.JobEvent
	at          time.Time // when it happened; zero: now
	last        bool      // the Scheduler posts none of this job after it
}

func newState(node string, term uint64, policy Policy, newID func() string) *state {
	return &state{
		node: node, term: term, policy: policy, newID: newID,
		hosts: map[string]*host{}, jobs: map[string]*job{}, keys: map[string]string{}, ended: newEndings(),
	}
}

// settle gives free slots away: to the queue first, then to running jobs that
// have fewer than their N, then to elastic ones that want more.
func (s *state) settle(now time.Time) {
	if len(s.queue) == 0 && len(s.live) == 0 {
		return
	}
	free := s.free()
	for _, j := range slices.Clone(s.queue) {
		if free.count(j) > 0 {
			s.launch(now, j, free)
		}
	}
	for _, j := range s.live {
		if has := j.slots(); has < j.n && free.count(j) > 0 {
			s.gain(j, free.take(j, j.n-has))
		}
	}
	for _, j := range s.live {
		if has := j.slots(); !j.static() && has < j.wanted && free.count(j) > 0 {
			s.gain(j, free.take(j, j.wanted-has))
		}
	}
}

// launch starts a queued job on free slots, of which there is one for it.
func (s *state) launch(now time.Time, j *job, free *spare) {
	s.queue = remove(s.queue, j)
	s.live = insert(s.live, j)
	j.n = s.first(j, free.count(j))
	j.wanted, j.phase = j.n, starting
	j.give(free.take(j, j.n))
	j.home = s.homeOf(j)
	j.seq++         // sizes of an earlier life may still be under way: they are older
	j.acked = j.seq // the first size travels in StartJob
	if warning := s.wavesWarning(j, j.n); warning != "" {
		s.warn(j, now, warning)
	}
	s.touch(j)
}

// onStartReply takes in how a job is.
func (s *state) onStartReply(now time.Time, m *messages.StartJobReply) {
	j := s.jobs[m.GetJob().GetId()]
	if j == nil || j.phase == queued || m.GetFailure() == nil && m.GetJob().GetIncarnation() <= j.after {
		return
	}
	switch {
	case m.GetOwner() != "":
		s.ownedBy(now, j, m)
	case m.GetFailure() != nil: // not started by this order; the next tick repeats it
	case m.GetResult() != nil:
		j.incarnation = max(j.incarnation, m.GetJob().GetIncarnation())
		s.finish(now, j, m.GetResult().GetPhase())
	default:
		s.runs(j, m.GetJob())
	}
}

// runs takes in that an incarnation of a job runs.
func (s *state) runs(j *job, ref *messages.JobRef) {
	if j.phase == starting {
		j.phase = running
		s.touch(j) // what it was to know besides its start
	}
	j.incarnation, j.stranger = max(j.incarnation, ref.GetIncarnation()), time.Time{}
}

// onResizeReply takes in which size a job knows.
func (s *state) onResizeReply(m *messages.ResizeJobReply) {
	j := s.jobs[m.GetJob().GetId()]
	if j == nil || m.GetFailure() != nil || m.GetSeq() > j.seq {
		return
	}
	j.acked = max(j.acked, m.GetSeq())
}

// onFinished takes in that a job has ended.
func (s *state) onFinished(now time.Time, m *messages.JobFinished) {
	j := s.jobs[m.GetJob().GetId()]
	if j == nil || j.phase == queued {
		return
	}
	// What one says that is over counts no more: another home goes on with the job.
	if n := m.GetJob().GetIncarnation(); n > j.after && n >= j.incarnation {
		j.incarnation = n
		s.finish(now, j, m.GetResult().GetPhase())
	}
}

// finish forgets all of a job but how it ended.
func (s *state) finish(now time.Time, j *job, how messages.Phase) {
	s.queue, s.live = remove(s.queue, j), remove(s.live, j)
	delete(s.jobs, j.id)
	for _, key := range s.ended.add(ending{id: j.id, keys: append(j.earlier, j.key), phase: how, seq: j.seq, after: j.after, incarnation: j.incarnation, warnings: j.warnings}) {
		delete(s.keys, key)
	}
	s.news = append(s.news, event{job: j.id, last: true})
	s.settle(now)
}

// due touches every job that waits for an answer, or has not been asked after
// for long.
func (s *state) due(now time.Time) {
	for _, j := range s.live {
		if j.phase == starting || j.stop != nil || j.acked < j.seq || now.Sub(j.polled) >= pollEvery {
			s.touch(j)
		}
	}
}

// letter is what is to be sent to the ParameterServer of a node.
type letter struct {
	to   string
	what any
}

// orders returns what is to be sent about a job now.
func (s *state) orders(now time.Time, j *job) []letter {
	var orders []letter
	send := func(what any) { orders = append(orders, letter{j.home, what}) }
	if j.phase == starting || now.Sub(j.polled) >= pollEvery {
		j.polled = now
		if j.phase == starting && j.incarnation <= j.after { // it has not begun anywhere
			j.queuedFor = now.Sub(j.submitted)
		}
		send(&messages.StartJob{
			JobId: j.id, Task: j.task, Size: j.size(s.term, s.outlook()), QueuedMs: uint64(max(0, j.queuedFor.Milliseconds())),
			Key: j.key, AfterIncarnation: j.after,
		})
	}
	if j.phase == running && j.acked < j.seq {
		send(&messages.ResizeJob{Job: j.ref(), Size: j.size(s.term, s.outlook())})
	}
	if j.stop != nil {
		send(&messages.StopJob{JobId: j.id, Reason: j.stop.GetReason(), Key: j.key})
	}
	return orders
}

// touch notes that a job has something to be sent.
func (s *state) touch(j *job) { s.touched = append(s.touched, j) }

// warn posts a warning about a job.
func (s *state) warn(j *job, at time.Time, text string) {
	s.post(j, at, &messages.JobEvent{What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{Text: text}}})
}

// post says what happens to a job before its first incarnation; of one that had
// incarnations there is no more to say under none.
func (s *state) post(j *job, at time.Time, e *messages.JobEvent) {
	if j.after == 0 {
		s.news = append(s.news, event{job: j.id, event: e, at: at})
	}
}

// takeNews returns the events to post, each once.
func (s *state) takeNews() []event {
	news := s.news
	s.news = nil
	return news
}

// takeOrders returns what is to be sent about the jobs touched since.
func (s *state) takeOrders(now time.Time) []letter {
	var orders []letter
	seen := map[*job]bool{}
	for _, j := range s.touched {
		if s.jobs[j.id] == j && !seen[j] {
			seen[j] = true
			orders = append(orders, s.orders(now, j)...)
		}
	}
	s.touched = nil
	return orders
}
