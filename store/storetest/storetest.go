// Package storetest is the conformance suite of store.Store: what every driver
// must do.
package storetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// Run runs the suite. Each call of open returns a new, empty store, which the
// suite closes.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	tests := []struct {
		name string
		test func(t *testing.T, s store.Store)
	}{
		{"what is put is read back and can be replaced", testPut},
		{"what is not there is not found", testMissing},
		{"ranges", testRanges},
		{"keys", testKeys},
		{"prefixes", testPrefixes},
		{"list order", testList},
		{"list stops when asked", testListBreak},
		{"folders", testFolders},
		{"only the first of two conditional puts wins", testPutIfAbsent},
		{"of many concurrent conditional puts one wins", testClaims},
		{"a failed write leaves nothing", testFailedWrite},
		{"a failed write keeps the previous object", testFailedReplace},
		{"a reader keeps what it opened", testReaderSnapshot},
		{"big objects stream", testBig},
		{"a key is not the folder of another", testFolderClash},
		{"a folder goes with its last object", testFolderGoes},
		{"puts and deletes in one folder do not disturb each other", testFolderRace},
		{"a context that has ended", testContext},
		{"a closed store", testClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			tt.test(t, s)
		})
	}
}

// put stores content under key.
func put(t *testing.T, s store.Store, key, content string) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), key, text(content)))
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// get reads a whole object.
func get(t *testing.T, s store.Store, key string) string {
	t.Helper()
	r, err := s.Get(t.Context(), key, 0, -1)
	require.NoError(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

// list returns the keys under prefix.
func list(t *testing.T, s store.Store, prefix string) []string {
	t.Helper()
	keys := []string{}
	for o, err := range s.List(t.Context(), prefix) {
		require.NoError(t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

func requireKind(t *testing.T, want fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
}

func testPut(t *testing.T, s store.Store) {
	put(t, s, "jobs/1/state.json", "one")
	require.Equal(t, "one", get(t, s, "jobs/1/state.json"))
	first, err := s.Stat(t.Context(), "jobs/1/state.json")
	require.NoError(t, err)
	put(t, s, "jobs/1/state.json", "second")
	require.Equal(t, "second", get(t, s, "jobs/1/state.json"))
	put(t, s, "empty", "")
	require.Empty(t, get(t, s, "empty"))

	o, err := s.Stat(t.Context(), "jobs/1/state.json")
	require.NoError(t, err)
	require.Equal(t, "jobs/1/state.json", o.Key)
	require.EqualValues(t, 6, o.Size)
	require.False(t, o.ModTime.IsZero())
	require.NotEqual(t, first.Version, o.Version, "another content")
	for listed, err := range s.List(t.Context(), "jobs/") {
		require.NoError(t, err)
		require.Equal(t, o.Version, listed.Version)
	}
	require.True(t, strings.HasSuffix(s.URL("jobs/1/state.json"), "/jobs/1/state.json"))

	require.NoError(t, s.Delete(t.Context(), "jobs/1/state.json"))
	require.NoError(t, s.Delete(t.Context(), "jobs/1/state.json"), "a repeat does nothing")
	require.Equal(t, []string{"empty"}, list(t, s, ""))
}

func testMissing(t *testing.T, s store.Store) {
	require.Empty(t, list(t, s, ""))
	for _, key := range []string{"a", "a/b", "dir"} {
		_, err := s.Get(t.Context(), key, 0, -1)
		requireKind(t, fault.NotFound, err)
		require.Contains(t, err.Error(), key)
		_, err = s.Stat(t.Context(), key)
		requireKind(t, fault.NotFound, err)
		require.NoError(t, s.Delete(t.Context(), key))
		put(t, s, "dir/file", "x") // from the second key on the store is not empty, and dir is a folder
	}
	_, err := s.Get(t.Context(), "dir/file/below", 0, -1)
	requireKind(t, fault.NotFound, err)
	require.NoError(t, s.Delete(t.Context(), "dir"))
	require.Equal(t, []string{"dir/file"}, list(t, s, ""))
}

func testRanges(t *testing.T, s store.Store) {
	put(t, s, "k", "0123456789")
	for _, tt := range []struct {
		offset, length int64
		want           string
	}{
		{0, -1, "0123456789"},
		{0, 10, "0123456789"},
		{3, 4, "3456"},
		{3, -1, "3456789"},
		{9, 1, "9"},
		{9, 100, "9"},
		{0, 0, ""},
		{10, -1, ""},
		{10, 5, ""},
		{5, 1 << 62, "56789"},
	} {
		r, err := s.Get(t.Context(), "k", tt.offset, tt.length)
		require.NoError(t, err, "%+v", tt)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, tt.want, string(b), "%+v", tt)
	}
	for _, bad := range [][2]int64{{-1, 1}, {0, -2}, {11, 1}, {11, -1}} {
		_, err := s.Get(t.Context(), "k", bad[0], bad[1])
		requireKind(t, fault.Invalid, err)
	}
}

func testKeys(t *testing.T, s store.Store) {
	good := []string{
		"a", ".hidden", "...", "a..b", "with space", "ünï/中", "%2F", "a?b#c", `back\slash`, "a:b", "new\nline", "~",
		strings.Repeat("x", 255), strings.Repeat("long/", 204) + "tail",
	}
	for _, key := range good {
		put(t, s, key, key)
	}
	for _, key := range good {
		require.Equal(t, key, get(t, s, key))
	}
	require.ElementsMatch(t, good, list(t, s, ""))
	for _, key := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "nul\x00", "\xff", ".troupe-x", "a/.troupe-tmp-1",
		strings.Repeat("x", 256), strings.Repeat("long/", 205),
	} {
		called := false
		err := s.Put(t.Context(), key, func(io.Writer) error { called = true; return nil })
		requireKind(t, fault.Invalid, err)
		requireKind(t, fault.Invalid, s.PutIfAbsent(t.Context(), key, func(io.Writer) error { called = true; return nil }))
		require.False(t, called, "%q", key)
		_, err = s.Get(t.Context(), key, 0, -1)
		requireKind(t, fault.Invalid, err)
		_, err = s.Stat(t.Context(), key)
		requireKind(t, fault.Invalid, err)
		requireKind(t, fault.Invalid, s.Delete(t.Context(), key))
	}
	require.Len(t, list(t, s, ""), len(good))
}

func testPrefixes(t *testing.T, s store.Store) {
	for _, prefix := range []string{"/", "../", "a//", "a/../b", "nul\x00", "/etc"} {
		n := 0
		for _, err := range s.List(t.Context(), prefix) {
			requireKind(t, fault.Invalid, err)
			n++
		}
		require.Equal(t, 1, n, "%q", prefix)
	}
}

func testList(t *testing.T, s store.Store) {
	keys := []string{"a-b", "a.json", "a/1", "a/10", "a/2/x", "a/2/y", "a0", "b/c/d/e", "jobs/01/x", "jobs/010/x", "jobs/02"}
	for i := range keys { // not in order
		put(t, s, keys[(i*7)%len(keys)], strings.Repeat("z", (i*7)%len(keys)))
	}
	for prefix, want := range map[string][]string{
		"":          keys,
		"a":         keys[:7],
		"a/":        keys[2:6],
		"a/1":       keys[2:4],
		"a/2":       keys[4:6],
		"a/2/":      keys[4:6],
		"a/2/x":     keys[4:5],
		"a/2/xx":    {},
		"b":         keys[7:8],
		"b/c/":      keys[7:8],
		"jobs/01":   keys[8:10],
		"jobs/01/":  keys[8:9],
		"nope":      {},
		"nope/":     {},
		"a-b/":      {},
		"jobs/02/x": {},
		".":         {},
	} {
		require.Equal(t, want, list(t, s, prefix), "prefix %q", prefix)
	}
	i := 0
	for o, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		require.EqualValues(t, i, o.Size, o.Key)
		require.False(t, o.ModTime.IsZero())
		i++
	}
}

func testListBreak(t *testing.T, s store.Store) {
	for i := range 20 {
		put(t, s, fmt.Sprintf("d%d/k", i), "")
	}
	seen := 0
	for _, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		if seen++; seen == 3 {
			break
		}
	}
	require.Equal(t, 3, seen)
	for o, err := range s.List(t.Context(), "") { // what a walk lists may be deleted in it
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), o.Key))
	}
	require.Empty(t, list(t, s, ""))
}

