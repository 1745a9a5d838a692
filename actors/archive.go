package actors

import (
	"context"
	"os"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// Archive is what a store knows of its jobs, for those who run none. It is safe
// for concurrent use, beside companies on the same store.
type Archive struct {
	catalog *job.Catalog
	owner   job.Owner
	url     string
}

// NewArchive returns the archive of a store, which stays the caller's to close.
func NewArchive(bucket store.Store) *Archive {
	return &Archive{catalog: job.New(bucket), owner: job.Owner{Node: "archive", Boot: newID(), PID: os.Getpid()}, url: bucket.URL("")}
}

// Job returns a job. NotFound; Corrupt; Unavailable.
func (a *Archive) Job(ctx context.Context, id string) (*messages.JobView, error) {
	stored, err := PeekJob(ctx, a.catalog, id)
	if err != nil {
		return nil, err
	}
	return stored.view(), nil
}

// AllJobs returns every job, oldest first. One that cannot be read is left out.
func (a *Archive) AllJobs(ctx context.Context) ([]*messages.JobView, error) {
	return allJobs(ctx, a.catalog, a.Job)
}

// DeleteJob forgets a job that nobody runs: its history and logs, not its model.
// NotFound; Conflict: somebody does, or a server is to go on with it.
func (a *Archive) DeleteJob(ctx context.Context, id string) error {
	v, err := a.Job(ctx, id)
	if err != nil {
		return err
	}
	return deleteJob(ctx, a.catalog, a.owner, v)
}

func allJobs(ctx context.Context, catalog *job.Catalog, look func(context.Context, string) (*messages.JobView, error)) ([]*messages.JobView, error) {
	ids, err := catalog.IDs(ctx)
	if err != nil {
		return nil, err
	}
	var views []*messages.JobView
	for _, id := range ids {
		v, err := look(ctx, id)
		switch kind := fault.KindOf(err); {
		case err == nil:
			views = append(views, v)
		case kind == fault.NotFound || kind == fault.Corrupt: // gone meanwhile, or damaged
		default:
			return nil, err
		}
	}
	return views, nil
}

// deleteJob deletes a job that has ended, or was of run and lost its process.
func deleteJob(ctx context.Context, catalog *job.Catalog, owner job.Owner, v *messages.JobView) error {
	const op = "actors.delete"
	id := v.GetId()
	if v.GetResult() == nil && v.GetOrigin() == originServer {
		return fault.New(op, fault.Conflict, "job %s has not ended: stop it first", id)
	}
	if v.GetResult() == nil {
		claim, _, err := catalog.Claim(ctx, id, owner, job.Sighting{})
		if err != nil {
			return fault.New(op, fault.KindOf(err), "job %s has not ended: %w", id, err)
		}
		defer func() { _ = claim.Release() }() // what it claims is gone
	}
	return catalog.Delete(ctx, id)
}
