package actors

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

var _ train.Standalone = (*Company)(nil)

// StartJobAs implements train.Standalone. What it begins is in the store, and this
// node's, once it returns.
func (c *Company) StartJobAs(ctx context.Context, id string, asked *messages.TrainTask, n uint32) (Submission, error) {
	if v, here := c.board.Job(id); here && v.GetResult() == nil {
		return Submission{}, fault.New("actors.start", fault.Conflict, "job %s runs here already", id)
	}
	stored, err := PeekJob(ctx, c.catalog, id)
	isNew := fault.KindOf(err) == fault.NotFound
	if isNew {
		stored, err = c.createJob(ctx, id, asked, n)
	} else if err == nil {
		err = isSame(stored, asked)
	}
	if err != nil {
		return Submission{}, err
	}
	if result := stored.State.GetResult(); result.GetPhase() == messages.Phase_PHASE_SUCCEEDED {
		return Submission{}, fault.New("actors.start", fault.Conflict, "job %s has SUCCEEDED, its model is %s: start another one under an id of its own", id, result.GetModel())
	}
	if err := c.probeStore(ctx); err != nil {
		return Submission{}, err
	}
	life := uint64(0)
	if !isNew {
		if life, err = c.request(ctx, id, &messages.StoredRequest{Resume: true, Parallelism: n, AfterIncarnation: stored.incarnation}); err != nil {
			return Submission{}, err
		}
	}
	return c.goOn(ctx, stored, n, life, c.rim.Now())
}

// createJob puts a new job into the store.
func (c *Company) createJob(ctx context.Context, id string, asked *messages.TrainTask, n uint32) (*StoredJob, error) {
	t, err := c.storedTask(ctx, asked)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		t.Options.DefaultParallelism = n
		if t, err = task.Resolve(t); err != nil {
			return nil, err
		}
	}
	stored := &messages.StoredTask{Origin: originStandalone, SubmittedMs: c.jobs.now(), Task: t}
	if err := c.jobs.put(ctx, id, stored); err != nil {
		return nil, err
	}
	return &StoredJob{ID: id, Origin: stored.GetOrigin(), Task: t, submittedMs: stored.GetSubmittedMs()}, nil
}

// isSame refuses to go on with a job that has another task than what is asked.
// With how many functions it began does not count, nor what the catalogs had
// then.
func isSame(stored *StoredJob, asked *messages.TrainTask) error {
	resolved, err := task.Resolve(asked)
	if err != nil {
		return err
	}
	had, wants := asAsked(stored.Task), asAsked(resolved)
	had.Options.DefaultParallelism, wants.Options.DefaultParallelism = 0, 0
	if proto.Equal(had, wants) {
		return nil
	}
	return fault.New("actors.start", fault.Conflict, "job %s of %s is in the store and has another task: give each task an id of its own",
		stored.ID, time.UnixMilli(stored.submittedMs).UTC().Format(time.RFC3339))
}

// SetParallelism implements train.Standalone. A node that goes on with the job
// later finds N in its state.
func (c *Company) SetParallelism(ctx context.Context, id string, n uint32) error {
	return c.setParallelism(ctx, &messages.SetParallelism{JobId: id, Parallelism: n})
}

func (c *Company) setParallelism(ctx context.Context, what *messages.SetParallelism) error {
	_, err := command[*messages.SetParallelismReply](ctx, c, c.tree.Scheduler, what)
	return err
}
