package actors

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/board"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// Hosts says which hosts there are, and which term rules.
func (c *Company) Hosts(ctx context.Context) (*messages.ListHostsReply, error) {
	return ask[*messages.ListHostsReply](ctx, c, c.tree.Scheduler, &messages.ListHosts{})
}

// RunningJobs returns the jobs of this node that have not ended, oldest first.
// Unavailable: a server that has just started does not know.
func (c *Company) RunningJobs(ctx context.Context) ([]*messages.JobView, error) {
	if err := c.listing.wait(ctx); err != nil {
		return nil, err
	}
	return c.board.Running(), nil
}

// Job returns a job of this node or of its store. NotFound; Corrupt; Unavailable.
func (c *Company) Job(ctx context.Context, id string) (*messages.JobView, error) {
	if err := c.listing.knows(ctx, id); err != nil {
		return nil, err
	}
	if v, ok := c.board.Job(id); ok {
		return v, nil
	}
	stored, err := PeekJob(ctx, c.catalog, id)
	if err != nil {
		return nil, err
	}
	v := stored.view()
	if v.GetResult() == nil && v.GetIncarnation() > 0 {
		owner, err := c.catalog.Look(ctx, id)
		if err != nil {
			return nil, err
		}
		v.Incarnation = max(v.GetIncarnation(), owner.Incarnation)
		v.WaitingFor = owner.Who() + ", its owner; if that has died: troupe run --resume " + id
	}
	return v, nil
}

// AllJobs returns every job of the store, oldest first. One that cannot be read
// is left out.
func (c *Company) AllJobs(ctx context.Context) ([]*messages.JobView, error) {
	return allJobs(ctx, c.catalog, c.Job)
}

// DeleteJob forgets a job that has ended: its history and logs, not its model.
// NotFound; Conflict: it has not ended.
func (c *Company) DeleteJob(ctx context.Context, id string) error {
	v, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	if _, here := c.board.Job(id); here && v.GetResult() == nil {
		return fault.New("actors.delete", fault.Conflict, "job %s has not ended: stop it first", id)
	}
	if err := deleteJob(ctx, c.catalog, c.jobs.owner, v); err != nil {
		return err
	}
	c.board.Drop(id)
	return nil
}

// view is a job as the store has it.
func (j *StoredJob) view() *messages.JobView {
	v := &messages.JobView{
		Id: j.ID, Origin: j.Origin, Task: j.Task, SubmittedMs: j.submittedMs, Phase: messages.Phase_PHASE_QUEUED,
		WaitingFor: "somebody to go on with it: troupe run --resume " + j.ID,
	}
	st := j.State
	if st == nil {
		return v
	}
	v.Node = st.GetNode()
	v.Incarnation, v.Epoch, v.Round, v.Parallelism = st.GetJob().GetIncarnation(), st.GetEpoch(), st.GetRound(), st.GetParallelism()
	v.Epochs, v.Record, v.Result = st.GetHistory().GetEpochs(), st.GetHistory().GetRecord(), st.GetResult()
	timesOf(v, st.GetHistory())
	v.Phase, v.WaitingFor = messages.Phase_PHASE_RUNNING, "its process; if that has died: troupe run --resume "+j.ID
	result := st.GetResult()
	if result == nil {
		return v
	}
	v.QueuedS, v.StartingS, v.RunningS = nil, nil, nil // the result says them, or nobody does
	board.End(v, result)
	if last := len(result.GetEpochs()) - 1; last >= 0 {
		e := result.GetEpochs()[last]
		v.Epoch, v.Round, v.Parallelism, v.EpochSamples = e.GetEpoch(), e.GetRounds(), e.GetParallelism(), e.GetSamples()
		v.Loss = &e.TrainLoss
	}
	return v
}

// timesOf shows the times up to a history.
func timesOf(v *messages.JobView, h *messages.JobHistory) {
	starting := h.GetWallS()
	if h != nil && h.StartingS != nil {
		starting = h.GetStartingS()
	}
	v.QueuedS, v.StartingS, v.RunningS = proto.Float64(h.GetQueuedS()), &starting, proto.Float64(max(0, h.GetWallS()-starting))
}

