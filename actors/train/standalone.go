package train

import (
	"context"
	"errors"

	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// Standalone is a Company that can run a job which is driven over HTTP: each
// endpoint is one of its methods, and each of those a message to an actor.
// actors.Start returns one. Errors are of package fault.
type Standalone interface {
	Company
	// StartJobAs queues a job under an id; a job that the store has goes on where
	// it was, with n functions, or for n = 0 with as many as it had. Function and
	// data set are named as the store knows them. Invalid; NotFound; Conflict: the
	// job runs, has SUCCEEDED, or has another task; Unavailable.
	StartJobAs(ctx context.Context, id string, task *messages.TrainTask, n uint32) (Submission, error)
	// Job returns how a job is. NotFound.
	Job(ctx context.Context, id string) (*messages.JobView, error)
	// SetParallelism sets N from the next round on. NotFound: it has ended;
	// Conflict: it is static; Invalid: out of its bounds.
	SetParallelism(ctx context.Context, id string, n uint32) error
	// OfferSlots has the node run at most so many functions from now on.
	OfferSlots(ctx context.Context, slots uint32) error
	// Stacks says where each running function of a job is right now. NotFound.
	Stacks(ctx context.Context, id string) (string, error)
	// Busy returns how many slots of the node functions hold.
	Busy(ctx context.Context) (uint32, error)
	// StopStoredJob ends a job as STOPPED, soon. NotFound; Conflict: it has ended.
	StopStoredJob(ctx context.Context, id, reason string) error
	// JobEvents calls on with the events of a job behind a cursor, or from its
	// first, until it has ended or on fails. NotFound; Invalid: the cursor.
	JobEvents(ctx context.Context, id, after string, on func(Seen) error) error
	// Exchange is what functions behind URLs talk to; its Job handler serves one job.
	Exchange() *remote.Exchange
	// ServeJob says that a URL is where the caller serves what Exchange has for a
	// job. Until then the company serves it on a port of its own.
	ServeJob(id, url string)
	// Done is closed when the company ends, by itself or by its Close.
	Done() <-chan struct{}
}

// Seen is an event of a job, or the news that some before it are gone.
type Seen struct {
	Cursor string             // of the event: what comes after it follows
	Event  *messages.JobEvent // nil: some are gone
}

// start gives the job its task, once: of calls that race one wins. It does not
// end with its caller: a start is accepted or refused, and nobody is left to
// guess. Conflict: the job has its task; Unavailable: it has no company; and
// those of StartJobAs.
func (j *TrainJob) start(ctx context.Context, task *messages.TrainTask, size jobjson.Update) (Submission, error) {
	host, err := j.hosted()
	if err != nil {
		return Submission{}, err
	}
	if err := j.claimStart(); err != nil {
		return Submission{}, err
	}
	submission, err := j.startAs(context.WithoutCancel(ctx), host, task, size)
	j.started(submission, err)
	return submission, err
}

// startAs has the node offer the slots before it has the job.
func (j *TrainJob) startAs(ctx context.Context, host Standalone, task *messages.TrainTask, size jobjson.Update) (submission Submission, err error) {
	err = j.offering(ctx, host, size.Slots, func() error {
		var n uint32
		if size.Parallelism != nil {
			n = *size.Parallelism
		}
		submission, err = host.StartJobAs(ctx, j.id, j.withK(task), n)
		return err
	})
	return submission, err
}

// offering does something for which the node is to offer so many slots, nil for as
// many as before; where that is refused the node offers what it did.
func (j *TrainJob) offering(ctx context.Context, host Standalone, slots *uint32, do func() error) error {
	j.sizing.Lock()
	defer j.sizing.Unlock()
	if slots == nil {
		return do()
	}
	if err := host.OfferSlots(ctx, *slots); err != nil {
		return err
	}
	if err := do(); err != nil {
		return errors.Join(err, host.OfferSlots(context.WithoutCancel(ctx), j.slots))
	}
	j.slots = *slots
	return nil
}

// hosted returns the company. Unavailable: there is none that can run a job over
// HTTP.
func (j *TrainJob) hosted() (Standalone, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.host == nil {
		return nil, fault.New("train.serve", fault.Unavailable, "job %s has no company yet: give it one with Use", j.id)
	}
	return j.host, nil
}

// running returns the company and the id of a job that has been started.
// Conflict: it has not.
func (j *TrainJob) running() (Standalone, string, error) {
	host, err := j.hosted()
	if err != nil {
		return nil, "", err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.phase != accepted {
		return nil, "", fault.New("train.serve", fault.Conflict, "job %s has no task yet: POST /start gives it one", j.id)
	}
	return host, j.id, nil
}

// unended is running for what needs a job that has not ended. Conflict: it has.
func (j *TrainJob) unended(ctx context.Context) (Standalone, string, error) {
	host, id, err := j.running()
	if err != nil {
		return nil, "", err
	}
	v, err := host.Job(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if v.GetResult() != nil {
		return nil, "", fault.New("train.serve", fault.Conflict, "job %s has ended: it is %s", id, jobjson.StateName(v.GetPhase()))
	}
	return host, id, nil
}

// update sets N, the slots, or both, or none of them where one is refused. An empty
// field is left as it is.
func (j *TrainJob) update(ctx context.Context, u jobjson.Update) error {
	host, id, err := j.unended(ctx)
	if err != nil {
		return err
	}
	return j.offering(ctx, host, u.Slots, func() error { // before N, which they bound
		if u.Parallelism == nil {
			return nil
		}
		return host.SetParallelism(ctx, id, *u.Parallelism)
	})
}

// await waits for the task of a basic job, and watches that to its end.
func (j *TrainJob) await(ctx context.Context) (*messages.JobResult, error) {
	host, err := j.hosted()
	if err != nil {
		return nil, err
	}
	select {
	case <-j.begun:
	case <-ctx.Done():
		return nil, fault.New("train.await", fault.Conflict, "job %s was stopped before it had its task: %w", j.id, context.Cause(ctx))
	case <-host.Done():
		return nil, fault.New("train.await", fault.Unavailable, "job %s had no task yet when its company ended", j.id)
	}
	return j.watch(ctx)
}
