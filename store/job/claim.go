package job

import (
	"context"
	"encoding/json"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/claim"
)

// Owner is who runs a job.
type Owner = claim.Owner

// Sighting is what others see of a job's owner. While two of them are equal
// the owner gave no sign of life in between.
type Sighting struct {
	Incarnation uint64 // 0: never claimed
	Owner       Owner  // zero: its claim is damaged
	Beat        string // last sign of life: means something only if it changes
	Damage      string // names its claim, and says what is wrong with it; "": nothing is
}

// Who names the owner for people.
func (s Sighting) Who() string { return s.seen().Who() }

// TakenOver is the Conflict that tells an earlier owner of a job of this one.
func (s Sighting) TakenOver(op, id string) error { return s.seen().TakenOver(op, subject(id)) }

func (s Sighting) seen() claim.Sighting {
	return claim.Sighting{Number: s.Incarnation, Owner: s.Owner, Beat: s.Beat, Damage: s.Damage}
}

// Claim is the right to a job's state under an incarnation. It is safe for
// concurrent use.
type Claim struct {
	catalog *Catalog
	id      string
	own     *claim.Claim
	task    json.RawMessage // as it was when it was claimed
	saves   saves           // guards itself
}

// Look says who owns a job, or did last. Incarnation 0: nobody ever.
func (c *Catalog) Look(ctx context.Context, id string) (Sighting, error) {
	if err := checkID("job.look", id); err != nil {
		return Sighting{}, err
	}
	seen, err := c.claims.Look(ctx, subject(id))
	return sighting(seen), err
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
	if err := checkID(op, id); err != nil {
		return nil, Sighting{}, err
	}
	ctx, life, err := store.Pin(ctx, c.store)
	var task json.RawMessage
	if err == nil {
		task, err = store.Read(ctx, c.store, taskKey(id), maxTask)
	}
	if fault.KindOf(err) == fault.NotFound {
		return nil, Sighting{}, c.noJob(op, id)
	} else if err != nil {
		return nil, Sighting{}, fault.New(op, fault.KindOf(err), "claim job %s: %w", id, err)
	}
	own, now, err := c.claims.Take(ctx, subject(id), owner, stale.seen())
	seen := sighting(now)
	if fault.KindOf(err) == fault.Conflict && now.Damage != "" {
		return nil, seen, fault.New(op, fault.Conflict, "job %s is owned, as incarnation %d, by %s: stop that process, or wait until it has ended", id, seen.Incarnation, now.Who())
	}
	if fault.KindOf(err) == fault.Conflict {
		return nil, seen, fault.New(op, fault.Conflict, "job %s runs on %s, as incarnation %d: stop it there, or wait until it has ended", id, now.Who(), seen.Incarnation)
	}
	if err != nil {
		return nil, seen, err
	}
	return &Claim{catalog: c, id: id, own: own, task: task, saves: saves{life: life, files: map[string]File{}}}, seen, nil
}

// Follows is what was last seen of the owner before; Incarnation 0: there was
// none.
func (c *Claim) Follows() Sighting { return sighting(c.own.Follows()) }

// Incarnation is the number of the claim, from 1.
func (c *Claim) Incarnation() uint64 { return c.own.Number() }

// Beat tells those who watch that the owner lives. Conflict: there is a higher
// claim, or this one was released.
func (c *Claim) Beat(ctx context.Context) error { return c.own.Beat(ctx) }

// Release gives the job up: anybody who can see the lock, and anybody in this
// process, may claim it at once. It does not wait for a Save, whose outcome
// then is open. A second call does nothing.
func (c *Claim) Release() error { return c.own.Release() }

// key is that of an object of the claim's incarnation.
func (c *Claim) key(name string) string { return key(c.id, c.own.Number(), name) }

// subject is a job to those who decide who owns it.
func subject(id string) claim.Subject {
	return claim.Subject{Prefix: incarnationsFolder(id), Name: "job " + id, Number: "incarnation", IsOwners: isOfState}
}

func sighting(s claim.Sighting) Sighting {
	return Sighting{Incarnation: s.Number, Owner: s.Owner, Beat: s.Beat, Damage: s.Damage}
}