// goesOn is a job as it is when it is taken up, with the lives before that one.
func (j *StoredJob) goesOn(t *messages.TrainTask, life uint64) *messages.JobView {
	v := &messages.JobView{Id: j.ID, Origin: j.Origin, Task: t, SubmittedMs: j.submittedMs, Life: life, Node: j.State.GetNode(), Epochs: j.State.GetHistory().GetEpochs()}
	if h := j.State.GetHistory(); h != nil {
		timesOf(v, h)
	}
	return v
}

// waitsSince is since when a job waits that this node has just found: one that
// was never started, since it was submitted.
func (j *StoredJob) waitsSince(now time.Time) time.Time {
	if j.State == nil {
		return time.UnixMilli(j.submittedMs)
	}
	return now
}

// Seen is an event of a job, or the news that some before it are gone.
type Seen = train.Seen

// AllEvents calls on with the events of all jobs of this node behind a cursor,
// those to come as they come, until ctx ends or on fails; for the empty cursor
// with those to come alone. It returns on's error, else that of ctx.
func (c *Company) AllEvents(ctx context.Context, after string, on func(Seen) error) error {
	at, found := c.board.End(), true
	if after != "" {
		var there board.Place
		if there, found = c.board.Find(after); found {
			at = there
		}
	}
	if !found {
		if err := on(Seen{}); err != nil {
			return err
		}
	}
	for {
		events, next, more, lost := c.board.After(at)
		if lost {
			if err := on(Seen{}); err != nil {
				return err
			}
		}
		for _, e := range events {
			if err := on(Seen{Cursor: board.Cursor(e), Event: e}); err != nil {
				return err
			}
		}
		at = next
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-more:
		}
	}
}

