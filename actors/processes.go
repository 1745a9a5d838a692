package actors

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/jobprocess"
	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/job"
)

// Foreseen is what the store has of a job that a process of its own is to own.
type Foreseen struct {
	Incarnation uint64              // the next one, which that will claim
	Reached     uint64              // as OwnedJob has it
	Ended       *messages.JobResult // likewise
}

// Foresee is Own for a job that another process of this machine is to own: that
// can claim it at once. What this node owned ahead it lets go of. The next
// incarnation is above those that the start calls over. Errors are those of Own.
func (j *Jobs) Foresee(ctx context.Context, id string, start *messages.StartJob) (*Foreseen, job.Sighting, error) {
	if owned := j.take(id); owned != nil {
		owned.Release()
	}
	if err := j.create(ctx, id, start.GetTask(), j.now()); err != nil {
		return nil, job.Sighting{}, err
	}
	last, err := j.catalog.Look(ctx, id)
	if err != nil {
		return nil, job.Sighting{}, err
	}
	for last.Incarnation < start.GetAfterIncarnation() { // an end was told under a number that nobody claimed
		owned, seen, err := j.claim(ctx, id, job.Sighting{})
		if err != nil {
			return nil, seen, err
		}
		last.Incarnation = owned.Incarnation()
		owned.Release()
	}
	stored, err := PeekJob(ctx, j.catalog, id)
	if err != nil {
		return nil, job.Sighting{}, err
	}
	return &Foreseen{last.Incarnation + 1, stored.State.GetModelVersion(), stored.State.GetResult()}, job.Sighting{}, nil
}

// inProcess has a job run in a process of its own, as the ParameterServer sees it.
func inProcess(t *Tree, d TreeDeps) func(string, *messages.StartJob, job.Sighting) (*paramserver.Owned, job.Sighting, error) {
	deps := jobprocess.Deps{
		Log: d.Log, Rim: d.Rim, Launch: d.Processes.Launch, Options: d.Options,
		Scheduler: d.places(t).scheduler,
		Journal:   d.places(t).journal,
		Host:      func() *actor.PID { return t.Host },
	}
	return func(id string, start *messages.StartJob, _ job.Sighting) (*paramserver.Owned, job.Sighting, error) {
		next, seen, err := d.Jobs.Foresee(context.Background(), id, start)
		if err != nil {
			return nil, seen, err
		}
		return &paramserver.Owned{
			Incarnation: next.Incarnation, Reached: next.Reached, Ended: next.Ended,
			Job: func(ref *messages.JobRef, start *messages.StartJob) *actor.Props {
				return jobprocess.Props(ref, start, deps)
			},
			Release: func() { d.Processes.End(id) },
			Discard: func() {}, // what the process has left goes with it
		}, job.Sighting{}, nil
	}
}

// openProcesses makes the launcher of a node whose jobs have processes of their
// own; nil: they have not.
func (c *Company) openProcesses(cfg Config) (*jobprocess.Launcher, error) {
	switch {
	case cfg.Node.Jobs != config.JobsInProcesses:
		return nil, nil
	case cfg.JobCommand == nil:
		return nil, fault.New("actors.start", fault.Invalid, "jobs %s: there is no command that runs one", cfg.Node.Jobs)
	}
	return jobprocess.NewLauncher(cfg.Log, cfg.JobCommand, func() { plane.Sweep(cfg.Node.Scratch, c.warn) }), nil
}
