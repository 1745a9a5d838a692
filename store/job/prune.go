package job

import (
	"bytes"
	"context"
	"path"
	"slices"
	"sync"

	"github.com/troupe-ml/troupe/internal/failpoint"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/claim"
)

// saves is what a claim knows of its own folder, to which nobody else writes.
type saves struct {
	sync.Mutex
	life     uint64          // of the store that this is about: see store.Pin
	files    map[string]File // that may be there; Bytes -1: not known to be whole
	state    saved           // state.json
	previous saved           // previous.json
	alone    bool            // lower incarnations are pruned
}

// saved is a state in the store.
type saved struct {
	object []byte // nil: none
	files  []File
	tried  *saved // what may be there instead: its write failed. nil: nothing
}

// is reports whether the store is known to hold that object.
func (s *saved) is(object []byte) bool { return s.tried == nil && bytes.Equal(s.object, object) }

// settle finds out what is there after a write that failed.
func (s *saved) settle(ctx context.Context, c *Catalog, key string) {
	if s.tried == nil {
		return
	}
	switch object, err := store.Read(ctx, c.store, key, maxState); {
	case err == nil && bytes.Equal(object, s.tried.object):
		*s = *s.tried
	case err == nil && bytes.Equal(object, s.object), fault.KindOf(err) == fault.NotFound && s.object == nil:
		s.tried = nil
	}
}

// before chooses what previous.json is to be beside next: the newest state;
// but the one before that if it shares fewer files with next, as when a job
// saves again before its model has changed. One damaged file shall not cost
// both.
func (s *saves) before(next saved) saved {
	if s.previous.object != nil && shared(next, s.previous) < shared(next, s.state) {
		return s.previous
	}
	return s.state
}

// shared counts the files that two states have in common.
func shared(a, b saved) int {
	names, n := map[string]bool{}, 0
	for _, f := range a.files {
		names[f.Name] = true
	}
	for _, f := range b.files {
		if names[f.Name] {
			n++
		}
	}
	return n
}

// pruneAhead makes room before a Save: what an earlier one wrote that failed
// before its state was there.
func (c *Claim) pruneAhead(ctx context.Context, next []Source) {
	if c.saves.state.tried != nil {
		return // that state may be there
	}
	keep := map[string]bool{}
	for _, f := range next {
		keep[f.Name] = true
	}
	c.pruneOwn(ctx, keep)
}

// prune removes what nobody needs beside the two states. Only the owner may:
// a later one loads after it has claimed, and then finds what these two name.
func (c *Claim) prune(ctx context.Context) {
	c.pruneOwn(ctx, map[string]bool{})
	if c.saves.previous.object != nil && !c.saves.alone {
		c.saves.alone = c.catalog.pruneBelow(ctx, c.id, c.Incarnation()) == nil
	}
}

// pruneOwn removes the files of this claim that are not in keep, nor in one of
// the two states. keep becomes all of these.
func (c *Claim) pruneOwn(ctx context.Context, keep map[string]bool) {
	for _, s := range []saved{c.saves.state, c.saves.previous} {
		for _, f := range s.files {
			keep[f.Name] = true
		}
	}
	for name := range c.saves.files {
		if !keep[name] && c.catalog.remove(ctx, c.key(name)) == nil {
			delete(c.saves.files, name)
		}
	}
}

// pruneBelow removes what the incarnations below n left.
func (c *Catalog) pruneBelow(ctx context.Context, id string, n uint64) error {
	objects, err := c.below(ctx, id, n)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.remove(ctx, o.Key); err != nil {
			return err
		}
	}
	return nil
}

// below returns what the incarnations below n left, but for their claims, which
// keep the numbers taken, and their events, which are history: in the order in
// which it may go.
func (c *Catalog) below(ctx context.Context, id string, n uint64) ([]store.Object, error) {
	numbers, err := c.incarnations(ctx, id)
	if err != nil {
		return nil, err
	}
	var objects []store.Object
	for _, lower := range numbers {
		if lower >= n {
			break
		}
		var states, rest []store.Object
		for o, err := range c.store.List(ctx, key(id, lower, "")) {
			if err != nil {
				return nil, err
			}
			switch name := path.Base(o.Key); {
			case isState(name):
				states = append(states, o)
			case claim.IsLeftover(name), isOfState(name):
				rest = append(rest, o)
			}
		}
		objects = slices.Concat(objects, states, rest) // no state shall name what is gone
	}
	return objects, nil
}

// Leftovers returns what incarnations of a job left that nobody needs, as a
// higher one has two whole states: in the order in which it may go. Its owner
// has removed it, but for what a lower one wrote after that.
func (c *Catalog) Leftovers(ctx context.Context, id string) ([]store.Object, error) {
	const op = "job.leftovers"
	if err := checkID(op, id); err != nil {
		return nil, err
	}
	wrap := func(err error) error { return fault.New(op, fault.KindOf(err), "leftovers of job %s: %w", id, err) }
	numbers, err := c.incarnations(ctx, id)
	if err != nil {
		return nil, wrap(err)
	}
	for _, n := range slices.Backward(numbers) {
		whole := 0
		for _, name := range []string{stateName, previousName} {
			state, err := c.load(ctx, id, n, name, noCheck)
			if kind := fault.KindOf(err); err != nil && kind != fault.Corrupt {
				return nil, wrap(err)
			}
			if state != nil {
				whole++
			}
		}
		if whole == 2 {
			objects, err := c.below(ctx, id, n)
			if err != nil {
				return nil, wrap(err)
			}
			return objects, nil
		}
	}
	return nil, nil
}

func (c *Catalog) remove(ctx context.Context, key string) error {
	if err := failpoint.Pass("job.prune"); err != nil {
		return fault.New("job.prune", fault.Unavailable, "%w", err)
	}
	return c.store.Delete(ctx, key)
}
