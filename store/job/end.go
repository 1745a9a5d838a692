package job

import (
	"context"
	"encoding/json"
	"path"
	"strings"

	"github.com/troupe-ml/troupe/internal/failpoint"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// End makes doc the job's last state: nobody goes on from it, and no file of the
// job is needed any more. It writes doc as state.json, then in place of the state
// before, so that two are there as always; then it removes all files, and what
// lower incarnations left but their claims and events. What cannot be removed, or
// is left by a process that is killed in the middle, is for Clear.
//
// Errors and repeats are Save's. After an error the job may have ended, or not:
// End may be repeated, and a Save takes the end back.
func (c *Claim) End(ctx context.Context, doc json.RawMessage) error {
	const op = "job.end"
	if err := checkSources(op, doc, nil); err != nil {
		return err
	}
	c.saves.Lock()
	defer c.saves.Unlock()
	if err := c.end(ctx, op, doc); err != nil {
		return fault.New(op, fault.KindOf(err), "end job %s: %w", c.id, err)
	}
	return nil
}

func (c *Claim) end(ctx context.Context, op string, doc json.RawMessage) error {
	ctx, err := c.beginSave(ctx, "job.end.begin")
	if err != nil {
		return err
	}
	object, err := encode(body{Job: c.id, Incarnation: c.Incarnation(), Files: []File{}, Doc: doc})
	if err != nil {
		return fault.New(op, fault.Invalid, "state: %w", err)
	}
	last := saved{object: object}
	if err := c.putState(ctx, stateName, &c.saves.state, last); err != nil {
		return err
	}
	if err := c.passIfOwner(ctx, "job.end.state"); err != nil {
		return err
	}
	if err := c.putState(ctx, previousName, &c.saves.previous, last); err != nil {
		return err
	}
	c.prune(ctx)
	return passFault(failpoint.Pass("job.end.end"))
}

// Clear removes what an owner that was killed as it ended the job has left: the
// files of all incarnations below the claim's, and the states that name some.
// Conflict: there is a higher claim, or the newest state names files, so that
// somebody may go on from it.
func (c *Claim) Clear(ctx context.Context) error {
	const op = "job.clear"
	wrap := func(err error) error { return fault.New(op, fault.KindOf(err), "clear job %s: %w", c.id, err) }
	ctx, _, err := store.Pin(ctx, c.catalog.store)
	if err == nil {
		err = c.own.Check(ctx)
	}
	if err != nil {
		return wrap(err)
	}
	state, err := c.catalog.Peek(ctx, c.id)
	if err != nil {
		return wrap(err)
	}
	if state == nil || len(state.Files) > 0 {
		return fault.New(op, fault.Conflict, "clear job %s: its newest state can be gone on from", c.id)
	}
	below, err := c.catalog.below(ctx, c.id, c.Incarnation())
	if err != nil {
		return wrap(err)
	}
	for _, o := range below { // states come before files
		if o.Key == key(c.id, state.Incarnation, stateName) || o.Key == key(c.id, state.Incarnation, previousName) && c.isEnd(ctx, o.Key, state) {
			continue
		}
		if err := c.catalog.remove(ctx, o.Key); err != nil {
			return wrap(err)
		}
	}
	return nil
}

// isEnd reports whether a state under that key names no files, as the last does.
func (c *Claim) isEnd(ctx context.Context, k string, last *State) bool {
	state, err := c.catalog.load(ctx, c.id, last.Incarnation, path.Base(k), noCheck)
	return err == nil && state != nil && len(state.Files) == 0
}

// HasFiles reports whether any incarnation of a job has files.
func (c *Catalog) HasFiles(ctx context.Context, id string) (bool, error) {
	const op = "job.files"
	if err := checkID(op, id); err != nil {
		return false, err
	}
	for o, err := range c.store.List(ctx, incarnationsFolder(id)) {
		if err != nil {
			return false, fault.New(op, fault.KindOf(err), "files of job %s: %w", id, err)
		}
		if strings.HasSuffix(o.Key, fileExt) {
			return true, nil
		}
	}
	return false, nil
}
