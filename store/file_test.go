package store_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// keys lists a whole store.
func keys(t *testing.T, s store.Store) []string {
	t.Helper()
	var keys []string
	for o, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

// temps returns the paths of the temporary files below dir.
func temps(t *testing.T, dir string) []string {
	t.Helper()
	var temps []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".troupe-tmp-") {
			temps = append(temps, path)
		}
		return err
	}))
	return temps
}

// age makes the temporary files below dir two minutes old.
func age(t *testing.T, dir string) {
	t.Helper()
	then := time.Now().Add(-2 * time.Minute)
	for _, path := range temps(t, dir) {
		require.NoError(t, os.Chtimes(path, then, then))
	}
}

func TestOpenCreatesNothingBeforeTheFirstPut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	defer s.Close()
	require.Empty(t, keys(t, s))
	_, err = s.Get(t.Context(), "k", 0, -1)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.NoError(t, s.Delete(t.Context(), "k"))
	require.Error(t, s.Put(t.Context(), "../k", nothing))
	require.NoDirExists(t, filepath.Dir(dir))
	require.NoError(t, s.Put(t.Context(), "k", nothing))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestObjectsAreFilesAtTheirPath(t *testing.T) {
	dir := t.TempDir()
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Put(t.Context(), "d/with space", text("x")))
	path, ok := s.Path("d/with space")
	require.True(t, ok)
	require.Equal(t, filepath.Join(dir, "d", "with space"), path)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "x", string(b))
	require.Equal(t, "file://"+dir+"/d/with%20space", s.URL("d/with space"))
	_, ok = s.Path("../x")
	require.False(t, ok)
}

func TestLinksDoNotLeadOutOfTheStore(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "link")))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), nil, 0o600))
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Get(t.Context(), "link/secret", 0, -1)
	require.Error(t, err)
	require.Error(t, s.Put(t.Context(), "link/new", nothing))
	require.NoFileExists(t, filepath.Join(outside, "new"))
	require.Empty(t, keys(t, s))
}

// Young temporary files may be between creation and lock, and what is no
// temporary file is not ours to remove.
func TestSweepSparesTheYoungAndTheForeign(t *testing.T) {
	dir := t.TempDir()
	young, lock := filepath.Join(dir, ".troupe-tmp-1"), filepath.Join(dir, ".troupe-lock")
	require.NoError(t, os.WriteFile(young, nil, 0o600))
	require.NoError(t, os.WriteFile(lock, nil, 0o600))
	require.NoError(t, os.Chtimes(lock, time.Unix(0, 0), time.Unix(0, 0)))
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	defer s.Close()
	swept, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, swept)
	require.Empty(t, keys(t, s))
	require.FileExists(t, young)
	require.FileExists(t, lock)
}

func TestReadOnlyStoreIsUnavailableAndNamesThePath(t *testing.T) {
	s, err := store.NewFile("/proc/troupe")
	require.NoError(t, err)
	defer s.Close()
	err = s.Put(t.Context(), "k", nothing)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "/proc/troupe")
}

// Writing and reading 256 MiB takes a fixed window of memory.
func TestBigObjectsTakeNoMemory(t *testing.T) {
	s, err := store.NewFile(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	buf := make([]byte, 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, s.Put(t.Context(), "big", func(w io.Writer) error {
		for range 256 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		return nil
	}))
	r, err := s.Get(t.Context(), "big", 0, -1)
	require.NoError(t, err)
	defer r.Close()
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, buf)
	require.NoError(t, err)
	require.EqualValues(t, 256<<20, n)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(8<<20), "allocated in all")
}

// A writer locks its temporary file, which becomes the object. A child that is
// forked meanwhile has the file open, too, until it calls exec: the object must
// not stay locked with it, for those who take an object for a lock.
func TestAnObjectIsNotLocked(t *testing.T) {
	s, err := store.NewFile(t.TempDir())
	require.NoError(t, err)
	defer s.Close()
	var inherited []int
	defer func() {
		for _, fd := range inherited {
			_ = unix.Close(fd)
		}
	}()
	require.NoError(t, s.PutIfAbsent(t.Context(), "lock", func(io.Writer) error {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, e := range entries {
			if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(link, ".troupe-tmp-") {
				fd, err := strconv.Atoi(e.Name())
				require.NoError(t, err)
				// The sweep of the new store may have the file open for a moment, too.
				if fd, err = unix.Dup(fd); err == nil {
					inherited = append(inherited, fd)
				}
			}
		}
		return nil
	}))
	require.NotEmpty(t, inherited)
	path, _ := s.Path("lock")
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB))
}
