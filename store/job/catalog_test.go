package job_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
	"github.com/troupe-ml/troupe/store/remote"
)

// stores runs a test with each kind of store.
func stores(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Run("file", func(t *testing.T) { test(t, openFile(t, t.TempDir())) })
	t.Run("mem", func(t *testing.T) {
		s := store.NewMem()
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		test(t, s)
	})
	t.Run("another node's", func(t *testing.T) { test(t, another(t, openFile(t, t.TempDir()))) })
}

// another returns a store as another node sees it, over connections of which every
// fifth is lost when the work is done.
func another(t *testing.T, s store.Store) store.Store {
	t.Helper()
	handler := remote.NewHandler(s)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1)%5 == 0 {
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return remote.New(remote.At(server.Client(), server.URL))
}

// created returns the catalog of a store with one job in it.
func created(t *testing.T, s store.Store) *job.Catalog {
	t.Helper()
	c := job.New(s)
	require.NoError(t, c.Create(t.Context(), id, json.RawMessage(`{"epochs":3}`)))
	return c
}

func claimed(t *testing.T, c *job.Catalog) *job.Claim {
	t.Helper()
	claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, claim.Release()) })
	return claim
}

func TestATaskIsWrittenOnce(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		c := created(t, s)
		require.NoError(t, c.Create(t.Context(), id, json.RawMessage(`{"epochs":3}`)), "a repeat changes nothing")
		err := c.Create(t.Context(), id, json.RawMessage(`{"epochs":4}`))
		requireKind(t, fault.Conflict, err)
		require.ErrorContains(t, err, id)
		task, err := c.Task(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, `{"epochs":3}`, string(task))

		_, err = c.Task(t.Context(), "other")
		requireKind(t, fault.NotFound, err)
		require.ErrorContains(t, err, "no job other in "+s.URL("jobs/")+": check the id")
		_, _, err = c.Claim(t.Context(), "other", me, job.Sighting{})
		requireKind(t, fault.NotFound, err)
		for _, bad := range []string{"", "a/b", "..", "a b", strings.Repeat("x", 65)} {
			requireKind(t, fault.Invalid, c.Create(t.Context(), bad, json.RawMessage(`{}`)))
			_, err = c.Task(t.Context(), bad)
			requireKind(t, fault.Invalid, err)
			_, err = c.Load(t.Context(), bad)
			requireKind(t, fault.Invalid, err)
			_, _, err = c.Claim(t.Context(), bad, me, job.Sighting{})
			requireKind(t, fault.Invalid, err)
			_, err = c.OpenFile(t.Context(), bad, 1, job.File{Name: "m.safetensors"})
			requireKind(t, fault.Invalid, err)
		}
		requireKind(t, fault.Invalid, c.Create(t.Context(), "new", json.RawMessage(`{"cut":`)))
		require.NoError(t, s.Put(t.Context(), "jobs/cut/task.json", func(w io.Writer) error {
			_, err := io.WriteString(w, `{"cut":`)
			return err
		}))
		_, err = c.Task(t.Context(), "cut")
		requireKind(t, fault.Corrupt, err)
	})
}

func TestIDsAscend(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		c := job.New(s)
		ids, err := c.IDs(t.Context())
		require.NoError(t, err)
		require.Empty(t, ids)
		for _, id := range []string{"b", "a0", "a", "a-"} {
			require.NoError(t, c.Create(t.Context(), id, json.RawMessage(`{}`)))
		}
		ids, err = c.IDs(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a", "a-", "a0", "b"}, ids)
	})
}

// The same rules without locks: a release, which whoever looks sees, and time.
func TestClaimsWithoutLocks(t *testing.T) {
	s := store.NewMem()
	defer s.Close()
	here, there := created(t, s), job.New(s)
	seen, err := here.Look(t.Context(), id)
	require.NoError(t, err)
	require.Zero(t, seen)

	first, seen, err := here.Claim(t.Context(), id, me, job.Sighting{})
	require.NoError(t, err)
	require.Equal(t, job.Sighting{Incarnation: 1, Owner: me}, seen)
	_, _, err = here.Claim(t.Context(), id, me, job.Sighting{})
	requireKind(t, fault.Conflict, err)
	require.NoError(t, first.Beat(t.Context()))
	_, now, err := there.Claim(t.Context(), id, me, seen)
	requireKind(t, fault.Conflict, err)
	require.NotEqual(t, seen, now)
	require.NoError(t, first.Release())
	require.NoError(t, first.Release(), "a repeat does nothing")
	requireKind(t, fault.Conflict, first.Beat(t.Context()))
	requireKind(t, fault.Conflict, save(t.Context(), first, 1))
	second, _, err := there.Claim(t.Context(), id, me, job.Sighting{})
	require.NoError(t, err)
	require.EqualValues(t, 2, second.Incarnation())

	third, seen, err := there.Claim(t.Context(), id, job.Owner{Node: "there"}, job.Sighting{Incarnation: 2, Owner: me})
	require.NoError(t, err, "watched long enough")
	require.EqualValues(t, 3, third.Incarnation())
	requireKind(t, fault.Conflict, second.Beat(t.Context()))
	requireKind(t, fault.Conflict, save(t.Context(), second, 1))
	require.NoError(t, second.Release())
	require.NoError(t, third.Beat(t.Context()), "what an old owner gives up is not the job")
	_, _, err = here.Claim(t.Context(), id, me, job.Sighting{Incarnation: 2, Owner: me})
	requireKind(t, fault.Conflict, err)
	require.ErrorContains(t, err, "runs on there (pid 0), as incarnation 3")
	now, err = here.Look(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, seen.Owner, now.Owner)
	require.NoError(t, third.Release())
}

