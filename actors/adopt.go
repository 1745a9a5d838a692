package actors

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/job"
)

// adoptAgain is how long a store is left alone that failed while jobs were
// looked for.
const adoptAgain = 2 * time.Second

// adopt goes on with the jobs that servers of this store have left, in the
// order in which they were submitted; those that were to stop are stopped. Jobs
// of run are left alone. Then what others left undone as their jobs ended is
// completed. It returns when all that is done, or ctx ends.
func (c *Company) adopt(ctx context.Context) {
	var told actorkit.Sparse // of a store that is away: it is so for all of this
	var ids []string
	for !c.tried(ctx, &told, "jobs not looked for", func() (err error) { ids, err = c.catalog.IDs(ctx); return err }) {
	}
	for ctx.Err() == nil {
		unread := c.adoptAll(ctx, &told, ids)
		if len(unread) == 0 || pause(ctx, adoptAgain) != nil {
			return
		}
		ids = slices.Sorted(maps.Keys(unread))
	}
}

// adoptAll is adopt for those jobs. It returns those that the store did not give,
// which may be tried again, and why.
func (c *Company) adoptAll(ctx context.Context, told *actorkit.Sparse, ids []string) (unread map[string]error) {
	left, ended, unread := c.orphans(ctx, told, ids)
	now := c.rim.Now()
	for _, o := range left {
		v := o.goesOn(o.Task, o.life)
		if node := v.GetNode(); node != "" && node != c.jobs.owner.Node { // it may run there still, further than its state
			v.Epochs = epochsSince(v.GetEpochs(), c.catalog.Events(ctx, o.ID, o.incarnation))
		}
		c.board.Submitted(v, o.waitsSince(now))
	}
	c.listing.finish(unread)
	for _, o := range left {
		for !c.tried(ctx, told, "job not taken up", func() error { return c.adoptOne(ctx, o, o.waitsSince(now)) }) {
		}
	}
	for _, id := range ended {
		for !c.tried(ctx, told, "end of a job not completed", func() error { return c.finish(ctx, id) }) {
		}
	}
	return unread
}

// finish completes the end of a job. Its owner may be about to let go of it, or
// to be dead.
func (c *Company) finish(ctx context.Context, id string) error {
	return finish(ctx, c.catalog, id, func() (*job.Claim, error) {
		return onceGone(ctx, c, func(stale job.Sighting) (*job.Claim, job.Sighting, error) {
			return c.catalog.Claim(ctx, id, c.jobs.owner, stale)
		}, func(job.Sighting) {})
	})
}

// tried does something that may have to be done again: true once it is done,
// cannot be, or ctx has ended.
func (c *Company) tried(ctx context.Context, told *actorkit.Sparse, what string, do func() error) bool {
	err := do()
	switch {
	case err == nil || ctx.Err() != nil:
		return true
	case fault.KindOf(err) != fault.Unavailable:
		c.log.Warn(what, zap.Error(err))
		return true
	}
	c.log.Log(told.Level(c.rim.Now()), what+", trying again", zap.Error(err))
	return pause(ctx, adoptAgain) != nil
}

// orphan is a job without an owner, in the life that it has come to.
type orphan struct {
	*StoredJob
	life uint64
}

// orphans returns of those jobs the ones of servers that have not ended, or are to
// go on, and the ids of all others that have ended, in that order; and those that
// the store did not give, with why.
func (c *Company) orphans(ctx context.Context, told *actorkit.Sparse, ids []string) (left []orphan, ended []string, unread map[string]error) {
	unread = map[string]error{}
	for _, id := range ids {
		if _, here := c.board.Job(id); here {
			continue
		}
		stored, err := PeekJob(ctx, c.catalog, id)
		var wants wishes
		if err == nil && stored.Origin == originServer && stored.State.GetResult().GetPhase() != messages.Phase_PHASE_SUCCEEDED {
			wants, err = c.asked(ctx, id)
		}
		switch kind := fault.KindOf(err); {
		case err != nil && (kind == fault.NotFound || kind == fault.Corrupt):
			c.log.Warn("job not looked at", zap.String("job_id", id), zap.Error(err))
		case err != nil:
			c.log.Log(told.Level(c.rim.Now()), "job not looked at, trying again", zap.String("job_id", id), zap.Error(err))
			unread[id] = err
		case stored.Origin == originServer && (stored.State.GetResult() == nil || wants.goOnAfter(stored.incarnation)):
			left = append(left, orphan{stored, wants.life})
		case stored.State.GetResult() != nil:
			ended = append(ended, id)
		}
	}
	return left, ended, unread
}

