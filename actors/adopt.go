package actors

import (
	"context"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/board"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// adoptAgain is how long a store is left alone that failed while jobs were
// looked for.
const adoptAgain = 2 * time.Second

// adopt goes on with the jobs that servers of this store have left, in the
// order in which they were submitted; those that were to stop are stopped. Jobs
// of run are left alone. Then what others left undone as their jobs ended is
// completed. It returns when all that is done, or ctx ends.
func (c *Company) adopt(ctx context.Context) {
	var left []*StoredJob
	var ended []string // too many to hold
	for !c.tried(ctx, "jobs not looked for", func() (err error) { left, ended, err = c.orphans(ctx); return err }) {
	}
	for _, stored := range left {
		c.board.Submitted(stored.ID, stored.Origin, stored.Task, time.UnixMilli(stored.submittedMs), stored.State.GetHistory().GetEpochs())
	}
	for _, stored := range left {
		for !c.tried(ctx, "job not taken up", func() error { return c.adoptOne(ctx, stored) }) {
		}
	}
	for _, id := range ended {
		for !c.tried(ctx, "end of a job not completed", func() error { return finish(ctx, c.catalog, c.jobs.owner, id) }) {
		}
	}
}

// tried does something that may have to be done again: true once it is done,
// cannot be, or ctx has ended.
func (c *Company) tried(ctx context.Context, what string, do func() error) bool {
	err := do()
	switch {
	case err == nil || ctx.Err() != nil:
		return true
	case fault.KindOf(err) != fault.Unavailable:
		c.log.Warn(what, zap.Error(err))
		return true
	}
	c.log.Warn(what+", trying again", zap.Error(err))
	return pause(ctx, adoptAgain) != nil
}

// orphans returns the jobs of servers that have not ended, and the ids of all
// that have, oldest first.
func (c *Company) orphans(ctx context.Context) (left []*StoredJob, ended []string, err error) {
	ids, err := c.catalog.IDs(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		if _, here := c.board.Job(id); here {
			continue
		}
		stored, err := PeekJob(ctx, c.catalog, id)
		switch kind := fault.KindOf(err); {
		case err != nil && (kind == fault.NotFound || kind == fault.Corrupt):
			c.log.Warn("job not looked at", zap.String("job_id", id), zap.Error(err))
		case err != nil:
			return nil, nil, err
		case stored.State.GetResult() != nil:
			ended = append(ended, id)
		case stored.Origin == originServer:
			left = append(left, stored)
		}
	}
	return left, ended, nil
}

// adoptOne goes on with a job, or ends it where that was asked for.
func (c *Company) adoptOne(ctx context.Context, stored *StoredJob) error {
	stop, n, err := c.asked(ctx, stored.ID)
	if err != nil {
		return err
	}
	if stop != nil {
		return c.endStopped(ctx, stored.ID, stop.GetReason())
	}
	c.board.Waits(stored.ID, "its last owner to be gone for sure")
	_, err = c.goOn(ctx, stored, n)
	c.board.Waits(stored.ID, board.FreeSlot)
	if fault.KindOf(err) == fault.NotFound { // its function or data: nobody can go on with it
		return c.endOrphan(ctx, stored.ID, messages.Phase_PHASE_FAILED, wire.Failure(err))
	}
	return err
}

// asked returns what people want of a job by their requests so far.
func (c *Company) asked(ctx context.Context, id string) (stop *messages.StopJob, n uint32, err error) {
	docs, err := c.catalog.Requests(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	for _, doc := range docs {
		request := &messages.StoredRequest{}
		if err := readJSON.Unmarshal(doc, request); err != nil {
			return nil, 0, fault.New("actors.adopt", fault.Corrupt, "job %s: a request is damaged: %w", id, err)
		}
		switch {
		case request.GetStop() != nil:
			stop = request.GetStop()
		case request.GetResume():
			stop = nil
		}
		if request.GetParallelism() > 0 {
			n = request.GetParallelism()
		}
	}
	return stop, n, nil
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
	st := &messages.JobState{}
	if owned.From() != nil {
		st = proto.CloneOf(owned.From())
		st.Before = train.EventsUpTo(owned.From())
	}
	now := c.rim.Now()
	st.Result = train.ResultOf(st, phase, why, owned.task.GetOptions().GetMerge(), now)
	st.Job, st.Events, st.TimeMs = &messages.JobRef{Id: id, Incarnation: owned.Incarnation()}, 0, now.UnixMilli()
	err := owned.Save(ctx, st, func(ctx context.Context, ref *messages.TensorRef) (plane.Blob, error) { return c.models.spooled(ctx, owned, ref) })
	if err != nil {
		return err
	}
	c.system.Root.Send(c.tree.Journal, &messages.JobEvent{
		Job: st.GetJob(), Seq: 1, TimeMs: st.GetTimeMs(),
		What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: st.GetResult()}},
	})
	return nil
}