func testFolders(t *testing.T, s store.Store) {
	folders := func(prefix string) []string {
		names := []string{}
		for name, err := range s.Folders(t.Context(), prefix) {
			require.NoError(t, err)
			names = append(names, name)
		}
		return names
	}
	require.Empty(t, folders(""))
	for _, key := range []string{"jobs/b/task", "jobs/b/deep/er/x", "jobs/a/1/2/3", "jobs/a-/x", "jobs/c", "top", "models/x"} {
		put(t, s, key, "")
	}
	for prefix, want := range map[string][]string{
		"":              {"jobs", "models"},
		"jobs/":         {"a-", "a", "b"}, // "a-/" < "a/"
		"jobs/a/":       {"1"},
		"jobs/b/":       {"deep"},
		"jobs/b/deep/":  {"er"},
		"jobs/a/1/2/":   {},
		"jobs/c/":       {},
		"jobs/missing/": {},
	} {
		require.Equal(t, want, folders(prefix), "prefix %q", prefix)
	}
	for range s.Folders(t.Context(), "") {
		break
	}
	require.Error(t, s.Put(t.Context(), "jobs/d/half", func(io.Writer) error {
		require.Equal(t, []string{"a-", "a", "b"}, folders("jobs/"), "a folder comes with its first object")
		return errors.New("no")
	}))
	require.NoError(t, s.Delete(t.Context(), "jobs/a/1/2/3"))
	require.Equal(t, []string{"a-", "b"}, folders("jobs/"))
	for _, prefix := range []string{"jobs", "/", "../", "a//", "nul\x00/"} {
		for _, err := range s.Folders(t.Context(), prefix) {
			requireKind(t, fault.Invalid, err)
		}
	}
}

