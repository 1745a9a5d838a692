package store_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// named returns a store with an id and an object, open; and another folder's path.
func named(t *testing.T) (s *store.File, dir, elsewhere, id string) {
	t.Helper()
	dir, elsewhere = filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "away")
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	id, err = store.ID(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, s.Put(t.Context(), "a/k", text("before")))
	return s, dir, elsewhere, id
}

func move(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.Rename(from, to))
}

func read(t *testing.T, s store.Store, key string) string {
	t.Helper()
	b, err := store.Read(t.Context(), s, key, 1000)
	require.NoError(t, err)
	return string(b)
}

// requireAway requires that nothing of a store can be used, and that each error
// says what is wrong.
func requireAway(t *testing.T, s *store.File, says ...string) {
	t.Helper()
	ctx := t.Context()
	_, get := s.Get(ctx, "a/k", 0, -1)
	_, stat := s.Stat(ctx, "a/k")
	_, missing := s.Stat(ctx, "a/nothing")
	_, _, pin := store.Pin(ctx, s)
	var list, folders error
	for _, list = range s.List(ctx, "") {
	}
	for _, folders = range s.Folders(ctx, "") {
	}
	for what, err := range map[string]error{
		"get": get, "stat": stat, "stat of nothing": missing, "pin": pin, "list": list, "folders": folders,
		"put": s.Put(ctx, "a/k", text("lost")), "put if absent": s.PutIfAbsent(ctx, "b/new", text("lost")), "delete": s.Delete(ctx, "a/k"),
	} {
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%s: %v", what, err)
		for _, text := range says {
			require.ErrorContains(t, err, text, what)
		}
	}
}

// A folder that is moved away is not written to any more, nothing takes its
// place unasked, and it is used again once it is back: itself or a copy.
func TestAFolderThatGoesAwayAndComesBack(t *testing.T) {
	for name, back := range map[string]func(t *testing.T, away, dir string){
		"itself": move,
		"a copy": func(t *testing.T, away, dir string) {
			require.NoError(t, os.CopyFS(dir, os.DirFS(away)))
			require.NoError(t, os.RemoveAll(away))
		},
		"a copy, over the empty folder of a mount": func(t *testing.T, away, dir string) {
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.CopyFS(dir, os.DirFS(away)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir, away, id := named(t)
			_, first, err := store.Pin(t.Context(), s)
			require.NoError(t, err)
			move(t, dir, away)
			requireAway(t, s, dir, "mount it or move it back", id)
			require.NoDirExists(t, dir)
			b, err := os.ReadFile(filepath.Join(away, "a", "k"))
			require.NoError(t, err)
			require.Equal(t, "before", string(b))

			back(t, away, dir)
			require.Equal(t, "before", read(t, s, "a/k"))
			require.NoError(t, s.Put(t.Context(), "a/k", text("after")))
			require.NoError(t, s.Put(t.Context(), "c/k", text("after")))
			b, err = os.ReadFile(filepath.Join(dir, "a", "k"))
			require.NoError(t, err)
			require.Equal(t, "after", string(b))
			_, second, err := store.Pin(t.Context(), s)
			require.NoError(t, err)
			require.Equal(t, name == "itself", first == second, "who remembers what is there has to look again in a copy")
		})
	}
}

// Of a folder that others hold, folders that were known to be there may not be.
func TestFoldersAreMadeAnewInACopy(t *testing.T) {
	s, dir, away, _ := named(t)
	move(t, dir, away)
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.CopyFS(dir, os.DirFS(away)))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))
	require.NoError(t, s.Put(t.Context(), "a/k", text("after")))
	require.Equal(t, "after", read(t, s, "a/k"))
}

// What stands in the place of a store is used only if it has its id.
func TestAnotherFolderInTheStoresPlace(t *testing.T) {
	s, dir, away, id := named(t)
	move(t, dir, away)
	require.NoError(t, os.Mkdir(dir, 0o700))
	requireAway(t, s, dir+" is not the store that was open here", `it has no store.json that can be read`, `{"id":"`+id+`"}`, "move it back")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "store.json"), []byte(`{"id":"other"}`), 0o600))
	requireAway(t, s, dir+" is not the store that was open here", "says the id other", id, "end this process")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing was written")

	// The remedy that the first error names.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "store.json"), []byte(`{"id":"`+id+`"}`), 0o600))
	require.Equal(t, []string{"store.json"}, keys(t, s))
	require.NoError(t, s.Put(t.Context(), "a/k", text("after")))
	require.Equal(t, "after", read(t, s, "a/k"))
}

// A folder without an id may be any: it is like one that was never there.
func TestAFolderThatNeverWasAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Put(t.Context(), "k", text("x")))
	require.NoError(t, os.RemoveAll(dir))
	require.Empty(t, keys(t, s))
	require.NoError(t, s.Put(t.Context(), "k", text("y")))
	require.Equal(t, "y", read(t, s, "k"))
}

