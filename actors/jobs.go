package actors

import (
	"context"
	"io"
	"slices"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
)

// Submission is a job that was accepted.
type Submission = train.Submission

// StartJob implements train.Company: it checks the task, finds the function and
// the data set (importing a file), and hands the task to the Scheduler.
func (c *Company) StartJob(ctx context.Context, asked *messages.TrainTask) (Submission, error) {
	resolved, err := task.Resolve(asked)
	if err != nil {
		return Submission{}, err
	}
	submitted := proto.CloneOf(resolved)
	local := c.lookHere(ctx, submitted)
	if err := c.findFunction(ctx, submitted); err != nil {
		return Submission{}, err
	}
	if err := c.findInit(ctx, resolved.GetOptions().GetInit()); err != nil {
		return Submission{}, err
	}
	warnings, err := c.findDataset(ctx, submitted)
	if err != nil {
		return Submission{}, err
	}
	if err := c.probeStore(ctx); err != nil {
		return Submission{}, err
	}
	return c.enqueue(ctx, newID(), submitted, c.jobs.now(), slices.Concat(local.found(submitted), warnings)...)
}

// enqueue hands a job to the Scheduler, with warnings about its task. It was
// submitted at that time, in milliseconds since 1970.
func (c *Company) enqueue(ctx context.Context, id string, t *messages.TrainTask, submittedMs int64, warnings ...string) (Submission, error) {
	c.board.Submitted(&messages.JobView{Id: id, Origin: c.jobs.origin, Task: t, SubmittedMs: submittedMs}, c.rim.Now())
	reply, err := command[*messages.SubmitJobReply](ctx, c, c.tree.Scheduler, &messages.SubmitJob{
		Key: lifeKey(id, 0), JobId: id, Task: c.bound(t), SubmittedMs: submittedMs,
	})
	if reply == nil {
		return Submission{}, err
	}
	return Submission{ID: reply.GetJobId(), Warnings: slices.Concat(c.takeWarnings(), warnings, reply.GetWarnings())}, err
}

// StopJob ends a job as STOPPED; WatchJob tells when it has. NotFound;
// Conflict when it has ended.
func (c *Company) StopJob(ctx context.Context, id, reason string) error {
	_, err := c.stop(ctx, &messages.StopJob{JobId: id, Reason: reason})
	return err
}

// stop reports whether the job has ended by that, which no TrainJob tells.
func (c *Company) stop(ctx context.Context, what *messages.StopJob) (ended bool, err error) {
	reply, err := command[*messages.StopJobReply](ctx, c, c.tree.Scheduler, what)
	return reply.GetEnded(), err
}

// WatchJob implements train.Company. Among the events are warnings of this
// node, as JobWarned without a job.
func (c *Company) WatchJob(ctx context.Context, id string, on func(*messages.JobEvent)) (*messages.JobResult, error) {
	before, resumed := c.after(id)
	if _, here := c.board.Job(id); !here && !resumed {
		stored, err := PeekJob(ctx, c.catalog, id)
		if err != nil {
			return nil, err
		}
		if end := stored.end(0); end != nil { // there is no more to come
			on(end)
			return end.GetEnded().GetResult(), nil
		}
	}
	return c.watchFrom(ctx, id, behind(before), on)
}

// watchFrom is WatchJob behind a place among the events.
func (c *Company) watchFrom(ctx context.Context, id string, from position, on func(*messages.JobEvent)) (*messages.JobResult, error) {
	events := newEventQueue()
	cursor := &messages.WatchJob{JobId: id, AfterIncarnation: from.incarnation, AfterSeq: from.seq}
	pid := c.system.Root.Spawn(WatcherProps(c.log, c.rim, c.tree.Journal, cursor, events.put))
	defer c.system.Root.Stop(pid)
	defer c.watch(events)()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		case <-events.ready:
		}
		for _, event := range events.take() {
			on(event)
			if !actorkit.IsEnd(event) {
				continue
			}
			if err := c.logs.flush(id); err != nil {
				c.log.Warn("log not stored", zap.String("job_id", id), zap.Error(err))
			}
			return event.GetEnded().GetResult(), wire.Error(event.GetTakenOver().GetFailure())
		}
	}
}

// Logs returns the URL of the folder in the store that has what the programs of a
// job printed on this node, "" when they printed nothing.
func (c *Company) Logs(id string) string { return c.logs.folder(id) }

// after returns the incarnation of a job whose events are old ones here, and
// whether it was resumed here.
func (c *Company) after(id string) (incarnation uint64, resumed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	incarnation, resumed = c.resumed[id]
	return incarnation, resumed
}

// probeStore writes to the store and takes it back, so that a job does not train
// for hours for a model that cannot be kept. The store gets its id, by which it is
// known again if its folder goes away and something comes back.
func (c *Company) probeStore(ctx context.Context) error {
	key := "probes/" + newID()
	err := c.store.Put(ctx, key, func(w io.Writer) error {
		_, err := io.WriteString(w, "can this store be written?\n")
		return err
	})
	if err == nil {
		err = c.store.Delete(ctx, key)
	}
	if err == nil {
		_, err = store.ID(ctx, c.store)
	}
	if err != nil {
		return fault.New("actors.start", fault.KindOf(err), "the store cannot keep a model: %w; give another one with --store", err)
	}
	return nil
}
