package job

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"strconv"
	"sync"

	"github.com/troupe-ml/troupe/internal/failpoint"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	claimName  = "claim"
	beatName   = "beat"
	lockPrefix = "lock-" // and the token of the claim

	maxClaim = 64 << 10 // bytes
	maxBeat  = 1 << 10  // bytes
)

// Owner is who runs a job.
type Owner struct {
	Node string `json:"node"` // name of the node
	Boot string `json:"boot"` // a life of that node
	PID  int    `json:"pid"`
}

// Sighting is what others see of a job's owner. While two of them are equal
// the owner gave no sign of life in between.
type Sighting struct {
	Incarnation uint64 // 0: never claimed
	Owner       Owner  // zero: its claim is damaged
	Beat        string // last sign of life: means something only if it changes
}

// claimDoc is what a claim says. It is never edited.
type claimDoc struct {
	Owner
	// Token tells this claim from any other attempt at the same number.
	Token string `json:"token"`
	// Locked: the owner held an flock on lock-<token> before this claim could
	// be seen, and holds it as long as it lives.
	Locked bool `json:"locked"`
}

// Claim is the right to a job's state under an incarnation. It is safe for
// concurrent use.
type Claim struct {
	catalog     *Catalog
	id          string
	incarnation uint64
	token       string
	lock        *lock // nil: the store has none

	beats struct {
		sync.Mutex
		n uint64 // written or tried
	}
	saves saves // guards itself

	mu       sync.Mutex
	released bool
}

// Look says who owns a job, or did last. Incarnation 0: nobody ever.
func (c *Catalog) Look(ctx context.Context, id string) (Sighting, error) {
	seen, _, err := c.look(ctx, "job.look", id)
	return seen, err
}

// Claim makes owner the owner of the job's next incarnation if there was none
// yet, or the last one is gone: its flock is free, or its Claim was released in
// this process, or stale is what is seen now. A caller may pass as stale only
// what it has seen unchanged for the time that a live owner may be silent, by
// its own clock; the zero Sighting: nothing.
//
// Otherwise it is a Conflict that names the owner, with what is seen of it.
// Claim does not wait: callers poll. Of several callers at most one becomes the
// owner, and one does unless the store fails. NotFound: no such job.
//
// The Sighting on success is that of the new owner.
func (c *Catalog) Claim(ctx context.Context, id string, owner Owner, stale Sighting) (*Claim, Sighting, error) {
	const op = "job.claim"
	seen, last, err := c.look(ctx, op, id)
	if err != nil {
		return nil, Sighting{}, err
	}
	if _, err := c.store.Stat(ctx, taskKey(id)); fault.KindOf(err) == fault.NotFound {
		return nil, Sighting{}, c.noJob(op, id)
	} else if err != nil {
		return nil, Sighting{}, fault.New(op, fault.KindOf(err), "claim job %s: %w", id, err)
	}
	if seen.Incarnation > 0 && seen != stale && !c.isGone(id, seen.Incarnation, last) {
		return nil, seen, heldBy(op, id, seen)
	}
	claim, err := c.take(ctx, id, seen.Incarnation+1, owner)
	if fault.KindOf(err) == fault.Conflict {
		seen, _, lerr := c.look(ctx, op, id)
		if lerr != nil {
			return nil, Sighting{}, lerr
		}
		return nil, seen, heldBy(op, id, seen)
	}
	if err != nil {
		return nil, Sighting{}, fault.New(op, fault.KindOf(err), "claim job %s: %w", id, err)
	}
	return claim, Sighting{Incarnation: claim.incarnation, Owner: owner}, nil
}

// take creates the claim n. The lock comes first: a claim that can be seen is
// that of an owner who holds its lock, or is dead. Each attempt has a lock of
// its own, so that one that stops between the two is in nobody's way.
func (c *Catalog) take(ctx context.Context, id string, n uint64, owner Owner) (*Claim, error) {
	doc := claimDoc{Owner: owner, Token: newToken()}
	l, err := c.newLock(ctx, id, n, doc.Token)
	if err != nil {
		return nil, err
	}
	doc.Locked = l != nil
	if err = passFault(failpoint.Pass("job.claim.locked")); err == nil {
		err = c.putClaim(ctx, id, n, doc)
	}
	if err == nil {
		err = passFault(failpoint.Pass("job.claim.claimed"))
	}
	if err != nil {
		_ = l.release()
		if fault.KindOf(err) == fault.Conflict { // the number is another's: so nobody asks for our lock
			_ = c.store.Delete(ctx, key(id, n, lockPrefix+doc.Token))
		} else { // the claim may be there all the same
			c.giveUp(id, n, doc.Token)
		}
		return nil, err
	}
	c.dropLocks(ctx, id, n, doc.Token)
	return &Claim{catalog: c, id: id, incarnation: n, token: doc.Token, lock: l, saves: saves{files: map[string]File{}}}, nil
}

