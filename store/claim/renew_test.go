package claim_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/claim"
)

var what = claim.Subject{Prefix: "jobs/j/", Name: "job j", Number: "incarnation"}

// place is a folder for a store that has an id, and copies of it.
type place struct {
	t   *testing.T
	dir string
	n   int // moved away so far
}

func newPlace(t *testing.T) *place {
	p := &place{t: t, dir: filepath.Join(t.TempDir(), "store")}
	_, err := store.ID(t.Context(), p.open())
	require.NoError(t, err)
	return p
}

// open opens the store as a process of its own would.
func (p *place) open() *store.File {
	s, err := store.NewFile(p.dir)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (p *place) register() *claim.Register { return claim.New(p.open()) }

// backup copies the store as it is.
func (p *place) backup() string {
	dir := filepath.Join(p.t.TempDir(), "backup")
	require.NoError(p.t, os.CopyFS(dir, os.DirFS(p.dir)))
	return dir
}

// restore puts a backup in the place of the store.
func (p *place) restore(backup string) {
	p.n++
	require.NoError(p.t, os.Rename(p.dir, p.dir+strconv.Itoa(p.n)))
	require.NoError(p.t, os.Rename(backup, p.dir))
}

func take(t *testing.T, r *claim.Register, stale claim.Sighting) *claim.Claim {
	t.Helper()
	own, _, err := r.Take(t.Context(), what, me, stale)
	require.NoError(t, err)
	return own
}

func requireHeld(t *testing.T, r *claim.Register) {
	t.Helper()
	_, _, err := r.Take(t.Context(), what, me, claim.Sighting{})
	require.Equal(t, fault.Conflict, fault.KindOf(err), "%v", err)
}

// An owner whose store is restored from a copy goes on owning: its number is taken
// and its lock is held there, too.
func TestAnOwnerInACopyOfItsStore(t *testing.T) {
	for name, late := range map[string]bool{"as it was": true, "from before it claimed": false} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			r := p.register()
			require.NoError(t, take(t, r, claim.Sighting{}).Release())
			early := p.backup()
			own := take(t, r, claim.Sighting{})
			require.EqualValues(t, 2, own.Number())
			require.NoError(t, own.Beat(t.Context()))
			if late {
				early = p.backup()
			}
			p.restore(early)
			require.NoError(t, own.Beat(t.Context()))
			requireHeld(t, p.register())
			require.NoError(t, own.Check(t.Context()))
			require.NoError(t, own.Release())
			require.EqualValues(t, 3, take(t, p.register(), claim.Sighting{}).Number())
		})
	}
}

// Whoever else has claimed in the copy meanwhile is the owner.
func TestAnOwnerThatIsLateInACopy(t *testing.T) {
	for name, c := range map[string]struct {
		late bool
		want uint64
	}{"the next number": {true, 2}, "the same number": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			copied := p.backup()
			own := take(t, p.register(), claim.Sighting{})
			if c.late {
				copied = p.backup()
			}
			p.restore(copied)
			other := take(t, p.register(), claim.Sighting{})
			require.EqualValues(t, c.want, other.Number())
			for range 2 {
				require.Equal(t, fault.Conflict, fault.KindOf(own.Beat(t.Context())))
				require.Equal(t, fault.Conflict, fault.KindOf(own.Check(t.Context())))
			}
			require.NoError(t, other.Beat(t.Context()))
		})
	}
}

// Owners that were overtaken look for the next number alone, which a copy from
// before may lack.
func TestOvertakenOwnersInACopy(t *testing.T) {
	p := newPlace(t)
	r := p.register()
	first, seen, err := p.register().Take(t.Context(), what, me, claim.Sighting{})
	require.NoError(t, err)
	copied := p.backup()
	second := take(t, r, seen)
	require.NoError(t, second.Release())
	third := take(t, r, claim.Sighting{})
	p.restore(copied)
	require.NoError(t, first.Check(t.Context()), "nothing there says otherwise yet")
	require.NoError(t, third.Check(t.Context()))
	require.Equal(t, fault.Conflict, fault.KindOf(first.Beat(t.Context())))
	require.NoError(t, third.Beat(t.Context()))
}

// A store that is away is no reason to stop, and none to think oneself the owner.
func TestAnOwnerWithoutItsStore(t *testing.T) {
	p := newPlace(t)
	own := take(t, p.register(), claim.Sighting{})
	require.NoError(t, os.Rename(p.dir, p.dir+"-away"))
	require.Equal(t, fault.Unavailable, fault.KindOf(own.Check(t.Context())))
	require.NoError(t, os.Rename(p.dir+"-away", p.dir))
	require.NoError(t, own.Check(t.Context()))
	require.NoError(t, own.Release())
}
