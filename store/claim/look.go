package claim

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// Sighting is what others see of an owner. While two of them are equal the
// owner gave no sign of life in between.
type Sighting struct {
	Number uint64 // 0: never claimed
	Owner  Owner  // zero: its claim is damaged
	Beat   string // last sign of life: means something only if it changes
	Damage string // names its claim, and says what is wrong with it; "": nothing is
}

// Who names the owner for people.
func (s Sighting) Who() string {
	if s.Damage != "" {
		return "a process that is not known, as " + s.Damage
	}
	who := s.Owner.Node + " (pid " + strconv.Itoa(s.Owner.PID) + ")"
	if s.Owner.Address != "" {
		who += " at " + s.Owner.Address
	}
	return who
}

// TakenOver is the Conflict that tells an earlier owner of this one.
func (s Sighting) TakenOver(op string, what Subject) error {
	if s.Damage != "" {
		return fault.New(op, fault.Conflict, "%s was taken over as %s %d by %s", what.Name, what.Number, s.Number, s.Who())
	}
	by := "pid " + strconv.Itoa(s.Owner.PID) + " (node " + s.Owner.Node + ")"
	if s.Owner.Address != "" {
		by += " at " + s.Owner.Address
	}
	return fault.New(op, fault.Conflict, "%s was taken over by %s as %s %d", what.Name, by, what.Number, s.Number)
}

// Look says who owns something, or did last. Number 0: nobody ever.
func (r *Register) Look(ctx context.Context, what Subject) (Sighting, error) {
	seen, _, err := r.look(ctx, what)
	return seen, err
}

// look finds the highest claim. A number without a claim is that of somebody
// who is just claiming it, or died over it, unless it has what only an owner
// writes: then its claim is missing. Corrupt: the highest is one that nobody can
// have come to.
func (r *Register) look(ctx context.Context, what Subject) (Sighting, document, error) {
	numbers, err := Numbers(ctx, r.store, what.Prefix)
	if err != nil {
		return Sighting{}, document{}, wrapLook(what, err)
	}
	for _, n := range slices.Backward(numbers) {
		doc, damage, err := r.read(ctx, what, n)
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err == nil && n > maxNumber {
			err = fault.New("claim.look", fault.Corrupt, "%s is no %s that %s can have come to: remove that folder",
				strings.TrimSuffix(r.store.URL(what.key(n, "")), "/"), what.Number, what.Name)
		}
		if err != nil {
			return Sighting{}, document{}, wrapLook(what, err)
		}
		beat, err := store.Read(ctx, r.store, what.key(n, beatName), maxBeat)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return Sighting{}, document{}, wrapLook(what, err)
		}
		return Sighting{Number: n, Owner: doc.Owner, Beat: string(beat), Damage: damage}, doc, nil
	}
	return Sighting{}, document{}, nil
}

// read reads a claim, or says what is wrong with it. NotFound: the number was
// never claimed.
func (r *Register) read(ctx context.Context, what Subject, n uint64) (doc document, damage string, err error) {
	name := what.key(n, Name)
	b, err := store.Read(ctx, r.store, name, maxClaim)
	if fault.KindOf(err) == fault.NotFound {
		owned, lerr := r.hasOwners(ctx, what, n)
		if owned {
			return document{}, r.store.URL(name) + " is missing", nil
		}
		return document{}, "", cmp.Or(lerr, err)
	}
	if err != nil {
		return document{}, "", err
	}
	if json.Unmarshal(b, &doc) != nil || doc.Token == "" {
		return document{}, r.store.URL(name) + " is damaged", nil // whoever it was, it can be watched
	}
	return doc, "", nil
}

// hasOwners reports whether there is anything below a number that only its
// owner writes.
func (r *Register) hasOwners(ctx context.Context, what Subject, n uint64) (bool, error) {
	prefix := what.key(n, "")
	for o, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return false, err
		}
		name := strings.TrimPrefix(o.Key, prefix)
		if name == beatName || what.IsOwners != nil && what.IsOwners(name) {
			return true, nil
		}
	}
	return false, nil
}

// isGone reports whether the owner that is seen is known to have ended. Where
// its claim does not say which lock is its own, all that there are have to be
// free.
func (r *Register) isGone(ctx context.Context, what Subject, seen Sighting, doc document) (bool, error) {
	if seen.Beat == released {
		return true, nil
	}
	if seen.Damage != "" {
		return r.allFree(ctx, what, seen.Number)
	}
	r.mu.Lock()
	up := r.givenUp[what.Prefix]
	r.mu.Unlock()
	return up == givenUp{seen.Number, doc.Token} || doc.Locked && r.isFree(what.key(seen.Number, lockPrefix+doc.Token)), nil
}

// allFree reports whether there are locks below a number, and nobody holds one.
func (r *Register) allFree(ctx context.Context, what Subject, n uint64) (bool, error) {
	free := false
	for o, err := range r.store.List(ctx, what.key(n, lockPrefix)) {
		if err != nil {
			return false, err
		}
		if free = r.isFree(o.Key); !free {
			break
		}
	}
	return free, nil
}

func wrapLook(what Subject, err error) error {
	return fault.New("claim.look", fault.KindOf(err), "owner of %s: %w", what.Name, err)
}