func (c *Catalog) putClaim(ctx context.Context, id string, n uint64, doc claimDoc) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return fault.New("job.claim", fault.Invalid, "owner: %w", err)
	}
	return c.store.PutIfAbsent(ctx, key(id, n, claimName), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// dropLocks removes the locks of those who tried for the same number. It
// matters to nobody, so it may fail.
func (c *Catalog) dropLocks(ctx context.Context, id string, n uint64, token string) {
	prefix := key(id, n, lockPrefix)
	for o, err := range c.store.List(ctx, prefix) {
		if err != nil {
			return
		}
		if o.Key != prefix+token {
			_ = c.store.Delete(ctx, o.Key)
		}
	}
}

// look finds the highest claim. A number without a claim is that of somebody
// who is just claiming it, or died over it.
func (c *Catalog) look(ctx context.Context, op, id string) (Sighting, claimDoc, error) {
	if err := checkID(op, id); err != nil {
		return Sighting{}, claimDoc{}, err
	}
	wrap := func(err error) error { return fault.New(op, fault.KindOf(err), "owner of job %s: %w", id, err) }
	numbers, err := c.incarnations(ctx, id)
	if err != nil {
		return Sighting{}, claimDoc{}, wrap(err)
	}
	for i := len(numbers) - 1; i >= 0; i-- {
		n := numbers[i]
		b, err := c.read(ctx, key(id, n, claimName), maxClaim)
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return Sighting{}, claimDoc{}, wrap(err)
		}
		var doc claimDoc
		if json.Unmarshal(b, &doc) != nil {
			doc = claimDoc{} // damaged: whoever it was, it can be watched
		}
		beat, err := c.read(ctx, key(id, n, beatName), maxBeat)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return Sighting{}, claimDoc{}, wrap(err)
		}
		return Sighting{Incarnation: n, Owner: doc.Owner, Beat: string(beat)}, doc, nil
	}
	return Sighting{}, claimDoc{}, nil
}

// isGone reports whether the owner n of a job is known to have ended.
func (c *Catalog) isGone(id string, n uint64, doc claimDoc) bool {
	if doc.Token == "" {
		return false
	}
	c.mu.Lock()
	up := c.givenUp[id]
	c.mu.Unlock()
	return up == givenUp{n, doc.Token} || doc.Locked && c.isFree(key(id, n, lockPrefix+doc.Token))
}

// giveUp remembers that the owner of a claim is done with it.
func (c *Catalog) giveUp(id string, n uint64, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n >= c.givenUp[id].incarnation {
		c.givenUp[id] = givenUp{n, token}
	}
}

func heldBy(op, id string, s Sighting) error {
	who := "an owner whose claim is damaged"
	if s.Owner != (Owner{}) {
		who = s.Owner.Node + " (pid " + strconv.Itoa(s.Owner.PID) + ")"
	}
	return fault.New(op, fault.Conflict, "job %s runs on %s, as incarnation %d: stop it there, or wait until it has ended", id, who, s.Incarnation)
}

// Incarnation is the number of the claim, from 1.
func (c *Claim) Incarnation() uint64 { return c.incarnation }

// Beat tells those who watch that the owner lives. Conflict: there is a higher
// claim, or this one was released.
func (c *Claim) Beat(ctx context.Context) error {
	const op = "job.beat"
	if err := c.check(ctx, op); err != nil {
		return err
	}
	c.beats.Lock()
	defer c.beats.Unlock()
	c.beats.n++ // even if it fails: it may have come through
	err := c.catalog.store.Put(ctx, key(c.id, c.incarnation, beatName), func(w io.Writer) error {
		_, err := io.WriteString(w, strconv.FormatUint(c.beats.n, 10))
		return err
	})
	if err != nil {
		return fault.New(op, fault.KindOf(err), "beat of job %s: %w", c.id, err)
	}
	return c.check(ctx, op)
}

// check returns a Conflict if the job is another's. Numbers have no gaps and
// claims stay, so that the next one alone tells.
func (c *Claim) check(ctx context.Context, op string) error {
	c.mu.Lock()
	released := c.released
	c.mu.Unlock()
	if released {
		return fault.New(op, fault.Conflict, "job %s: the claim of incarnation %d was released", c.id, c.incarnation)
	}
	_, err := c.catalog.store.Stat(ctx, key(c.id, c.incarnation+1, claimName))
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	if err != nil {
		return fault.New(op, fault.KindOf(err), "owner of job %s: %w", c.id, err)
	}
	return fault.New(op, fault.Conflict, "job %s was taken over from incarnation %d: this owner has to stop", c.id, c.incarnation)
}

// Release gives the job up: anybody who can see the lock, and anybody in this
// process, may claim it at once. It does not wait for a Save, whose outcome
// then is open. A second call does nothing.
func (c *Claim) Release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return nil
	}
	c.released = true
	c.catalog.giveUp(c.id, c.incarnation, c.token)
	return c.lock.release()
}

func newToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
