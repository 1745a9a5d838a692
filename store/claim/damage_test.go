package claim_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/claim"
)

var thing = claim.Subject{Prefix: "a/", Name: "thing a", Number: "life", IsOwners: func(name string) bool { return name == "work" }}

func put(t *testing.T, s store.Store, key, text string) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), key, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}))
}

// A claim that somebody damaged or removed keeps its number, and its owner the
// thing as long as it shows that it lives; who follows knows what was wrong.
func TestADamagedClaimIsOneAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, s store.Store)
		what   string
	}{
		"cut":     {func(t *testing.T, s store.Store) { put(t, s, "a/1/claim", `{"node":"he`) }, "damaged"},
		"emptied": {func(t *testing.T, s store.Store) { put(t, s, "a/1/claim", `{}`) }, "damaged"},
		"removed": {func(t *testing.T, s store.Store) {
			put(t, s, "a/1/work", "done")
			require.NoError(t, s.Delete(t.Context(), "a/1/claim"))
		}, "missing"},
		"removed, with a beat": {func(t *testing.T, s store.Store) {
			put(t, s, "a/1/beat", "1")
			require.NoError(t, s.Delete(t.Context(), "a/1/claim"))
		}, "missing"},
	} {
		for kind, s := range map[string]store.Store{"file": openFile(t, t.TempDir()), "mem": store.NewMem()} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				r := claim.New(s)
				first, _, err := r.Take(t.Context(), thing, me, claim.Sighting{})
				require.NoError(t, err)
				c.damage(t, s)
				says := s.URL("a/1/claim") + " is " + c.what
				_, seen, err := r.Take(t.Context(), thing, me, claim.Sighting{})
				requireKind(t, fault.Conflict, err)
				require.ErrorContains(t, err, says)
				require.Equal(t, claim.Sighting{Number: 1, Beat: seen.Beat, Damage: says}, seen)
				stale := seen // time tells
				if kind == "file" {
					stale = claim.Sighting{}
					require.NoError(t, first.Release())
				}
				second, _, err := r.Take(t.Context(), thing, me, stale)
				require.NoError(t, err)
				require.EqualValues(t, 2, second.Number())
				seen.Beat = second.Follows().Beat // it may have been released since
				require.Equal(t, seen, second.Follows())
				require.NoError(t, second.Release())
				require.NoError(t, first.Release())
			})
		}
	}
}

// A number that only holds what somebody left who never got it is free.
func TestAnAttemptIsNoClaim(t *testing.T) {
	s := store.NewMem()
	put(t, s, "a/1/lock-00dead", "")
	put(t, s, "a/1/other", "")
	own, _, err := claim.New(s).Take(t.Context(), thing, me, claim.Sighting{})
	require.NoError(t, err)
	require.EqualValues(t, 1, own.Number())
	require.Zero(t, own.Follows())
}

// passing is a store in which somebody else is quick: what is to happen before
// a read of a key, once.
type passing struct {
	*store.File
	before map[string]func()
}

func (p *passing) Get(ctx context.Context, key string, from, n int64) (io.ReadCloser, error) {
	p.pass(key)
	return p.File.Get(ctx, key, from, n)
}

func (p *passing) Path(key string) (string, bool) {
	p.pass(key[:strings.LastIndex(key, "/")+1] + "lock")
	return p.File.Path(key)
}

func (p *passing) pass(key string) {
	if do := p.before[key]; do != nil {
		delete(p.before, key)
		do()
	}
}

// Of those who follow a dead owner at once, one that is slow names the one that
// was quick, not the dead one, whose lock has gone by then.
func TestASlowOneNamesWhoWasQuick(t *testing.T) {
	for name, at := range map[string]string{"between claim and beat": "a/1/beat", "between look and lock": "a/1/lock"} {
		t.Run(name, func(t *testing.T) {
			s := openFile(t, t.TempDir())
			dead := claim.New(s)
			own, _, err := dead.Take(t.Context(), thing, claim.Owner{Node: "dead"}, claim.Sighting{})
			require.NoError(t, err)
			require.NoError(t, own.Release())
			require.NoError(t, s.Delete(t.Context(), "a/1/beat")) // it was killed, and has not said so
			quick := claim.New(s)
			slow := &passing{s, map[string]func(){at: func() {
				own, _, err := quick.Take(t.Context(), thing, claim.Owner{Node: "quick"}, claim.Sighting{})
				require.NoError(t, err)
				require.EqualValues(t, 2, own.Number())
				t.Cleanup(func() { require.NoError(t, own.Release()) })
				for _, key := range keys(t, s) { // as it tidies up
					if strings.HasPrefix(key, "a/1/lock-") {
						require.NoError(t, s.Delete(t.Context(), key))
					}
				}
			}}}
			_, seen, err := claim.New(slow).Take(t.Context(), thing, me, claim.Sighting{})
			requireKind(t, fault.Conflict, err)
			require.ErrorContains(t, err, "thing a is owned, as life 2, by quick (pid 0)")
			require.EqualValues(t, 2, seen.Number)
		})
	}
}

// A number that nobody can have come to has no next one: nobody becomes the owner,
// and whoever wants to is told which folder is in the way.
func TestANumberThatNobodyCanHaveComeTo(t *testing.T) {
	for _, number := range []string{"18446744073709551615", "18446744073709551614", "1000000001"} {
		for kind, s := range map[string]store.Store{"file": openFile(t, t.TempDir()), "mem": store.NewMem()} {
			t.Run(number+"/"+kind, func(t *testing.T) {
				r := claim.New(s)
				first, _, err := r.Take(t.Context(), thing, me, claim.Sighting{})
				require.NoError(t, err)
				require.NoError(t, first.Release())
				put(t, s, "a/"+number+"/claim", `{"token":"x"}`)
				for range 3 {
					_, _, err = r.Take(t.Context(), thing, me, claim.Sighting{})
					requireKind(t, fault.Corrupt, err)
					require.ErrorContains(t, err, s.URL("a/"+number)+" is no life that thing a can have come to: remove that folder")
				}
				require.NoError(t, s.Delete(t.Context(), "a/"+number+"/claim"))
				second, _, err := r.Take(t.Context(), thing, me, claim.Sighting{})
				require.NoError(t, err)
				require.EqualValues(t, 2, second.Number())
				require.NoError(t, second.Release())
			})
		}
	}
}

// noClaims is a store that takes everything but claims.
type noClaims struct {
	*store.File
	full bool
}

func (s *noClaims) PutIfAbsent(ctx context.Context, key string, write func(io.Writer) error) error {
	if s.full && strings.HasSuffix(key, "/claim") {
		return fault.New("test", fault.Unavailable, "no room")
	}
	return s.File.PutIfAbsent(ctx, key, write)
}

// Who tries again and again for a claim that the store does not take leaves
// nothing behind.
func TestAClaimThatIsNotTakenLeavesNoLock(t *testing.T) {
	s := &noClaims{File: openFile(t, t.TempDir()), full: true}
	r := claim.New(s)
	for range 3 {
		_, _, err := r.Take(t.Context(), thing, me, claim.Sighting{})
		requireKind(t, fault.Unavailable, err)
	}
	for o, err := range s.List(t.Context(), "a/") {
		require.NoError(t, err)
		t.Errorf("%s is left", o.Key)
	}
	s.full = false
	own, _, err := r.Take(t.Context(), thing, me, claim.Sighting{})
	require.NoError(t, err)
	require.EqualValues(t, 1, own.Number())
	require.NoError(t, own.Release())
}
