package claim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/troupe-ml/troupe/internal/failpoint"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	// Name is that of a claim below its number.
	Name = "claim"

	beatName   = "beat"
	lockPrefix = "lock-" // and the token of the claim

	// released is what the last beat of an owner says that is done with it. Any other
	// means something only if it changes.
	released = "released"

	maxClaim = 64 << 10 // bytes
	maxBeat  = 1 << 10  // bytes

	// maxNumber is beyond what owners that follow each other can come to, a
	// second apart: a higher number is none of theirs, and has no next one.
	maxNumber = 1_000_000_000
)

// IsLeftover reports whether an object of that name below a number serves its
// owner alone, and nobody once there is a higher claim: a beat, a lock.
func IsLeftover(name string) bool { return name == beatName || strings.HasPrefix(name, lockPrefix) }

// Subject is what can be owned.
type Subject struct {
	Prefix string // of its numbers, ending with "/"
	Name   string // for people: "job 01abc"
	Number string // what its numbers are called: "incarnation"
	// IsOwners reports whether an object of that name below a number is one that
	// its owner alone writes, besides beats; nil: none is.
	IsOwners func(name string) bool
}

// Owner is who owns it.
type Owner struct {
	Node    string `json:"node"`              // name of the node
	Boot    string `json:"boot"`              // a life of that node
	PID     int    `json:"pid"`               //
	Address string `json:"address,omitempty"` // where it can be reached, empty if nowhere
}

// Register gives access to the claims of a store. It is safe for concurrent
// use, beside other processes too. A process has one for a subject: what its
// owners gave up is remembered here.
type Register struct {
	store store.Store

	mu      sync.Mutex
	givenUp map[string]givenUp // by prefix: the highest claim that was
}

// givenUp names a claim whose owner, in this process, is done with it.
type givenUp struct {
	number uint64
	token  string
}

// New returns the register of a store, which stays the caller's to close.
func New(s store.Store) *Register { return &Register{store: s, givenUp: map[string]givenUp{}} }

// document is what a claim says. It is never edited.
type document struct {
	Owner
	// Token tells this claim from any other attempt at the same number.
	Token string `json:"token"`
	// Locked: the owner held an flock on lock-<token> before this claim could
	// be seen, and holds it as long as it lives.
	Locked bool `json:"locked"`
}

// Take makes owner the owner of the next number if there was none yet, or the
// last one is gone: its flock is free, or its Claim was released, or stale is what
// is seen now. A caller may pass as stale only what it has seen unchanged for the
// time that a live owner may be silent, by its own clock; the zero Sighting: nothing.
//
// Otherwise it is a Conflict that names the owner, with what is seen of it. The
// owner of a claim that is damaged or missing is gone by the same signs.
// Take does not wait: callers poll. Of several callers at most one becomes the
// owner, and one does unless the store fails. Corrupt: there is a claim of a
// number that nobody can have come to; it names the folder.
//
// The Sighting on success is that of the new owner.
func (r *Register) Take(ctx context.Context, what Subject, owner Owner, stale Sighting) (*Claim, Sighting, error) {
	const op = "claim.take"
	ctx, life, err := store.Pin(ctx, r.store)
	if err != nil {
		return nil, Sighting{}, fault.New(op, fault.KindOf(err), "claim %s: %w", what.Name, err)
	}
	for {
		seen, last, err := r.look(ctx, what)
		if err != nil {
			return nil, Sighting{}, err
		}
		if seen.Number > 0 && seen != stale {
			gone, err := r.isGone(ctx, what, seen, last)
			if err != nil {
				return nil, Sighting{}, wrapLook(what, err)
			}
			now, _, err := r.look(ctx, what)
			switch {
			case err != nil:
				return nil, Sighting{}, err
			case now.Number != seen.Number:
				continue // it was followed meanwhile, and its lock may have gone with that
			case !gone:
				return nil, now, heldBy(op, what, now)
			}
		}
		claim, err := r.take(ctx, what, seen.Number+1, owner)
		switch {
		case fault.KindOf(err) == fault.Conflict: // another has got it, and may be gone by now
			switch now, _, err := r.look(ctx, what); {
			case err != nil:
				return nil, Sighting{}, err
			case now.Number <= seen.Number:
				return nil, Sighting{}, fault.New(op, fault.Unavailable, "claim %s: %s %d is taken, and the store does not show by whom", what.Name, what.Number, seen.Number+1)
			}
			continue
		case err != nil:
			return nil, Sighting{}, fault.New(op, fault.KindOf(err), "claim %s: %w", what.Name, err)
		}
		claim.follows, claim.place.life = seen, life
		return claim, Sighting{Number: claim.number, Owner: owner}, nil
	}
}

// take creates the claim n. The lock comes first: a claim that can be seen is
// that of an owner who holds its lock, or is dead. Each attempt has a lock of
// its own, so that one that stops between the two is in nobody's way.
func (r *Register) take(ctx context.Context, what Subject, n uint64, owner Owner) (*Claim, error) {
	doc := document{Owner: owner, Token: newToken()}
	l, err := r.newLock(ctx, what, n, doc.Token)
	if err != nil {
		return nil, err
	}
	doc.Locked = l != nil
	if err = passFault(failpoint.Pass("claim.locked")); err == nil {
		err = r.put(ctx, what, n, doc)
	}
	if err == nil {
		err = passFault(failpoint.Pass("claim.claimed"))
	}
	if err != nil {
		_ = l.release()
		if fault.KindOf(err) == fault.Conflict || r.lacks(ctx, what, n) { // so nobody asks for our lock
			_ = r.store.Delete(ctx, what.key(n, lockPrefix+doc.Token))
		} else { // the claim may be there all the same
			r.giveUp(what, n, doc.Token)
		}
		return nil, err
	}
	r.dropLocks(ctx, what, n, doc.Token)
	return &Claim{register: r, what: what, number: n, doc: doc, lock: l}, nil
}

// lacks reports whether the store is known not to have a claim of that number.
func (r *Register) lacks(ctx context.Context, what Subject, n uint64) bool {
	_, err := r.store.Stat(ctx, what.key(n, Name))
	return fault.KindOf(err) == fault.NotFound
}

func (r *Register) put(ctx context.Context, what Subject, n uint64, doc document) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return fault.New("claim.take", fault.Invalid, "owner: %w", err)
	}
	return r.store.PutIfAbsent(ctx, what.key(n, Name), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// dropLocks removes the locks of those who tried for the same number. It
// matters to nobody, so it may fail.
func (r *Register) dropLocks(ctx context.Context, what Subject, n uint64, token string) {
	prefix := what.key(n, lockPrefix)
	for o, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return
		}
		if o.Key != prefix+token {
			_ = r.store.Delete(ctx, o.Key)
		}
	}
}

// giveUp remembers that the owner of a claim is done with it.
func (r *Register) giveUp(what Subject, n uint64, token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n >= r.givenUp[what.Prefix].number {
		r.givenUp[what.Prefix] = givenUp{n, token}
	}
}

// key is that of an object below a number.
func (s Subject) key(n uint64, name string) string {
	return s.Prefix + strconv.FormatUint(n, 10) + "/" + name
}

func heldBy(op string, what Subject, s Sighting) error {
	return fault.New(op, fault.Conflict, "%s is owned, as %s %d, by %s", what.Name, what.Number, s.Number, s.Who())
}

// passFault gives what a failpoint answers the kind that a store would.
func passFault(err error) error {
	if err != nil {
		return fault.New("claim.take", fault.Unavailable, "%w", err)
	}
	return nil
}

func newToken() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
