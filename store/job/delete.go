package job

import (
	"context"
	"path"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/claim"
)

// Delete removes all that the store has of a job; its model is another
// catalog's. The task goes first: without it there is no such job, for Task,
// Claim, AddRequest and whoever lists, whatever is left behind it. The claims
// go last, so that an owner which nobody knew of is told as long as may be.
//
// After an error Delete may be repeated. Deleting what is not there is no error.
// Whether a job may be deleted, as one that runs should not, is the caller's to
// know.
func (c *Catalog) Delete(ctx context.Context, id string) error {
	const op = "job.delete"
	if err := checkID(op, id); err != nil {
		return err
	}
	wrap := func(err error) error { return fault.New(op, fault.KindOf(err), "delete job %s: %w", id, err) }
	var keys []string
	for o, err := range c.store.List(ctx, jobFolder(id)) {
		if err != nil {
			return wrap(err)
		}
		keys = append(keys, o.Key)
	}
	for _, k := range deletionOrder(id, keys) {
		if err := c.store.Delete(ctx, k); err != nil {
			return wrap(err)
		}
	}
	return nil
}

// deletionOrder sorts the keys of a job: its task, states before the files that
// they name, and claims at the end.
func deletionOrder(id string, keys []string) []string {
	rank := func(k string) int {
		switch path.Base(k) {
		case path.Base(taskKey(id)):
			return 0
		case stateName, previousName:
			return 1
		case claim.Name:
			return 3
		}
		return 2
	}
	slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
	return keys
}
