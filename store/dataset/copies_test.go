package dataset_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/remote"
)

// far is a store that is not on this machine: it counts what is read of arrays,
// and its connections may break.
type far struct {
	store.Store
	mu      sync.Mutex // guards what follows
	read    int64
	offsets []int64
	after   int64 // bytes of a reader after which it breaks; 0: never
}

func (s *far) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || filepath.Ext(key) != ".npy" {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offsets = append(s.offsets, offset)
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

// farAway returns data sets in a store that is far, and how many bytes each has.
func farAway(t *testing.T, n int) (s *far, infos []dataset.Info, size int64) {
	t.Helper()
	s = &far{Store: store.NewMem()}
	for i := range n {
		csv := ""
		for row := range 200 {
			csv += fmt.Sprintf("%d,%d,%d\n", row, i, row%3)
		}
		info, err := dataset.New(s.Store).Open(t.Context(), writeFile(t, fmt.Sprintf("d%d.csv", i), []byte("a,b,y\n"+csv)), dataset.Options{})
		require.NoError(t, err)
		infos = append(infos, info)
	}
	for o, err := range s.List(t.Context(), "datasets/d0/") {
		require.NoError(t, err)
		if filepath.Ext(o.Key) == ".npy" {
			size += o.Size
		}
	}
	return s, infos, size
}

func materialise(t *testing.T, c *dataset.Catalog, info dataset.Info, dir string) dataset.Files {
	t.Helper()
	files, err := c.Materialise(t.Context(), info.Name, info.Digest, dir)
	require.NoError(t, err)
	return files
}

// What has come of a data set is not read again, after a broken connection and in
// another process.
func TestCopiesAreGoneOnWith(t *testing.T) {
	s, infos, size := farAway(t, 1)
	dir := t.TempDir()
	s.after = 400
	tries := 0
	for ; ; tries++ {
		_, err := dataset.New(s).Materialise(t.Context(), infos[0].Name, infos[0].Digest, dir)
		if err == nil {
			break
		}
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
		require.Less(t, tries, 100)
	}
	require.Greater(t, tries, 4)
	require.Equal(t, size, s.read)
	materialise(t, dataset.New(s), infos[0], dir)
	require.Equal(t, size, s.read, "a copy is found")
}

// A copy, or the beginning of one, that is damaged is made anew.
func TestDamagedCopies(t *testing.T) {
	s, infos, size := farAway(t, 1)
	dir := t.TempDir()
	c := dataset.New(s)
	path := materialise(t, c, infos[0], dir).TrainX
	sound, err := os.ReadFile(path)
	require.NoError(t, err)
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
		materialise(t, dataset.New(s), infos[0], dir)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, sound, got, name)
		require.NoFileExists(t, path+".part")
	}
	require.Equal(t, size+int64(6*len(sound)-100), s.read, "only what was damaged is read again")
}

// Many that want the same at once have it read once; one that leaves is nobody's
// loss.
func TestCopiesAreMadeOnce(t *testing.T) {
	s, infos, size := farAway(t, 1)
	c, dir := dataset.New(s), t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if i%4 == 0 {
				_, err := c.Materialise(ctx, infos[0].Name, infos[0].Digest, dir)
				if fault.KindOf(err) != fault.Unavailable {
					t.Error(err)
				}
				return
			}
			if _, err := c.Materialise(t.Context(), infos[0].Name, infos[0].Digest, dir); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Equal(t, size, s.read)
}

// Copies are bounded: the one that was not used for longest goes, unless it is open.
func TestCopiesAreBounded(t *testing.T) {
	s, infos, size := farAway(t, 4)
	c, dir := dataset.New(s), t.TempDir()
	c.KeepCopies(2*size + size/2)
	has := func(i int) bool {
		_, err := os.Stat(filepath.Join(dir, infos[i].Digest))
		return err == nil
	}
	first, err := os.Open(materialise(t, c, infos[0], dir).TrainX)
	require.NoError(t, err)
	defer first.Close()
	dataset.Use(first)
	materialise(t, c, infos[1], dir)
	materialise(t, c, infos[2], dir)
	require.Equal(t, []bool{true, false, true}, []bool{has(0), has(1), has(2)})
	second, err := os.Open(materialise(t, c, infos[2], dir).TestY)
	require.NoError(t, err)
	defer second.Close()
	dataset.Use(second)
	_, err = c.Materialise(t.Context(), infos[3].Name, infos[3].Digest, dir)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "raise that limit")
	require.NoError(t, second.Close())
	materialise(t, c, infos[3], dir)
	require.Equal(t, []bool{true, false, false, true}, []bool{has(0), has(1), has(2), has(3)})
	before := s.read
	materialise(t, c, infos[1], dir)
	require.Equal(t, size, s.read-before, "what has gone is read again")
}

// A node without the bucket works through another's.
func TestCopiesOverHTTP(t *testing.T) {
	s, infos, _ := farAway(t, 1)
	server := httptest.NewServer(remote.NewHandler(s.Store))
	defer server.Close()
	c := dataset.New(remote.New(remote.At(server.Client(), server.URL)))
	near, far := t.TempDir(), t.TempDir()
	info, err := c.Latest(t.Context(), "d0")
	require.NoError(t, err)
	require.Equal(t, infos[0], info)
	materialise(t, c, info, far)
	materialise(t, dataset.New(s.Store), info, near)
	for _, name := range []string{"train-x.npy", "train-y.npy", "test-x.npy", "test-y.npy"} {
		a, err := os.ReadFile(filepath.Join(near, info.Digest, name))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(far, info.Digest, name))
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}
