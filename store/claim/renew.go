package claim

import (
	"context"
	"encoding/json"
	"os"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// renew sees to it that the claim is in the store that is there now, which may
// have taken the place of the one that it was made in. A copy has the claim, but
// nobody holds the lock beside it; a copy from before has neither, and lower
// numbers may be missing in it, too. Conflict: somebody else has this number or
// a higher one.
func (c *Claim) renew(ctx context.Context) error {
	c.place.Lock()
	defer c.place.Unlock()
	ctx, life, err := store.Pin(ctx, c.register.store)
	if err != nil || life == c.place.life {
		return err
	}
	seen, _, err := c.register.look(ctx, c.what)
	if err != nil {
		return err
	}
	if seen.Number > c.number {
		return c.takenOver(ctx)
	}
	// The lock comes first, as when the claim was made.
	if err := c.relock(ctx); err != nil {
		return err
	}
	if err := c.putAt(ctx, c.number); err != nil {
		return err
	}
	there, err := store.Read(ctx, c.register.store, c.what.key(c.number, Name), maxClaim)
	if err != nil {
		return err
	}
	var doc document
	if json.Unmarshal(there, &doc) != nil || doc.Token != c.doc.Token {
		return c.takenOver(ctx)
	}
	for n := c.number - 1; n > 0; n-- { // who was overtaken looks for the next number alone
		if err := c.putAt(ctx, n); err != nil {
			return err
		}
	}
	c.place.life = life
	return nil
}

// putAt takes a number for this owner unless it is taken.
func (c *Claim) putAt(ctx context.Context, n uint64) error {
	err := c.register.put(ctx, c.what, n, c.doc)
	if fault.KindOf(err) == fault.Conflict {
		return nil
	}
	return err
}

// relock locks the lock file that is in the store now.
func (c *Claim) relock(ctx context.Context) error {
	if !c.doc.Locked || c.holdsLock() {
		return nil
	}
	l, err := c.register.newLock(ctx, c.what, c.number, c.doc.Token)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.lock
	if c.lock = l; c.released {
		before, c.lock = l, nil
	}
	_ = before.release() // nobody looks at it any more
	return nil
}

// holdsLock reports whether the lock that is held is the one in the store.
func (c *Claim) holdsLock() bool {
	path, ok := c.register.path(c.what.key(c.number, lockPrefix+c.doc.Token))
	if !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	there, err := os.Stat(path)
	if err != nil || c.lock == nil {
		return false
	}
	held, err := c.lock.file.Stat()
	return err == nil && os.SameFile(there, held)
}
