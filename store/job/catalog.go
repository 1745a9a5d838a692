package job

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/claim"
)

const (
	folder  = "jobs/"
	maxTask = 16 << 20 // bytes
)

// Catalog gives access to the jobs of a store. It is safe for concurrent use,
// beside other processes too. A process has one: what its owners gave up is
// remembered here.
type Catalog struct {
	store  store.Store
	claims *claim.Register
}

// New returns the catalog of a store, which stays the caller's to close.
func New(s store.Store) *Catalog { return &Catalog{store: s, claims: claim.New(s)} }

// Create stores what was asked of a new job, once and for all. The same bytes
// again change nothing. Conflict: the id has another task, or was deleted and
// has remains; Invalid: the id, or task is no JSON.
func (c *Catalog) Create(ctx context.Context, id string, task json.RawMessage) error {
	const op = "job.create"
	if err := checkID(op, id); err != nil {
		return err
	}
	if !json.Valid(task) || len(task) > maxTask {
		return fault.New(op, fault.Invalid, "job %s: its task, of %d bytes, is no JSON of at most %d", id, len(task), maxTask)
	}
	if err := c.checkRemains(ctx, op, id); err != nil {
		return err
	}
	err := c.store.PutIfAbsent(ctx, taskKey(id), func(w io.Writer) error {
		_, err := w.Write(task)
		return err
	})
	if fault.KindOf(err) == fault.Conflict {
		there, rerr := store.Read(ctx, c.store, taskKey(id), maxTask)
		switch {
		case rerr != nil:
			err = rerr
		case bytes.Equal(there, task):
			err = nil
		default:
			return fault.New(op, fault.Conflict, "job %s exists, with another task", id)
		}
	}
	if err != nil {
		return fault.New(op, fault.KindOf(err), "create job %s: %w", id, err)
	}
	return nil
}

// checkRemains refuses a job that was deleted while some of it is left: it would
// go on from the state of another life.
func (c *Catalog) checkRemains(ctx context.Context, op, id string) error {
	numbers, err := c.incarnations(ctx, id)
	if err == nil && len(numbers) > 0 && numbers[len(numbers)-1] > 0 {
		_, err = c.store.Stat(ctx, taskKey(id))
		if fault.KindOf(err) == fault.NotFound {
			return fault.New(op, fault.Conflict, "job %s was deleted, and some of it is left: submit it anew, under another id and key", id)
		}
	}
	if err != nil {
		return fault.New(op, fault.KindOf(err), "create job %s: %w", id, err)
	}
	return nil
}

// Pin binds what is done with the catalog under the context that it returns to
// the store that is there now: see store.Pin.
func (c *Catalog) Pin(ctx context.Context) (context.Context, error) {
	ctx, _, err := store.Pin(ctx, c.store)
	return ctx, err
}

// Task returns what was asked of a job, as Create got it. NotFound; Corrupt:
// it is no JSON any more.
func (c *Catalog) Task(ctx context.Context, id string) (json.RawMessage, error) {
	const op = "job.task"
	if err := checkID(op, id); err != nil {
		return nil, err
	}
	task, err := store.Read(ctx, c.store, taskKey(id), maxTask)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil, c.noJob(op, id)
	case err != nil:
		return nil, fault.New(op, fault.KindOf(err), "task of job %s: %w", id, err)
	case !json.Valid(task):
		return nil, fault.New(op, fault.Corrupt, "%s is damaged: it is no JSON. Submit the job anew", c.store.URL(taskKey(id)))
	}
	return task, nil
}

// IDs returns the ids of all jobs, ascending: ULIDs ascend in time. One without
// a task is of a job that is being deleted, or of which something was kept
// before it was created.
func (c *Catalog) IDs(ctx context.Context) ([]string, error) {
	ids := []string{}
	for id, err := range c.store.Folders(ctx, folder) {
		if err != nil {
			return nil, fault.New("job.ids", fault.KindOf(err), "list jobs: %w", err)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids) // folders come in another order where one is the start of another
	return ids, nil
}

func (c *Catalog) noJob(op, id string) error {
	return fault.New(op, fault.NotFound, "no job %s in %s: check the id, and that this is the store it was started with", id, c.store.URL(folder))
}

// incarnations returns the numbers under which there is anything, ascending.
func (c *Catalog) incarnations(ctx context.Context, id string) ([]uint64, error) {
	return claim.Numbers(ctx, c.store, incarnationsFolder(id))
}

func jobFolder(id string) string { return folder + id + "/" }

func taskKey(id string) string { return jobFolder(id) + "task.json" }

func incarnationsFolder(id string) string { return jobFolder(id) + "incarnations/" }

// key is that of an object of an incarnation.
func key(id string, n uint64, name string) string {
	return incarnationsFolder(id) + strconv.FormatUint(n, 10) + "/" + name
}

// CheckID returns Invalid for what is no id of a job, and so no part of a key: 1
// to 64 letters, digits, _ and -.
func CheckID(id string) error { return checkID("job.check", id) }

func checkID(op, id string) error {
	if id == "" || len(id) > 64 {
		return fault.New(op, fault.Invalid, "job id %.70q has %d characters, want 1 to 64", id, len(id))
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return fault.New(op, fault.Invalid, "job id %q has the character %q: want letters, digits, _ and -", id, r)
		}
	}
	return nil
}