// A claim that is damaged, or missing, is somebody's all the same: it says which
// object is at fault, and who follows has its state.
func TestADamagedClaimIsFollowed(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, s store.Store, claim string){
		"damaged": func(t *testing.T, s store.Store, claim string) {
			require.NoError(t, s.Put(t.Context(), claim, func(io.Writer) error { return nil }))
		},
		"missing": func(t *testing.T, s store.Store, claim string) { require.NoError(t, s.Delete(t.Context(), claim)) },
	} {
		stores(t, func(t *testing.T, s store.Store) {
			c := created(t, s)
			first := claimed(t, c)
			require.NoError(t, save(t.Context(), first, 1))
			object := "jobs/" + id + "/incarnations/1/claim"
			damage(t, s, object)
			_, seen, err := c.Claim(t.Context(), id, me, job.Sighting{})
			requireKind(t, fault.Conflict, err)
			require.ErrorContains(t, err, "is owned, as incarnation 1, by a process that is not known, as "+s.URL(object)+" is "+name+": stop that process")
			require.NoError(t, first.Release())
			claim, _, err := c.Claim(t.Context(), id, me, seen)
			require.NoError(t, err)
			require.EqualValues(t, 2, claim.Incarnation())
			seen.Beat = claim.Follows().Beat // it was released since
			require.Equal(t, seen, claim.Follows())
			state, err := c.Load(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, 1, version(state))
			require.NoError(t, claim.Release())
		})
	}
}

func TestSaveWritesEachFileOnceAndPrunes(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		c := created(t, s)
		state, err := c.Load(t.Context(), id)
		require.NoError(t, err)
		require.Nil(t, state)
		claim := claimed(t, c)
		for v := 1; v <= 5; v++ {
			require.NoError(t, save(t.Context(), claim, v))
			state, err := c.Load(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, v, version(state))
			require.Len(t, state.Files, 2)
			require.EqualValues(t, len(content(v)), state.Files[0].Bytes)
		}
		shared := source("optimizer-0-1.safetensors", "momentum")
		shared.Write = func(io.Writer) error { panic("it is there") }
		require.NoError(t, claim.Save(t.Context(), doc(6), []job.Source{model(6), shared}))
		require.NoError(t, claim.Save(t.Context(), doc(6), []job.Source{model(6), shared}), "a repeat changes nothing")
		got := strings.Join(keys(t, s, id), " ")
		require.Regexp(t, `^1/claim (1/lock-\w+ )?1/model-5.safetensors 1/model-6.safetensors 1/optimizer-0-1.safetensors 1/previous.json 1/state.json$`, got)
	})
}

func TestSaveRefuses(t *testing.T) {
	s := store.NewMem()
	defer s.Close()
	c := created(t, s)
	claim := claimed(t, c)
	require.NoError(t, save(t.Context(), claim, 1))
	long := model(1)
	long.Bytes++
	short := model(2)
	short.Bytes--
	for name, try := range map[string]struct {
		doc   string
		files []job.Source
	}{
		"a state that is no JSON":         {`{"version":`, nil},
		"a name of ours":                  {`{}`, []job.Source{source("state.json", "")}},
		"a name with a folder":            {`{}`, []job.Source{source("a/b.safetensors", "")}},
		"a name twice":                    {`{}`, []job.Source{model(2), model(2)}},
		"a negative length":               {`{}`, []job.Source{{Name: "x.safetensors", Bytes: -1}}},
		"another length under that name":  {`{}`, []job.Source{long}},
		"not the bytes it was announced":  {`{}`, []job.Source{short}},
		"a writer that fails for reasons": {`{}`, []job.Source{{Name: "x.safetensors", Write: func(io.Writer) error { return fault.New("t", fault.Invalid, "reasons") }}}},
	} {
		requireKind(t, fault.Invalid, claim.Save(t.Context(), json.RawMessage(try.doc), try.files))
		state, err := c.Load(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 1, version(state), name)
	}
	require.NoError(t, save(t.Context(), claim, 2), "what failed is in nobody's way")
}