// A write during which the folder goes is none: it says so, wherever it was.
func TestAFolderThatGoesInTheMiddleOfAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		says      string
		meanwhile func(t *testing.T, s *store.File, dir, away string)
	}{
		"it goes": {"mount it or move it back", func(t *testing.T, _ *store.File, dir, away string) { move(t, dir, away) }},
		"it is emptied": {"it has no store.json", func(t *testing.T, _ *store.File, dir, away string) {
			move(t, dir, away)
			require.NoError(t, os.Mkdir(dir, 0o700))
		}},
		"it is emptied in its place": {"it has no store.json", func(t *testing.T, _ *store.File, dir, _ string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "a")))
			require.NoError(t, os.Remove(filepath.Join(dir, "store.json")))
		}},
		"its name goes": {"it has no store.json", func(t *testing.T, _ *store.File, dir, _ string) {
			require.NoError(t, os.Remove(filepath.Join(dir, "store.json")))
		}},
		"it is removed": {"mount it or move it back", func(t *testing.T, _ *store.File, dir, _ string) { require.NoError(t, os.RemoveAll(dir)) }},
		"a copy takes its place": {"another folder has taken the place", func(t *testing.T, s *store.File, dir, away string) {
			move(t, dir, away)
			require.NoError(t, os.CopyFS(dir, os.DirFS(away)))
			require.Equal(t, "before", read(t, s, "a/k"), "somebody else uses that already")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir, away, _ := named(t)
			err := s.Put(t.Context(), "a/k", func(w io.Writer) error {
				c.meanwhile(t, s, dir, away)
				return text("lost")(w)
			})
			require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
			if _, err := os.Stat(filepath.Join(dir, "store.json")); err == nil {
				require.Equal(t, "before", read(t, s, "a/k"))
			}
		})
	}
}

// Who writes what belongs together does it in one place.
func TestAPinnedContextIsOfOnePlace(t *testing.T) {
	s, dir, away, _ := named(t)
	ctx, life, err := store.Pin(t.Context(), s)
	require.NoError(t, err)
	again, same, err := store.Pin(ctx, s)
	require.NoError(t, err)
	require.Equal(t, ctx, again)
	require.Equal(t, life, same)
	require.NoError(t, s.Put(ctx, "a/1", nothing))
	require.NoError(t, os.CopyFS(away, os.DirFS(dir)))
	move(t, dir, dir+"-old")
	move(t, away, dir)
	err = s.Put(ctx, "a/2", nothing)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "another folder has taken the place of the store "+dir)
	_, _, err = store.Pin(ctx, s)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.NoError(t, s.Put(t.Context(), "a/2", nothing))

	other := store.NewMem()
	defer other.Close()
	require.NoError(t, other.Put(ctx, "k", nothing), "of another store it says nothing")
	pinned, life, err := store.Pin(context.Background(), other)
	require.NoError(t, err)
	require.Zero(t, life)
	require.Equal(t, context.Background(), pinned)
}

// A file server that was started anew may not know the folder that is open.
func TestAStaleFolderIsOpenedAnew(t *testing.T) {
	s, _, _, _ := named(t)
	_, first, err := store.Pin(t.Context(), s)
	require.NoError(t, err)
	store.Suspect(s, &os.PathError{Op: "openat", Path: "a/k", Err: unix.ESTALE})
	require.Equal(t, "before", read(t, s, "a/k"))
	_, second, err := store.Pin(t.Context(), s)
	require.NoError(t, err)
	require.Greater(t, second, first)
	require.NoError(t, s.Put(t.Context(), "a/k", text("after")))
}

// A path is said once.
func TestWhatAFullStoreSays(t *testing.T) {
	s, dir, _, _ := named(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Put(ctx, "a/k", func(w io.Writer) error {
		cancel()
		_, err := io.WriteString(w, "x")
		return err
	})
	require.EqualError(t, err, filepath.Join(dir, "a/k")+": context canceled")
}

// A store that is emptied where it is, or whose store.json alone goes or says
// another id, is as one that something else has taken the place of.
func TestAStoreThatIsEmptiedInItsPlace(t *testing.T) {
	s, dir, kept, id := named(t)
	_, first, err := store.Pin(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(kept, os.DirFS(dir)))
	for _, name := range []string{"a", "store.json"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
	}
	requireAway(t, s, dir+" is not the store that was open here", `it has no store.json that can be read`, `{"id":"`+id+`"}`)
	_, err = store.ID(t.Context(), s)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing was written")

	require.NoError(t, os.CopyFS(dir, os.DirFS(kept)))
	require.Equal(t, "before", read(t, s, "a/k"))
	_, second, err := store.Pin(t.Context(), s)
	require.NoError(t, err)
	require.Greater(t, second, first, "who remembers what is there has to look again")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "store.json"), []byte(`{"id":"other"}`), 0o600))
	requireAway(t, s, dir+" is not the store that was open here", "says the id other", id, "end this process")
	require.NoError(t, os.Remove(filepath.Join(dir, "store.json")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "store.json"), []byte(`{"id":"`+id+`"}`), 0o600))
	require.NoError(t, s.Put(t.Context(), "a/k", text("after")))
}
