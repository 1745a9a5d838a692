package actors

import (
	"context"
	"sync"

	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// endedKept is of how many ended jobs merges remembers the end.
const endedKept = 64

// merges knows how far the jobs of this node are, for functions that wait until
// their round is merged. It is safe for concurrent use.
type merges struct {
	mu    sync.Mutex // guards the rest
	jobs  map[string]*progress
	ended []string // jobs, the one that ended first
}

// progress is how far a job is.
type progress struct {
	incarnation uint64
	merged      round            // the latest
	failed      map[trial]string // attempts of this round and later ones, and why
	ended       string           // why no more is merged; "": it goes on
	changed     chan struct{}    // closed with the next change
}

// round names one of a job; they are counted from 1.
type round struct{ epoch, round uint32 }

func (r round) before(o round) bool {
	return r.epoch < o.epoch || r.epoch == o.epoch && r.round < o.round
}

// trial names an attempt of an incarnation; attempts are counted from 1.
type trial struct {
	round
	function, attempt uint32
}

func newMerges() *merges { return &merges{jobs: map[string]*progress{}} }

// add takes in events of jobs, each in its order; a repeat changes nothing.
func (m *merges) add(events []*messages.JobEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		m.addOne(e)
	}
}

func (m *merges) addOne(e *messages.JobEvent) {
	id := e.GetJob().GetId()
	p := m.of(id)
	if e.GetJob().GetIncarnation() < p.incarnation {
		return
	}
	if e.GetJob().GetIncarnation() > p.incarnation { // what the one before had in flight is done again
		p.incarnation, p.failed, p.ended = e.GetJob().GetIncarnation(), map[trial]string{}, ""
	}
	switch {
	case e.GetStarted() != nil:
		p.merged = round{e.GetStarted().GetEpoch(), e.GetStarted().GetRound()}
	case e.GetRoundMerged() != nil:
		p.merge(round{e.GetRoundMerged().GetEpoch(), e.GetRoundMerged().GetRound()})
	case e.GetFunctionFailed() != nil && e.GetFunctionFailed().GetAttempt().GetTask() == messages.Task_TASK_TRAIN:
		a := e.GetFunctionFailed().GetAttempt()
		p.failed[trial{round{a.GetEpoch(), a.GetRound()}, a.GetFunction(), a.GetAttempt()}] = e.GetFunctionFailed().GetFailure().GetText()
	case e.GetEnded() != nil:
		p.ended = "the job has ended, " + e.GetEnded().GetResult().GetPhase().String()
		m.forget(id)
	default:
		return
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *progress) merge(r round) {
	if r.before(p.merged) {
		return
	}
	p.merged = r
	for t := range p.failed {
		if t.before(r) {
			delete(p.failed, t)
		}
	}
}

func (m *merges) of(id string) *progress {
	p := m.jobs[id]
	if p == nil {
		p = &progress{failed: map[trial]string{}, changed: make(chan struct{})}
		m.jobs[id] = p
	}
	return p
}

// forget drops the jobs that ended long ago.
func (m *merges) forget(id string) {
	m.ended = append(m.ended, id)
	if len(m.ended) > endedKept {
		if p := m.jobs[m.ended[0]]; p != nil && p.ended != "" { // else it was resumed
			close(p.changed)
			delete(m.jobs, m.ended[0])
		}
		m.ended = m.ended[1:]
	}
}

// wait is a remote.Next.
func (m *merges) wait(ctx context.Context, ref remote.Ref) error {
	for {
		m.mu.Lock()
		p := m.jobs[ref.Job]
		if p == nil {
			m.mu.Unlock()
			return fault.New("actors.next", fault.Conflict, "job %.40q does not run here", ref.Job)
		}
		over, err := p.answer(ref)
		changed := p.changed
		m.mu.Unlock()
		if over {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answer says whether it is known what became of an attempt's round, and if it
// was not merged, or not with that attempt, why.
func (p *progress) answer(ref remote.Ref) (over bool, err error) {
	const op = "actors.next"
	t := trial{round{uint32(ref.Epoch), uint32(ref.Round) + 1}, uint32(ref.Function), uint32(ref.Attempt) + 1}
	failed, didFail := p.failed[t]
	switch {
	case ref.Incarnation != p.incarnation:
		return true, fault.New(op, fault.Conflict, "incarnation %d of the job is over, %d runs", ref.Incarnation, p.incarnation)
	case didFail:
		return true, fault.New(op, fault.Rejected, "the attempt was not merged: %s", failed)
	case !p.merged.before(t.round):
		return true, nil
	case p.ended != "":
		return true, fault.New(op, fault.Conflict, "epoch %d, round %d was not merged: %s", ref.Epoch, ref.Round, p.ended)
	}
	return false, nil
}
