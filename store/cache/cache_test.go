package cache_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/remote"
)

// far is a store that is not on this machine: it counts what is read, and its
// connections may break.
type far struct {
	store.Store
	mu    sync.Mutex // guards what follows
	read  int64
	after int64 // bytes of a reader after which it breaks; 0: never
}

func (s *far) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r, err := s.Store.Get(ctx, key, offset, length)
	if err != nil {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &farReader{ReadCloser: r, store: s, left: s.after}, nil
}

type farReader struct {
	io.ReadCloser
	store *far
	left  int64
}

func (r *farReader) Read(p []byte) (int, error) {
	if r.left > 0 {
		p = p[:min(int64(len(p)), r.left)]
	}
	n, err := r.ReadCloser.Read(p)
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.store.read += int64(n)
	if r.left > 0 {
		if r.left -= int64(n); r.left == 0 {
			return n, fault.New("test", fault.Unavailable, "the connection broke")
		}
	}
	return n, err
}

// thing is an entry of a test.
type thing struct {
	entry   string
	objects []cache.Object
	text    []string
}

// put stores things of two objects each of 1,000 bytes.
func put(t *testing.T, s store.Store, n int) (things []thing) {
	t.Helper()
	for i := range n {
		var one thing
		for j := range 2 {
			text := strings.Repeat(fmt.Sprintf("%03d-%d.", i, j), 1000)[:1000]
			sum := sha256.Sum256([]byte(text))
			o := cache.Object{Name: fmt.Sprint(j), Key: fmt.Sprintf("things/%d/%d", i, j), Bytes: 1000, SHA256: hex.EncodeToString(sum[:])}
			require.NoError(t, s.Put(t.Context(), o.Key, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }))
			one.objects, one.text = append(one.objects, o), append(one.text, text)
		}
		one.entry = []string{"datasets/", "models/"}[i%2] + one.objects[0].SHA256
		things = append(things, one)
	}
	return things
}

func (one thing) files(t *testing.T, c *cache.Cache) []string {
	t.Helper()
	paths, err := c.Files(t.Context(), one.entry, one.objects)
	require.NoError(t, err)
	for i, path := range paths {
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, one.text[i], string(got))
	}
	return paths
}

// What has come of an object is not read again, after a broken connection and in
// another process.
func TestCopiesAreGoneOnWith(t *testing.T) {
	s := &far{Store: store.NewMem()}
	one := put(t, s.Store, 1)[0]
	dir := t.TempDir()
	s.after = 300
	tries := 0
	for ; ; tries++ {
		_, err := cache.New(s, dir, 0).Files(t.Context(), one.entry, one.objects)
		if err == nil {
			break
		}
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
		require.Less(t, tries, 100)
	}
	require.Greater(t, tries, 4)
	require.EqualValues(t, 2000, s.read)
	one.files(t, cache.New(s, dir, 0))
	require.EqualValues(t, 2000, s.read, "a copy is found")
}

// A copy, or the beginning of one, that is damaged is made anew.
func TestDamagedCopies(t *testing.T) {
	s := &far{Store: store.NewMem()}
	one := put(t, s.Store, 1)[0]
	dir := t.TempDir()
	path := one.files(t, cache.New(s, dir, 0))[0]
	sound := []byte(one.text[0])
	for name, damage := range map[string]func() error{
		"a whole one": func() error { return os.WriteFile(path, make([]byte, len(sound)), 0o600) },
		"a cut one":   func() error { return os.Truncate(path, 100) },
		"none":        func() error { return os.Remove(path) },
		"a beginning": func() error { _ = os.Remove(path); return os.WriteFile(path+".part", make([]byte, 100), 0o600) },
		"one too long": func() error {
			_ = os.Remove(path)
			return os.WriteFile(path+".part", make([]byte, len(sound)+1), 0o600)
		},
		"one that ends": func() error { _ = os.Remove(path); return os.WriteFile(path+".part", sound, 0o600) },
	} {
		require.NoError(t, damage(), name)
		one.files(t, cache.New(s, dir, 0))
		require.NoFileExists(t, path+".part")
	}
	require.EqualValues(t, 2000+6*1000-100, s.read, "only what was damaged is read again")
}

// Many that want the same at once have it read once; one that leaves is nobody's
// loss.
func TestCopiesAreMadeOnce(t *testing.T) {
	s := &far{Store: store.NewMem()}
	one := put(t, s.Store, 1)[0]
	c := cache.New(s, t.TempDir(), 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if i%4 == 0 {
				_, err := c.Files(ctx, one.entry, one.objects)
				if fault.KindOf(err) != fault.Unavailable {
					t.Error(err)
				}
				return
			}
			if _, err := c.Files(t.Context(), one.entry, one.objects); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 2000, s.read)
}