// adoptOne goes on with a job, or ends it where that was asked for.
func (c *Company) adoptOne(ctx context.Context, o orphan, since time.Time) error {
	wants, err := c.asked(ctx, o.ID) // again: something may have been asked meanwhile
	if err != nil {
		return err
	}
	seen, err := c.catalog.Look(ctx, o.ID)
	if err != nil {
		return err
	}
	if c.nodes != nil && o.State.GetResult() == nil && RunsElsewhere(seen, c.jobs.owner.Node) != "" {
		return c.takeUp(ctx, o, wants.n, seen, since)
	}
	if wants.stop != nil {
		return c.endStopped(ctx, o.ID, wants.stop.GetReason())
	}
	c.board.Waits(o.ID, "its last owner to be gone for sure")
	_, err = c.goOn(ctx, o.StoredJob, wants.n, o.life, since)
	c.board.Waits(o.ID, "")
	if fault.KindOf(err) == fault.NotFound { // its function or data: nobody can go on with it
		return c.endOrphan(ctx, o.ID, messages.Phase_PHASE_FAILED, wire.Failure(err))
	}
	return err
}

// wishes are what people want of a job.
type wishes struct {
	stop *messages.StopJob // nil: it is to go on
	n    uint32            // functions; 0: nothing is said
	life uint64            // the number of the last resume; 0: none
	from uint64            // the incarnation with which the job had ended by then
}

// goOnAfter reports whether a job is to go on that has ended with an incarnation:
// it was resumed, and its new life has not got into the store.
func (w wishes) goOnAfter(incarnation uint64) bool { return w.life > 0 && w.from >= incarnation }

// asked adds up the requests about a job so far.
func (c *Company) asked(ctx context.Context, id string) (w wishes, err error) {
	docs, err := c.catalog.Requests(ctx, id)
	if err != nil {
		return wishes{}, err
	}
	for i, doc := range docs {
		if string(doc) == "null" { // it is damaged, and those behind it count all the same
			continue
		}
		request := &messages.StoredRequest{}
		if err := readJSON.Unmarshal(doc, request); err != nil {
			return wishes{}, fault.New("actors.adopt", fault.Corrupt, "job %s: a request is damaged: %w", id, err)
		}
		w.take(uint64(i)+1, request)
	}
	return w, nil
}

// take takes in the request of that number. A stop that came late, about a life
// that was over by then, means nothing.
func (w *wishes) take(number uint64, r *messages.StoredRequest) {
	switch {
	case r.GetResume():
		w.stop, w.life, w.from = nil, number, r.GetAfterIncarnation()
	case r.GetStop() != nil && (r.Life == nil || r.GetLife() == w.life):
		w.stop = r.GetStop()
	}
	if r.GetParallelism() > 0 {
		w.n = r.GetParallelism()
	}
}

// endStopped ends a job that was to stop and that nobody runs.
func (c *Company) endStopped(ctx context.Context, id, reason string) error {
	return c.endOrphan(ctx, id, messages.Phase_PHASE_STOPPED, &messages.Failure{Op: "actors.stop", Text: reason})
}

// endOrphan ends a job that nobody runs, under its next incarnation; it can be
// taken up as before.
func (c *Company) endOrphan(ctx context.Context, id string, phase messages.Phase, why *messages.Failure) error {
	owned := c.jobs.take(id)
	if owned == nil {
		var err error
		if owned, err = c.own(ctx, id); err != nil {
			return err
		}
	}
	defer owned.Release()
	st := owned.last()
	if v, here := c.board.Job(id); here && v.QueuedS != nil {
		if st.History == nil {
			st.History = &messages.JobHistory{}
		}
		st.History.QueuedS = v.GetQueuedS()
	}
	now := c.rim.Now()
	if err := owned.Conclude(ctx, st, phase, why, now); err != nil {
		return err
	}
	c.system.Root.Send(c.tree.Journal, &messages.JobEvent{
		Job: st.GetJob(), Seq: 1, TimeMs: st.GetTimeMs(),
		What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: st.GetResult()}},
	})
	return nil
}