func testPutIfAbsent(t *testing.T, s store.Store) {
	require.NoError(t, s.PutIfAbsent(t.Context(), "leader/1/claim", text("first")))
	requireKind(t, fault.Conflict, s.PutIfAbsent(t.Context(), "leader/1/claim", text("second")))
	require.Equal(t, "first", get(t, s, "leader/1/claim"))
	put(t, s, "leader/1/claim", "replaced")
	require.NoError(t, s.Delete(t.Context(), "leader/1/claim"))
	require.NoError(t, s.PutIfAbsent(t.Context(), "leader/1/claim", text("again")))
	require.Equal(t, "again", get(t, s, "leader/1/claim"))
	require.Equal(t, []string{"leader/1/claim"}, list(t, s, ""))
}

func testClaims(t *testing.T, s store.Store) {
	const claims, racers = 50, 8
	for i := range claims {
		key := fmt.Sprintf("claims/%d/claim", i)
		wins := make([]error, racers)
		start := make(chan struct{})
		var wg sync.WaitGroup
		for r := range racers {
			wg.Go(func() {
				<-start
				wins[r] = s.PutIfAbsent(t.Context(), key, text(fmt.Sprint(r)))
			})
		}
		close(start)
		wg.Wait()
		winner := ""
		for r, err := range wins {
			if err == nil {
				require.Empty(t, winner, "claim %d has two winners", i)
				winner = fmt.Sprint(r)
				continue
			}
			requireKind(t, fault.Conflict, err)
		}
		require.Equal(t, winner, get(t, s, key))
	}
}

// failures are ways in which a write ends badly.
func failures(s store.Store) map[string]func(ctx context.Context, key string) error {
	return map[string]func(ctx context.Context, key string) error{
		"error": func(ctx context.Context, key string) error {
			return s.Put(ctx, key, func(w io.Writer) error {
				_, _ = io.WriteString(w, "half")
				return fault.New("test", fault.Rejected, "no")
			})
		},
		"error of a conditional put": func(ctx context.Context, key string) error {
			return s.PutIfAbsent(ctx, key, func(w io.Writer) error {
				_, _ = io.WriteString(w, "half")
				return fault.New("test", fault.Rejected, "no")
			})
		},
		"panic": func(ctx context.Context, key string) (err error) {
			defer func() { err = recover().(error) }()
			return s.Put(ctx, key, func(w io.Writer) error {
				_, _ = io.WriteString(w, "half")
				panic(errors.New("write"))
			})
		},
		"context ended between writes, which write ignores": func(ctx context.Context, key string) error {
			ctx, cancel := context.WithCancel(ctx)
			return s.Put(ctx, key, func(w io.Writer) error {
				_, _ = io.WriteString(w, "half")
				cancel()
				_, _ = io.WriteString(w, "half")
				return nil
			})
		},
		"context ended behind the last write": func(ctx context.Context, key string) error {
			ctx, cancel := context.WithCancel(ctx)
			return s.Put(ctx, key, func(w io.Writer) error {
				_, _ = io.WriteString(w, "half")
				cancel()
				return nil
			})
		},
	}
}

func testFailedWrite(t *testing.T, s store.Store) {
	for name, fail := range failures(s) {
		err := fail(t.Context(), "a/b/c")
		require.Error(t, err, name)
		if strings.HasPrefix(name, "error") {
			requireKind(t, fault.Rejected, err)
		}
		_, err = s.Stat(t.Context(), "a/b/c")
		requireKind(t, fault.NotFound, err)
		require.Empty(t, list(t, s, ""), name)
		put(t, s, "a", "no folder is left in the way")
		require.NoError(t, s.Delete(t.Context(), "a"))
	}
}