// What a crash of the machine or a bad disk may do to the newest state.
func TestADamagedStateCostsOnlyItself(t *testing.T) {
	for _, name := range []string{"state.json", "model-3.safetensors"} {
		for what, damage := range map[string]func(path string, size int64) error{
			"truncated":  func(path string, size int64) error { return os.Truncate(path, size-1) },
			"empty":      func(path string, size int64) error { return os.Truncate(path, 0) },
			"missing":    func(path string, _ int64) error { return os.Remove(path) },
			"longer":     func(path string, size int64) error { return os.Truncate(path, size+1) },
			"a bit flip": func(path string, size int64) error { return flip(path, size/2) },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				s := openFile(t, t.TempDir())
				c := created(t, s)
				claim := claimed(t, c)
				for v := 1; v <= 3; v++ {
					require.NoError(t, save(t.Context(), claim, v))
				}
				// The end of an epoch saves once more, with the same model:
				// the state before that model stays.
				require.NoError(t, claim.Save(t.Context(), json.RawMessage(`{"version":3,"validated":true}`),
					[]job.Source{model(3), source("optimizer-0-1.safetensors", "momentum")}))
				spoil := func(name string) {
					path, _ := s.Path("jobs/" + id + "/incarnations/1/" + name)
					info, err := os.Stat(path)
					require.NoError(t, err)
					require.NoError(t, damage(path, info.Size()))
				}
				spoil(name)
				state, err := c.Load(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, 2, version(state))
				require.Equal(t, content(2), readAll(t, c, id, state, "model-2.safetensors"))

				spoil("model-2.safetensors")
				_, err = c.Load(t.Context(), id)
				requireKind(t, fault.Corrupt, err)
				require.ErrorContains(t, err, "no state of job "+id+" is whole")
				require.ErrorContains(t, err, "model-2.safetensors is ")
				require.NoError(t, save(t.Context(), claim, 4), "the owner has it all in memory")
				state, err = c.Load(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, 4, version(state))
			})
		}
	}
}

// flip changes one bit of a file.
func flip(path string, at int64) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[at] ^= 4
	return os.WriteFile(path, b, 0o600)
}

// The first state of an owner is what it started from: where that is damaged
// the state of the owner before it counts, which is there until there are two.
func TestADamagedFirstStateFallsBackToTheOwnerBefore(t *testing.T) {
	s := openFile(t, t.TempDir())
	c := created(t, s)
	first := claimed(t, c)
	for v := 1; v <= 2; v++ {
		require.NoError(t, save(t.Context(), first, v))
	}
	require.NoError(t, first.Release())
	second := claimed(t, c)
	require.NoError(t, save(t.Context(), second, 2))
	path, _ := s.Path("jobs/" + id + "/incarnations/2/model-2.safetensors")
	require.NoError(t, os.Truncate(path, 3))
	state, err := c.Load(t.Context(), id)
	require.NoError(t, err)
	require.EqualValues(t, 1, state.Incarnation)
	require.Equal(t, 2, version(state))
}

// Every change of a byte and every cut of a state is noticed.
func TestNoDamageOfAStateGoesUnnoticed(t *testing.T) {
	s := store.NewMem()
	defer s.Close()
	c := created(t, s)
	require.NoError(t, claimed(t, c).Save(t.Context(), json.RawMessage(`{"a":"<&>", "version" : 7}`), nil))
	state, err := c.Load(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, `{"a":"<&>","version":7}`, string(state.Doc))
	key := "jobs/" + id + "/incarnations/1/state.json"
	r, err := s.Get(t.Context(), key, 0, -1)
	require.NoError(t, err)
	whole, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	put := func(object []byte) {
		require.NoError(t, s.Put(t.Context(), key, func(w io.Writer) error { _, err := w.Write(object); return err }))
	}
	for i := range whole {
		put(whole[:i])
		_, err := c.Load(t.Context(), id)
		requireKind(t, fault.Corrupt, err)
		damaged := []byte(string(whole))
		damaged[i] ^= 0x10
		put(damaged)
		_, err = c.Load(t.Context(), id)
		requireKind(t, fault.Corrupt, err)
	}
	put(whole)
	require.NoError(t, c.Create(t.Context(), "other", json.RawMessage(`{}`)))
	require.NoError(t, s.Put(t.Context(), "jobs/other/incarnations/1/state.json", func(w io.Writer) error { _, err := w.Write(whole); return err }))
	_, err = c.Load(t.Context(), "other")
	requireKind(t, fault.Corrupt, err)
	require.ErrorContains(t, err, fmt.Sprintf("it is that of job %q, incarnation 1", id))
}

// An owner beats while it saves, and may be released meanwhile.
func TestAClaimIsSafeForConcurrentUse(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		c := created(t, s)
		claim := claimed(t, c)
		require.NoError(t, save(t.Context(), claim, 1))
		var wg sync.WaitGroup
		last := make([]error, 4)
		for i := range last {
			wg.Go(func() {
				for v := 1; last[i] == nil; v++ {
					if i%2 == 0 {
						last[i] = claim.Beat(t.Context())
					} else {
						last[i] = save(t.Context(), claim, v)
					}
					if i == 0 && v == 20 {
						last[i] = claim.Release()
					}
				}
			})
		}
		wg.Wait()
		for _, err := range last {
			requireKind(t, fault.Conflict, err)
		}
		state, err := c.Load(t.Context(), id)
		require.NoError(t, err)
		require.NotNil(t, state)
		seen, err := c.Look(t.Context(), id)
		require.NoError(t, err)
		require.NotEmpty(t, seen.Beat)
	})
}