// JobEvents calls on with the events of a job behind a cursor, or from its
// first, in order: of incarnations that are over those that count, then those
// of the running one as they come. Behind a cursor that names what never was it
// says so, and begins with the first. It returns nil once the job has ended, else
// on's error or that of ctx. NotFound; Invalid (the cursor).
func (c *Company) JobEvents(ctx context.Context, id, after string, on func(Seen) error) error {
	from, err := parseCursor(id, after)
	if err != nil {
		return err
	}
	if err := c.listing.knows(ctx, id); err != nil {
		return err
	}
	resumed, _ := c.after(id)
	if live, goesOn := c.runs(id); (!goesOn || resumed > 0 || c.tookUp(id, live)) && c.events != nil {
		c.events.flush(ctx) // so that the store has them all
	}
	if known, err := c.mayHaveBeen(ctx, id, from); err != nil {
		return err
	} else if !known {
		from = position{}
		if err := on(Seen{}); err != nil {
			return err
		}
	}
	over, err := c.storedEvents(ctx, id, &from, on)
	if err != nil || over {
		return err
	}
	if resumed > 0 && from.incarnation <= resumed { // the Journal may have them still, with an end that was none
		from = behind(resumed)
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error
	_, err = c.watchFrom(watching, id, from, func(e *messages.JobEvent) {
		if failed == nil && e.GetJob() != nil { // not a warning of the node
			if failed = on(Seen{Cursor: board.Cursor(e), Event: e}); failed != nil {
				cancel()
			}
		}
	})
	return cmp.Or(failed, err)
}

// position is a place among a job's events.
type position struct{ incarnation, seq uint64 }

// behind is the place behind all events of an incarnation; of 0, before all.
func behind(incarnation uint64) position {
	if incarnation == 0 {
		return position{}
	}
	return position{incarnation, math.MaxUint64}
}

func (p position) before(incarnation, seq uint64) bool {
	return incarnation > p.incarnation || incarnation == p.incarnation && seq > p.seq
}

// mayHaveBeen reports whether somebody can have seen a job at a place. Of an
// incarnation that is over the last events may be lost: all of them can.
func (c *Company) mayHaveBeen(ctx context.Context, id string, at position) (bool, error) {
	if at == (position{}) {
		return true, nil
	}
	if incarnation, seq := c.board.Latest(id); at.incarnation > 0 && at.incarnation == incarnation {
		return at.seq <= seq, nil
	}
	numbers, err := c.catalog.Incarnations(ctx, id)
	return at.incarnation == 0 || slices.Contains(numbers, at.incarnation), err
}

// storedEvents calls on with what the store has behind from, which moves on. It
// reports whether the job has ended with that. NotFound.
func (c *Company) storedEvents(ctx context.Context, id string, from *position, on func(Seen) error) (over bool, err error) {
	stored, err := PeekJob(ctx, c.catalog, id)
	if _, here := c.board.Job(id); here && fault.KindOf(err) == fault.NotFound {
		return false, nil // not in the store yet
	}
	if err != nil {
		return false, err
	}
	numbers, err := c.catalog.Incarnations(ctx, id)
	if err != nil {
		return false, err
	}
	live, goesOn := c.runs(id)
	if !goesOn {
		if goesOn, err = c.isResumed(ctx, stored); err != nil {
			return false, err
		}
	}
	counts := map[uint64]uint64{}
	for _, end := range stored.State.GetBefore() {
		counts[end.GetIncarnation()] = end.GetSeq()
	}
	var seq uint64 // the last event of the newest incarnation
	for _, n := range numbers {
		if live > 0 && n == live && !c.tookUp(id, live) { // the Journal has it
			continue
		}
		last, limited := counts[n]
		if n > 0 && n < stored.incarnation && !limited {
			continue // it came to nothing
		}
		for line, err := range c.catalog.Events(ctx, id, n) {
			if fault.KindOf(err) == fault.Corrupt {
				continue // one line: what comes after it counts all the same
			}
			if err != nil {
				return false, err
			}
			e := &messages.JobEvent{}
			if protojson.Unmarshal(line, e) != nil || limited && e.GetSeq() > last {
				continue
			}
			if e.GetEnded() != nil && (goesOn || n < stored.incarnation) {
				continue // it was resumed
			}
			if n == stored.incarnation {
				seq = max(seq, e.GetSeq())
			}
			over = over || e.GetEnded() != nil && n > 0
			if !from.before(n, e.GetSeq()) {
				continue
			}
			*from = position{n, e.GetSeq()}
			if err := on(Seen{Cursor: board.Cursor(e), Event: e}); err != nil {
				return false, err
			}
		}
	}
	if live > 0 || goesOn {
		return false, nil
	}
	if end := stored.end(seq); end != nil && !over { // it was stored, and then its process died
		over = true
		if from.before(end.GetJob().GetIncarnation(), end.GetSeq()) {
			err = on(Seen{Cursor: board.Cursor(end), Event: end})
		}
	}
	return over, err
}

// isResumed reports whether a job that has ended is one that this server is about
// to go on with: it was resumed when the one before it died.
func (c *Company) isResumed(ctx context.Context, stored *StoredJob) (bool, error) {
	if c.jobs.origin != originServer || stored.Origin != originServer || stored.State.GetResult() == nil {
		return false, nil
	}
	wants, err := c.asked(ctx, stored.ID)
	return wants.goOnAfter(stored.incarnation), err
}

// runs returns the incarnation of a job that this node runs, 0 for none, and
// whether the job has still to end.
func (c *Company) runs(id string) (incarnation uint64, goesOn bool) {
	v, ok := c.board.Job(id)
	if !ok || v.GetResult() != nil {
		return 0, false
	}
	return v.GetIncarnation(), true
}

// parseCursor reads <job>:<incarnation>:<seq>.
func parseCursor(id, cursor string) (position, error) {
	if cursor == "" {
		return position{}, nil
	}
	parts := strings.Split(cursor, ":")
	if len(parts) == 3 && parts[0] == id {
		incarnation, err1 := strconv.ParseUint(parts[1], 10, 64)
		seq, err2 := strconv.ParseUint(parts[2], 10, 64)
		if err1 == nil && err2 == nil {
			return position{incarnation, seq}, nil
		}
	}
	return position{}, fault.New("actors.events", fault.Invalid, "%q is no event of job %s: give <job>:<incarnation>:<seq>, as an event's id says", cursor, id)
}