func testFailedReplace(t *testing.T, s store.Store) {
	put(t, s, "a/b", "previous")
	for name, fail := range failures(s) {
		require.Error(t, fail(t.Context(), "a/b"), name)
		require.Equal(t, "previous", get(t, s, "a/b"), name)
	}
}

func testReaderSnapshot(t *testing.T, s store.Store) {
	put(t, s, "k", "old old old")
	r, err := s.Get(t.Context(), "k", 0, -1)
	require.NoError(t, err)
	defer r.Close()
	put(t, s, "k", "new")
	require.NoError(t, s.Delete(t.Context(), "k"))
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "old old old", string(b))
}

func testBig(t *testing.T, s store.Store) {
	const chunks, size = 32*16 + 1, 64 << 10
	chunk := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8), 0xa5, 0x5a}, size/4) }
	wrote, read := sha256.New(), sha256.New()
	require.NoError(t, s.Put(t.Context(), "big", func(w io.Writer) error {
		for i := range chunks {
			if _, err := io.MultiWriter(w, wrote).Write(chunk(i)); err != nil {
				return err
			}
		}
		return nil
	}))
	r, err := s.Get(t.Context(), "big", 0, -1)
	require.NoError(t, err)
	n, err := io.Copy(read, r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.EqualValues(t, chunks*size, n)
	require.Equal(t, wrote.Sum(nil), read.Sum(nil))
	r, err = s.Get(t.Context(), "big", 300*size, size)
	require.NoError(t, err)
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.True(t, bytes.Equal(chunk(300), b))
}

func testFolderClash(t *testing.T, s store.Store) {
	put(t, s, "a/b/c", "x")
	put(t, s, "f", "x")
	for _, key := range []string{"a", "a/b", "f/x", "f/x/y", "a/b/c/d"} {
		requireKind(t, fault.Conflict, s.Put(t.Context(), key, text("y")))
		requireKind(t, fault.Conflict, s.PutIfAbsent(t.Context(), key, text("y")))
	}
	require.Equal(t, []string{"a/b/c", "f"}, list(t, s, ""))
}

func testFolderGoes(t *testing.T, s store.Store) {
	put(t, s, "a/b/c", "x")
	put(t, s, "a/d", "x")
	require.NoError(t, s.Delete(t.Context(), "a/b/c"))
	put(t, s, "a/b", "now an object")
	require.NoError(t, s.Delete(t.Context(), "a/b"))
	require.NoError(t, s.Delete(t.Context(), "a/d"))
	put(t, s, "a", "now an object")
	require.Equal(t, []string{"a"}, list(t, s, ""))
}

func testFolderRace(t *testing.T, s store.Store) {
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			key := fmt.Sprintf("x/y/%d", i)
			for range 30 {
				if errs[i] = s.Put(t.Context(), key, text(key)); errs[i] != nil {
					return
				}
				if errs[i] = s.Delete(t.Context(), key); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Empty(t, list(t, s, ""))
}

func testContext(t *testing.T, s store.Store) {
	put(t, s, "k", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, "k", 0, -1)
	requireKind(t, fault.Unavailable, err)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Stat(ctx, "k")
	requireKind(t, fault.Unavailable, err)
	requireKind(t, fault.Unavailable, s.Put(ctx, "k", text("y")))
	requireKind(t, fault.Unavailable, s.PutIfAbsent(ctx, "l", text("y")))
	for _, err := range s.List(ctx, "") {
		requireKind(t, fault.Unavailable, err)
	}
	for _, err := range s.Folders(ctx, "") {
		requireKind(t, fault.Unavailable, err)
	}
	require.Equal(t, "x", get(t, s, "k"))
	require.Equal(t, []string{"k"}, list(t, s, ""))
}

func testClosed(t *testing.T, s store.Store) {
	put(t, s, "k", "x")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err := s.Get(t.Context(), "k", 0, -1)
	requireKind(t, fault.Unavailable, err)
	_, err = s.Stat(t.Context(), "k")
	requireKind(t, fault.Unavailable, err)
	requireKind(t, fault.Unavailable, s.Put(t.Context(), "k", text("y")))
	requireKind(t, fault.Unavailable, s.PutIfAbsent(t.Context(), "l", text("y")))
	requireKind(t, fault.Unavailable, s.Delete(t.Context(), "k"))
	n := 0
	for _, err := range s.List(t.Context(), "") {
		requireKind(t, fault.Unavailable, err)
		n++
	}
	require.Equal(t, 1, n)
	for _, err := range s.Folders(t.Context(), "") {
		requireKind(t, fault.Unavailable, err)
		n++
	}
	require.Equal(t, 2, n)
}
