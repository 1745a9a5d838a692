package actors

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// SubmitJob queues a job that survives this process: it is in the store once
// this returns. Function and data set are named as the store knows them. A key
// that was used before gives the same job again; the empty one is none.
// Invalid, NotFound, Conflict (the key was used for another task), Unavailable.
func (c *Company) SubmitJob(ctx context.Context, key string, asked *messages.TrainTask) (id string, warnings []string, err error) {
	if err := c.listing.wait(ctx); err != nil {
		return "", nil, err
	}
	t, err := c.storedTask(ctx, asked)
	if err != nil {
		return "", nil, err
	}
	id = newID()
	if key != "" {
		var first bool
		if id, first, err = c.catalog.Submission(ctx, key, id); err != nil {
			return "", nil, err
		}
		if !first {
			known, err := c.isKnown(ctx, id, key, t)
			if known || err != nil {
				return id, nil, err
			}
		}
	}
	submitted := c.jobs.now()
	if err := c.jobs.create(ctx, id, t, submitted); err != nil {
		return "", nil, err
	}
	sub, err := c.enqueue(ctx, id, t, submitted)
	if err != nil {
		return "", nil, err
	}
	c.heedStop(id, 0)
	return id, sub.Warnings, nil
}

// isKnown reports whether a job was put into the store: one that has a key and
// no task was lost between the two, and is put there now. Conflict: its task is
// another one.
func (c *Company) isKnown(ctx context.Context, id, key string, t *messages.TrainTask) (bool, error) {
	stored, err := PeekJob(ctx, c.catalog, id)
	if fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	if err == nil && !proto.Equal(asAsked(stored.Task), asAsked(t)) {
		err = fault.New("actors.submit", fault.Conflict, "the key %q is that of job %s, which has another task: give each submission a key of its own", key, id)
	}
	return true, err
}

// asAsked is a task without what was filled in from the catalogs, which may have
// changed since.
func asAsked(t *messages.TrainTask) *messages.TrainTask {
	t = proto.CloneOf(t)
	t.DatasetName, t.DatasetDigest, t.TrainSamples, t.TestSamples, t.FunctionVersion, t.Node = "", "", 0, 0, "", ""
	return t
}

