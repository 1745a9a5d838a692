package claim

import (
	"context"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Claim is the right to something under a number. It is safe for concurrent
// use.
type Claim struct {
	register *Register
	what     Subject
	number   uint64
	doc      document
	follows  Sighting

	beats struct {
		sync.Mutex
		n uint64 // written or tried
	}

	place struct {
		sync.Mutex
		life uint64 // of the store, which has the claim: see store.Pin
	}

	mu       sync.Mutex // guards what follows
	lock     *lock      // nil: the store has none
	released bool
}

// Number is that of the claim, from 1.
func (c *Claim) Number() uint64 { return c.number }

// Follows is what was last seen of the owner before; Number 0: there was none.
func (c *Claim) Follows() Sighting { return c.follows }

// Beat tells those who watch that the owner lives. Conflict: there is a higher
// claim, or this one was released. In a store that took another's place the
// claim is made anew, see Check.
func (c *Claim) Beat(ctx context.Context) error {
	if err := c.Check(ctx); err != nil {
		return err
	}
	c.beats.Lock()
	defer c.beats.Unlock()
	if err := c.held(); err != nil { // its last beat says so, and stays
		return err
	}
	c.beats.n++ // even if it fails: it may have come through
	if err := c.beat(ctx, strconv.FormatUint(c.beats.n, 10)); err != nil {
		return fault.New("claim.beat", fault.KindOf(err), "beat of %s: %w", c.what.Name, err)
	}
	return c.Check(ctx)
}

func (c *Claim) beat(ctx context.Context, says string) error {
	return c.register.store.Put(ctx, c.what.key(c.number, beatName), func(w io.Writer) error {
		_, err := io.WriteString(w, says)
		return err
	})
}

// held returns a Conflict if the claim was released.
func (c *Claim) held() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return fault.New("claim.check", fault.Conflict, "%s: the claim of %s %d was released", c.what.Name, c.what.Number, c.number)
	}
	return nil
}

// Check returns a Conflict if there is a higher claim, or this one was
// released. Numbers have no gaps and claims stay, so that the next one alone
// tells; but in a store that took another's place, such as a copy of earlier,
// the claim is looked for, and made anew if nobody has its number.
func (c *Claim) Check(ctx context.Context) error {
	const op = "claim.check"
	if err := c.held(); err != nil {
		return err
	}
	if err := c.renew(ctx); err != nil {
		return fault.New(op, fault.KindOf(err), "owner of %s: %w", c.what.Name, err)
	}
	_, err := c.register.store.Stat(ctx, c.what.key(c.number+1, Name))
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return fault.New(op, fault.KindOf(err), "owner of %s: %w", c.what.Name, err)
	}
	return c.takenOver(ctx)
}

// takenOver is the Conflict that says by whom.
func (c *Claim) takenOver(ctx context.Context) error {
	const op = "claim.check"
	now, err := c.register.Look(ctx, c.what)
	if err != nil { // who it is can wait; that it is not ours cannot
		return fault.New(op, fault.Conflict, "%s was taken over from %s %d", c.what.Name, c.what.Number, c.number)
	}
	return now.TakenOver(op, c.what)
}

// farewellFor is how long a store may take to be told that a claim is released.
const farewellFor = 2 * time.Second

// Release gives it up: anybody may claim it at once. Where the store does not take
// that, or not in two seconds, those in other processes who cannot see the lock have
// to watch the beat. A second call does nothing.
func (c *Claim) Release() error {
	c.mu.Lock()
	if c.released {
		c.mu.Unlock()
		return nil
	}
	c.released = true
	c.register.giveUp(c.what, c.number, c.doc.Token)
	c.mu.Unlock()
	c.farewell()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lock.release()
}

// farewell is the last beat, for those who cannot see the lock. One that is over has
// none: nobody looks at it.
func (c *Claim) farewell() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellFor)
	defer cancel()
	c.beats.Lock()
	defer c.beats.Unlock()
	if _, err := c.register.store.Stat(ctx, c.what.key(c.number+1, Name)); fault.KindOf(err) == fault.NotFound {
		_ = c.beat(ctx, released) // at worst they wait
	}
}