// Copies are bounded, data sets and models together: the entry that was not used for
// longest goes, unless it is open.
func TestCopiesAreBounded(t *testing.T) {
	s := &far{Store: store.NewMem()}
	things := put(t, s.Store, 4)
	dir := t.TempDir()
	c := cache.New(s, dir, 5000)
	has := func() (has []bool) {
		for _, one := range things {
			_, err := os.Stat(filepath.Join(dir, one.entry))
			has = append(has, err == nil)
		}
		return has
	}
	first, err := os.Open(things[0].files(t, c)[0])
	require.NoError(t, err)
	defer first.Close()
	cache.Use(first)
	things[1].files(t, c)
	things[2].files(t, c)
	require.Equal(t, []bool{true, false, true, false}, has())
	second, err := os.Open(things[2].files(t, c)[1])
	require.NoError(t, err)
	defer second.Close()
	cache.Use(second)
	_, err = c.Files(t.Context(), things[3].entry, things[3].objects)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "raise --cache-limit")
	require.NoError(t, second.Close())
	things[3].files(t, c)
	require.Equal(t, []bool{true, false, false, true}, has())
	before := s.read
	things[1].files(t, c)
	require.EqualValues(t, 2000, s.read-before, "what has gone is read again")
}

// What Open gives stays while it is open, whoever else makes room; what is used by
// nobody goes for it.
func TestWhatIsOpenStays(t *testing.T) {
	s := store.NewMem()
	things := put(t, s, 4)
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 8 {
		c := cache.New(&far{Store: s}, dir, 4000) // another process's
		random := rand.New(rand.NewPCG(uint64(i), 1))
		all.Go(func() {
			for range 50 {
				one := things[random.IntN(len(things))]
				f, err := c.Open(t.Context(), one.entry, one.objects[1])
				if fault.KindOf(err) == fault.Unavailable {
					continue // all that is there is in use
				}
				if err != nil {
					t.Error(err)
					return
				}
				there, gone := os.Stat(f.Name())
				open, err := f.Stat()
				text, unread := io.ReadAll(f)
				if gone != nil || err != nil || unread != nil || !os.SameFile(there, open) || string(text) != one.text[1] {
					t.Error(gone, err, unread, len(text))
				}
				_ = f.Close()
			}
		})
	}
	all.Wait()
}

// A store whose objects are files here needs no copies; what it has is read in full
// once, and again where another folder takes its place.
func TestFilesInPlace(t *testing.T) {
	dir := t.TempDir()
	s, err := store.NewFile(dir + "/store")
	require.NoError(t, err)
	defer s.Close()
	_, err = store.ID(t.Context(), s)
	require.NoError(t, err)
	one := put(t, s, 1)[0]
	c := cache.New(s, dir+"/cache", 0)
	for i, path := range one.files(t, c) {
		want, ok := s.Path(one.objects[i].Key)
		require.True(t, ok)
		require.Equal(t, want, path)
	}
	require.NoDirExists(t, dir+"/cache")
	f, err := c.Open(t.Context(), one.entry, one.objects[0])
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, s.Put(t.Context(), one.objects[1].Key, func(w io.Writer) error { _, err := w.Write(make([]byte, 1000)); return err }))
	_, err = cache.New(s, dir+"/cache", 0).Files(t.Context(), one.entry, one.objects)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.ErrorContains(t, err, one.objects[1].Key)
	require.NoError(t, s.Delete(t.Context(), one.objects[1].Key))
	_, err = c.Files(t.Context(), one.entry, one.objects)
	require.Equal(t, fault.Corrupt, fault.KindOf(err), "it was promised")
	odd := one.objects[0]
	odd.SHA256 = "../../" + odd.SHA256[:58]
	_, err = c.Files(t.Context(), "models/"+odd.SHA256, []cache.Object{odd})
	require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
}

// A node without the bucket works through another's.
func TestCopiesOverHTTP(t *testing.T) {
	s := store.NewMem()
	one := put(t, s, 1)[0]
	server := httptest.NewServer(remote.NewHandler(s))
	defer server.Close()
	one.files(t, cache.New(remote.New(remote.At(server.Client(), server.URL)), t.TempDir(), 0))
}

// A folder that cannot be one is named before anything is to be copied there.
func TestAFolderThatCannotBeUsedIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copies", "here")
	require.NoError(t, cache.Usable(dir), "it is made")
	require.NoError(t, cache.Usable(dir))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, bad := range []string{file, filepath.Join(file, "below"), "/proc/none"} {
		err := cache.Usable(bad)
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, fmt.Sprintf("cache %q cannot be used: ", bad))
		require.ErrorContains(t, err, "name a folder that this user may write to")
	}
}
