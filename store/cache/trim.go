package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// copied is an entry that is there, whole or in part.
type copied struct {
	path  string
	bytes int64
	used  time.Time
}

// trim removes entries other than own until there is room for another file under
// the limit.
func (c *Cache) trim(own string, wanted int64) error {
	if c.limit <= 0 {
		return nil
	}
	all, err := c.entries()
	if err != nil {
		return asUnavailable(err)
	}
	total := wanted
	for _, one := range all {
		total += one.bytes
	}
	slices.SortFunc(all, func(a, b copied) int { return a.used.Compare(b.used) })
	for _, one := range all {
		if total > c.limit && one.path != own && c.removeUnused(one.path) {
			total -= one.bytes
		}
	}
	if total > c.limit {
		return fault.New(op, fault.Unavailable,
			"%s has no room for %d bytes more: copies of data sets and models may take %d there, and those in use take the rest: raise --cache-limit, or run fewer jobs at once",
			c.dir, wanted, c.limit)
	}
	return nil
}

// entries lists what is there.
func (c *Cache) entries() (all []copied, err error) {
	kinds, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		folders, err := os.ReadDir(filepath.Join(c.dir, kind.Name()))
		if err != nil {
			continue // no folder, so not ours; or nobody may look
		}
		for _, e := range folders {
			info, err := e.Info()
			if err != nil || !e.IsDir() {
				continue
			}
			path := filepath.Join(c.dir, kind.Name(), e.Name())
			all = append(all, copied{path, sizeOf(path), info.ModTime()})
		}
	}
	return all, nil
}

// sizeOf is what the files of a folder take.
func sizeOf(dir string) (total int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			total += info.Size()
		}
	}
	return total
}

// removeUnused removes an entry unless somebody is at work on it, or has a file of
// it open.
func (c *Cache) removeUnused(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	paths := []string{dir}
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		defer func() { _ = f.Close() }()
		if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
			return false
		}
	}
	c.mu.Lock()
	for _, path := range paths {
		delete(c.seen, path)
	}
	c.mu.Unlock()
	return os.RemoveAll(dir) == nil
}
