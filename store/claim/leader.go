package claim

import (
	"context"
	"path"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// leaderPrefix is that of the terms of a store.
const leaderPrefix = "leader/"

// leadership is the right to run a store's jobs.
func leadership(s store.Store) Subject {
	return Subject{Prefix: leaderPrefix, Name: "the store " + s.URL(""), Number: "term"}
}

// Leader says who leads the servers of the store, or did last.
func (r *Register) Leader(ctx context.Context) (Sighting, error) {
	return r.Look(ctx, leadership(r.store))
}

// Lead makes a server the leader of the store's next term, as Take does.
// Conflict: another server has this store open, naming it.
func (r *Register) Lead(ctx context.Context, owner Owner, stale Sighting) (*Claim, Sighting, error) {
	what := leadership(r.store)
	claim, seen, err := r.Take(ctx, what, owner, stale)
	if fault.KindOf(err) == fault.Conflict {
		return nil, seen, fault.New("claim.lead", fault.Conflict,
			"%s is open in another server: %s, term %d: use that one, stop it, or give another store", what.Name, seen.Who(), seen.Number)
	}
	if err == nil {
		r.tidy(ctx, what, claim.number)
	}
	return claim, seen, err
}

// tidy removes the beats and locks of lower numbers, which are of use to nobody
// any more. So it may fail: the next one tries again.
func (r *Register) tidy(ctx context.Context, what Subject, n uint64) {
	for o, err := range r.store.List(ctx, what.Prefix) {
		if err != nil {
			return
		}
		number, ok := ParseNumber(path.Base(path.Dir(o.Key)))
		if ok && number < n && IsLeftover(path.Base(o.Key)) {
			_ = r.store.Delete(ctx, o.Key)
		}
	}
}
