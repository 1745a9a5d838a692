package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// lastJob is what people call the newest job of this store that run began.
const lastJob = "last"

// FindJob reads a job of the store at url: by its id, or for "last" the newest
// that run began, past those of which nothing says who did. Of one that has SUCCEEDED it completes what a process that was
// killed then left undone, as far as the store takes it. NotFound; Corrupt, where none of its states is whole;
// Invalid (url); Unavailable.
func FindJob(ctx context.Context, url, id string) (*StoredJob, error) {
	bucket, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	defer bucket.Close()
	archive := NewArchive(bucket)
	stored, err := archive.find(ctx, id)
	if stored.succeeded() {
		_ = finish(ctx, archive.catalog, stored.ID, func() (*job.Claim, error) { // it is shown all the same
			claim, _, err := archive.catalog.Claim(ctx, stored.ID, archive.owner, job.Sighting{})
			return claim, err
		})
	}
	return stored, err
}

// find reads a job by its id, or the last that run began.
func (a *Archive) find(ctx context.Context, id string) (*StoredJob, error) {
	catalog := a.catalog
	if id != lastJob {
		return PeekJob(ctx, catalog, id)
	}
	ids, err := catalog.IDs(ctx)
	if err != nil {
		return nil, err
	}
	var passed []error // jobs of which nobody can say whether run began them
	for _, id := range slices.Backward(ids) {
		stored, err := PeekJob(ctx, catalog, id)
		switch {
		case fault.KindOf(err) == fault.NotFound: // a folder of another kind
		case fault.KindOf(err) == fault.Corrupt && stored == nil:
			passed = append(passed, err)
		case stored != nil && stored.Origin != originRun:
		case err != nil:
			return nil, err
		default:
			for _, damage := range passed {
				stored.Warnings = append(stored.Warnings, fmt.Sprintf("a newer job is passed over, as nothing says who began it: %v; --resume %s goes on with the newest that is known to be of run", damage, stored.ID))
			}
			return stored, nil
		}
	}
	if len(passed) > 0 {
		return nil, fault.New("actors.find", fault.Corrupt, "no job is known to have been begun by run in %s: %w", a.url, errors.Join(passed...))
	}
	return nil, fault.New("actors.find", fault.NotFound, "no job was begun by run in %s: give --store, or the id of a job", a.url)
}

// Resumed returns the task of a job that goes on with n functions, or for 0
// with as many as it had. Where they are for the scheduler to choose, no more
// than there are slots.
func (j *StoredJob) Resumed(n uint32, slots int) *messages.TrainTask {
	t := proto.CloneOf(j.Task)
	had := j.State.GetParallelism()
	switch {
	case n > 0:
		t.Options.DefaultParallelism = n
	case had > 0 && t.GetOptions().GetStaticParallelism():
		t.Options.DefaultParallelism = had
	case had > 0:
		t.Options.DefaultParallelism = max(min(had, uint32(slots)), t.GetOptions().GetMinParallelism())
	}
	return t
}

// ResumeJob goes on with a job of the store that has stopped, failed or lost
// its process, under its next incarnation; task is the stored one, but for
// default_parallelism. It may wait for an owner that gives no sign of life.
// Errors: NotFound (the job, or what it needs), Conflict (it runs, naming
// where), Corrupt (none of its states is whole), Unavailable.
func (c *Company) ResumeJob(ctx context.Context, id string, task *messages.TrainTask) (Submission, error) {
	return c.resume(ctx, id, task, newID(), c.rim.Now())
}

// lifeKey is what the Scheduler calls a life of a job: its first, or that which
// the request of that number began.
func lifeKey(id string, life uint64) string {
	if life == 0 {
		return id
	}
	return fmt.Sprintf("%s:%d", id, life)
}

// resume is ResumeJob of a job that has waited since then, under a key that says
// which life this is.
func (c *Company) resume(ctx context.Context, id string, task *messages.TrainTask, key string, since time.Time) (Submission, error) {
	if err := c.findAgain(ctx, task); err != nil {
		return Submission{}, err
	}
	if err := c.probeStore(ctx); err != nil {
		return Submission{}, err
	}
	if before := c.jobs.take(id); before != nil { // for a life that ended in the queue
		before.Release()
	}
	owned, err := c.own(ctx, id)
	if err != nil {
		return Submission{}, err
	}
	var warnings []string
	if c.jobs.origin == originRun && owned.from == nil && owned.warning == "" { // whoever resumes a job thinks that it has begun
		warnings = append(warnings, "the store has no state of this job: it begins at epoch 1")
	}
	after := owned.Incarnation() - 1
	if c.nodes != nil { // any node may be its home, and claims it then: after this incarnation, under which nothing happens
		after = owned.Incarnation()
		owned.Release()
	} else {
		c.jobs.keep(owned)
	}
	reply, err := command[*messages.SubmitJobReply](ctx, c, c.tree.Scheduler, &messages.ResumeJob{
		Key: key, JobId: id, Task: c.bound(task), AfterIncarnation: after,
		WaitedMs: uint64(max(0, c.rim.Now().Sub(since).Milliseconds())), SubmittedMs: owned.submittedMs,
	})
	if err != nil {
		return Submission{}, err
	}
	c.mu.Lock()
	c.resumed[id] = reply.GetAfterIncarnation()
	c.mu.Unlock()
	return Submission{ID: id, Warnings: slices.Concat(c.takeWarnings(), warnings, reply.GetWarnings())}, nil
}

// findAgain finds the function and the data of a task that was submitted
// before, as they were then.
func (c *Company) findAgain(ctx context.Context, t *messages.TrainTask) error {
	name, version := t.GetFunctionName(), t.GetFunctionVersion()
	switch {
	case version != "":
		if err := c.ready(ctx, name, version, t.GetOptions().GetEnv()); err != nil {
			return err
		}
	case !c.native.Has(name):
		return fault.New("actors.resume", fault.NotFound, "there is no function %q in this program, which the job needs; there are %q", name, c.native.Names())
	}
	_, err := c.datasets.Get(ctx, t.GetDatasetName(), t.GetDatasetDigest())
	return err
}

// own makes this node the owner of a job, as soon as nobody else is.
func (c *Company) own(ctx context.Context, id string) (*OwnedJob, error) {
	return onceGone(ctx, c, func(stale job.Sighting) (*OwnedJob, job.Sighting, error) {
		return c.jobs.claim(ctx, id, stale)
	}, func(seen job.Sighting) {
		c.warn(fmt.Sprintf("job %s: waiting up to %v to see whether its owner, %s, lives", id, ownerSilence, seen.Who()))
	})
}
