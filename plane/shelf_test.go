package plane_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
)

// openIn returns how many files of a folder this process has open; its lock on
// the folder does not count.
func openIn(t *testing.T, folder string) (n int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, folder+"/") {
			n++
		}
	}
	return n
}

func seal(t *testing.T, s *plane.Scratch, key string) plane.Ref {
	t.Helper()
	d, err := s.Create(key, 1)
	require.NoError(t, err)
	_, err = d.Write([]byte{7})
	require.NoError(t, err)
	ref, err := d.Seal()
	require.NoError(t, err)
	return ref
}

// A sealed file is opened once, whoever reads it, and closed when it is removed
// and the last reader has gone.
func TestASealedFileIsOpenOnce(t *testing.T) {
	s := open(t, config.Scratch{Dir: t.TempDir()})
	ref := seal(t, s, "a")
	first, err := s.Open(t.Context(), ref)
	require.NoError(t, err)
	second, err := s.Open(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, 1, openIn(t, s.Folder()))
	require.NoError(t, s.Remove("a"))
	for range 2 {
		require.NoError(t, first.Close(), "closing again closes nobody else's")
	}
	got := make([]byte, 1)
	_, err = second.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, []byte{7}, got)
	require.NoError(t, second.Close())
	require.Zero(t, openIn(t, s.Folder()))
	require.Equal(t, byte(7), got[0])
	_, err = s.Open(t.Context(), ref)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.Equal(t, 1, openIn(t, filepath.Dir(s.Folder())), "the lock")
}

// However many keys there are, few files are open.
func TestFewFilesAreOpen(t *testing.T) {
	s := open(t, config.Scratch{Dir: t.TempDir()})
	var keys []string
	for i := range 2 * plane.ShelfSize {
		keys = append(keys, fmt.Sprint(i))
		blob, err := s.Open(t.Context(), seal(t, s, keys[i]))
		require.NoError(t, err)
		require.NoError(t, blob.Close())
	}
	require.Equal(t, plane.ShelfSize, openIn(t, s.Folder()))
	require.NoError(t, s.Remove(keys...))
	require.Zero(t, openIn(t, s.Folder()))
}

// A file that somebody cuts is found out though it is open.
func TestACutFileIsCorrupt(t *testing.T) {
	s := open(t, config.Scratch{Dir: t.TempDir()})
	ref := seal(t, s, "a")
	path := filepath.Join(s.Folder(), "a")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Truncate(path, 0))
	_, err := s.Open(t.Context(), ref)
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
}