// storedTask completes and checks a task that names what is in the store.
func (c *Company) storedTask(ctx context.Context, asked *messages.TrainTask) (*messages.TrainTask, error) {
	for _, name := range []string{asked.GetFunctionName(), asked.GetDataset()} {
		if isPath(name) || strings.ContainsAny(name, `/\`) {
			return nil, fault.New("actors.submit", fault.Invalid,
				"%q is a path: a server takes the names of functions and data sets that it has; create it first", name)
		}
	}
	t, err := task.Resolve(asked)
	if err != nil {
		return nil, err
	}
	if err := c.findFunction(ctx, t); fault.KindOf(err) == fault.NotFound {
		return nil, fault.New("actors.submit", fault.NotFound, "there is no function %q: there are %s, and those that were created (troupe function list)",
			asked.GetFunctionName(), strings.Join(c.native.Names(), ", "))
	} else if err != nil {
		return nil, err
	}
	if err := c.findInit(ctx, t.GetOptions().GetInit()); err != nil {
		return nil, err
	}
	if _, err := c.findDataset(ctx, t); fault.KindOf(err) == fault.NotFound {
		return nil, fault.New("actors.submit", fault.NotFound, "there is no data set %q: there are digits, and those that were created (troupe dataset list)", asked.GetDataset())
	} else if err != nil {
		return nil, err
	}
	return t, nil
}

// request keeps what was asked of a job, so that whoever owns it obeys even if
// this process dies. Where a server has the job, it is the server's to keep that:
// it counts the lives of the job, by these requests.
func (c *Company) request(ctx context.Context, id string, what *messages.StoredRequest) (number uint64, err error) {
	if c.events == nil {
		return 0, nil
	}
	what.TimeMs = c.rim.Now().UnixMilli()
	doc, err := protojson.Marshal(what)
	if err != nil {
		return 0, fault.New("actors.request", fault.Invalid, "job %s: %w", id, err)
	}
	return c.catalog.AddRequest(ctx, id, doc)
}

// StopStoredJob is StopJob, and is obeyed by the next process if this one dies.
func (c *Company) StopStoredJob(ctx context.Context, id, reason string) error {
	v, err := c.mustRun(ctx, id)
	if err != nil {
		return err
	}
	return c.stopLife(ctx, id, reason, v.GetLife())
}

// StopLife is StopStoredJob for who has seen a job in a life: Conflict also where
// that is over, because the job was resumed.
func (c *Company) StopLife(ctx context.Context, id, reason string, life uint64) error {
	v, err := c.mustRun(ctx, id)
	if err != nil {
		return err
	}
	if v.GetLife() != life {
		return fault.New("actors.stop", fault.Conflict, "job %s was resumed since then (its life is %d, not %d): look at it, and stop it again", id, v.GetLife(), life)
	}
	return c.stopLife(ctx, id, reason, life)
}

// stopLife stops a job unless it is resumed at the same time. A stop that is in the
// store is obeyed: where the Scheduler does not have the job yet, by whoever hands
// it over, see heedStop.
func (c *Company) stopLife(ctx context.Context, id, reason string, life uint64) error {
	stop := &messages.StopJob{JobId: id, Reason: reason, Key: lifeKey(id, life)}
	if _, err := c.request(ctx, id, &messages.StoredRequest{Stop: stop, Life: &life}); err != nil {
		return err
	}
	err := c.halt(ctx, stop)
	if fault.KindOf(err) != fault.NotFound || c.events == nil { // it is not in the store then
		return err
	}
	if v, ok := c.board.Job(id); ok && v.GetResult() != nil && v.GetPhase() != messages.Phase_PHASE_STOPPED {
		return fault.New("actors.stop", fault.Conflict, "job %s has ended already", id)
	}
	return nil
}

// halt has the Scheduler stop a job, and ends it where no TrainJob does. NotFound:
// the Scheduler does not have it.
func (c *Company) halt(ctx context.Context, stop *messages.StopJob) error {
	ended, err := c.stop(ctx, stop)
	if err != nil || !ended {
		return err
	}
	return c.endStopped(ctx, stop.GetJobId(), stop.GetReason())
}

// heedStop obeys a stop of a job that has just been handed to the Scheduler: one
// that was asked for while the job was on its way there. It returns once the store
// has said, or the company has ended.
func (c *Company) heedStop(id string, life uint64) {
	if c.events == nil { // whoever keeps what was asked of the job asks for it
		return
	}
	var told actorkit.Sparse
	for !c.tried(c.ctx, &told, "stop not obeyed", func() error {
		wants, err := c.asked(c.ctx, id)
		if err != nil || wants.stop == nil || wants.life != life {
			return err
		}
		if err := c.halt(c.ctx, wants.stop); fault.KindOf(err) != fault.NotFound { // it has ended
			return err
		}
		return nil
	}) {
	}
}

// arrivalPatience is how long a resize waits for a job to be with the Scheduler
// that is on its way there.
const arrivalPatience = 5 * time.Second

// ResizeJob sets the parallelism of an elastic job. NotFound; Conflict (it has
// ended, or is static); Invalid; Unavailable (it is still being taken up).
func (c *Company) ResizeJob(ctx context.Context, id string, n uint32) error {
	for since := c.rim.Now(); ; {
		v, err := c.mustRun(ctx, id)
		if err != nil {
			return err
		}
		err = c.setParallelism(ctx, &messages.SetParallelism{JobId: id, Parallelism: n, Key: lifeKey(id, v.GetLife())})
		switch {
		case err == nil:
			_, err = c.request(ctx, id, &messages.StoredRequest{Parallelism: n})
			return err
		case fault.KindOf(err) != fault.NotFound:
			return err
		case c.rim.Now().Sub(since) >= arrivalPatience || pause(ctx, lookGap) != nil:
			return fault.New("actors.resize", fault.Unavailable, "job %s is still being taken up: try again", id)
		}
	}
}

// ResumeStoredJob goes on with a job that has ended without success. NotFound;
// Conflict (it runs, or has SUCCEEDED); Corrupt; Unavailable.
func (c *Company) ResumeStoredJob(ctx context.Context, id string, n uint32) error {
	if err := c.listing.knows(ctx, id); err != nil {
		return err
	}
	if v, ok := c.board.Job(id); ok && v.GetResult() == nil {
		return fault.New("actors.resume", fault.Conflict, "job %s has not ended", id)
	}
	stored, err := PeekJob(ctx, c.catalog, id)
	if err != nil {
		return err
	}
	if stored.State.GetResult().GetPhase() == messages.Phase_PHASE_SUCCEEDED {
		return fault.New("actors.resume", fault.Conflict, "job %s has SUCCEEDED: there is nothing to go on with", id)
	}
	if n > task.MaxParallelism {
		return fault.New("actors.resume", fault.Invalid, "parallelism %d: give 1 to %d", n, task.MaxParallelism)
	}
	life, err := c.request(ctx, id, &messages.StoredRequest{Resume: true, Parallelism: n, AfterIncarnation: stored.incarnation})
	if err != nil {
		return err
	}
	_, err = c.goOn(ctx, stored, n, life, c.rim.Now())
	return err
}

// goOn puts a stored job on the board, which has waited since then, and resumes
// it.
func (c *Company) goOn(ctx context.Context, stored *StoredJob, n uint32, life uint64, since time.Time) (Submission, error) {
	t := stored.Resumed(n, c.slots)
	c.board.Submitted(stored.goesOn(t, life), since)
	submission, err := c.resume(ctx, stored.ID, t, lifeKey(stored.ID, life), since)
	if err != nil {
		c.board.Drop(stored.ID)
		return submission, err
	}
	c.heedStop(stored.ID, life)
	return submission, nil
}

// mustRun returns a job that has not ended, else NotFound or Conflict; Unavailable.
func (c *Company) mustRun(ctx context.Context, id string) (*messages.JobView, error) {
	if err := c.listing.knows(ctx, id); err != nil {
		return nil, err
	}
	v, ok := c.board.Job(id)
	if ok && v.GetResult() == nil {
		return v, nil
	}
	if !ok {
		if _, err := PeekJob(ctx, c.catalog, id); err != nil {
			return nil, err
		}
	}
	return nil, fault.New("actors.job", fault.Conflict, "job %s does not run here: it has ended, or another process runs it", id)
}
