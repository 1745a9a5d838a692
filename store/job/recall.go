package job

import (
	"context"
	"io"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// recall finds out what is there in a store that has taken the place of the one
// that the claim knew: a copy may lack what was saved since, and then it is not
// named, but saved anew. The task comes back, too, so that the job can be found.
func (c *Claim) recall(ctx context.Context, life uint64) error {
	if life == c.saves.life {
		return nil
	}
	err := c.catalog.store.PutIfAbsent(ctx, taskKey(c.id), func(w io.Writer) error {
		_, err := w.Write(c.task)
		return err
	})
	if err != nil && fault.KindOf(err) != fault.Conflict {
		return err
	}
	found := map[string]File{}
	for o, err := range c.catalog.store.List(ctx, c.key("")) {
		if err != nil {
			return err
		}
		if name := o.Key[len(c.key("")):]; checkName("job.recall", name) == nil {
			found[name] = File{Name: name, Bytes: -1}
		}
	}
	state, err := c.whole(ctx, stateName)
	if err != nil {
		return err
	}
	previous, err := c.whole(ctx, previousName)
	if err != nil {
		return err
	}
	for _, f := range slices.Concat(state.files, previous.files) {
		found[f.Name] = f
	}
	c.saves.life, c.saves.files, c.saves.state, c.saves.previous, c.saves.alone = life, found, state, previous, false
	return nil
}

// whole returns the state under that name, if it is whole with its files.
func (c *Claim) whole(ctx context.Context, name string) (saved, error) {
	state, err := c.catalog.load(ctx, c.id, c.Incarnation(), name, c.catalog.verify)
	if kind := fault.KindOf(err); err != nil && kind != fault.Corrupt {
		return saved{}, err
	}
	if err != nil || state == nil {
		return saved{}, nil
	}
	object, err := store.Read(ctx, c.catalog.store, c.key(name), maxState)
	return saved{object: object, files: state.Files}, err
}
