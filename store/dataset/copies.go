package dataset

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

const partExt = ".part" // ends the name of a copy that is not whole

// copies puts the files of a stored data set in dir/<digest>/. Callers of one
// catalog wait for each other, so that each file is read once.
func (c *Catalog) copies(ctx context.Context, m *manifest, dir string) (Files, error) {
	done, err := c.enter(ctx, filepath.Join(dir, m.Digest))
	if err != nil {
		return Files{}, err
	}
	defer done()
	own := filepath.Join(dir, m.Digest)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return Files{}, fault.New(materialiseOp, fault.Unavailable, "%w", err)
	}
	_ = os.Chtimes(own, time.Time{}, time.Now()) // best effort: it says which is used
	var paths [4]string
	for i, name := range fileNames {
		paths[i] = filepath.Join(own, name)
		if c.isWhole(paths[i], m.Files[i]) {
			continue
		}
		lacks := m.Files[i].Bytes
		if part, err := os.Stat(paths[i] + partExt); err == nil {
			lacks -= part.Size()
		}
		if err := c.trim(dir, own, lacks); err != nil {
			return Files{}, err
		}
		if err := c.copy(ctx, m, i, paths[i]); err != nil {
			return Files{}, err
		}
	}
	return newFiles(paths), nil
}

// enter waits until nobody else of this catalog is at work on a folder.
func (c *Catalog) enter(ctx context.Context, folder string) (leave func(), err error) {
	for {
		c.mu.Lock()
		busy := c.busy[folder]
		if busy == nil {
			done := make(chan struct{})
			c.busy[folder] = done
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.busy, folder)
				close(done)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, fault.New(materialiseOp, fault.Unavailable, "stopped: %w", ctx.Err())
		}
	}
}

// isWhole reports whether a copy is there. One that this catalog did not make is
// read in full once.
func (c *Catalog) isWhole(path string, want file) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != want.Bytes {
		return false
	}
	c.mu.Lock()
	known := c.seen[path]
	c.mu.Unlock()
	if known {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	if want.verify(io.Discard, f) != nil {
		return false
	}
	c.see(path)
	return true
}

func (c *Catalog) see(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[path] = true
}

// copy makes one file, going on with what an earlier try has left.
func (c *Catalog) copy(ctx context.Context, m *manifest, i int, path string) error {
	part, err := openPart(path + partExt)
	if err != nil {
		return fault.New(materialiseOp, fault.Unavailable, "%s: %w", path, err)
	}
	if part == nil { // another process is at it: it need not be waited for
		return copyFile(path, func(w io.Writer) error { return c.read(ctx, m, i, w) })
	}
	defer func() { _ = part.Close() }()
	resumed, err := c.fill(ctx, m, i, part)
	if fault.KindOf(err) == fault.Corrupt && resumed {
		_, err = c.fill(ctx, m, i, part) // what was there was not what it seemed: fill has emptied it
	}
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return fault.New(materialiseOp, cmp.Or(fault.KindOf(err), fault.Unavailable), "data set %q, %s: %w", m.Name, path, err)
	}
	c.see(path)
	return nil
}

// openPart opens and locks the beginning of a copy; nil: another process has.
func openPart(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			_ = f.Close()
			return nil, nil
		}
		// Where there are no locks the name is as good as one: others write the same.
		open, err := f.Stat()
		if err == nil {
			var there fs.FileInfo
			if there, err = os.Lstat(path); err == nil && os.SameFile(open, there) {
				return f, nil
			}
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// fill brings what is lacking of a file, and checks it all. Resumed: some of it was
// there. What is not right is emptied.
func (c *Catalog) fill(ctx context.Context, m *manifest, i int, part *os.File) (resumed bool, err error) {
	want, key := m.Files[i], m.key(fileNames[i])
	h := sha256.New()
	have, err := c.begun(part, want, h)
	if err != nil {
		return false, fault.New(materialiseOp, fault.Unavailable, "%w", err)
	}
	r, err := c.store.Get(ctx, key, have, -1)
	if fault.KindOf(err) == fault.Invalid { // it is shorter than the manifest says
		return false, fault.New(materialiseOp, fault.Corrupt, "%s: %w", key, err)
	}
	if err != nil {
		return false, fault.New(materialiseOp, missing(err), "%w", err)
	}
	defer func() { _ = r.Close() }()
	n, err := io.Copy(io.MultiWriter(&stopper{ctx: ctx, Writer: part}, h), r)
	if err != nil {
		return false, fault.New(materialiseOp, cmp.Or(fault.KindOf(err), fault.Unavailable), "%s: %w", key, err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); have+n != want.Bytes || sum != want.SHA256 {
		_ = part.Truncate(0)
		return have > 0, fault.New(materialiseOp, fault.Corrupt, "%s: %d bytes with sha256 %.12s…, want %d with %.12s…", key, have+n, sum, want.Bytes, want.SHA256)
	}
	return false, nil
}

// begun reads what is there of a file, and stands behind it.
func (c *Catalog) begun(part *os.File, want file, h hash.Hash) (int64, error) {
	info, err := part.Stat()
	if err == nil && info.Size() > want.Bytes {
		err = part.Truncate(0)
	}
	if err == nil {
		_, err = part.Seek(0, io.SeekStart)
	}
	if err != nil {
		return 0, err
	}
	return io.Copy(h, part)
}

// KeepCopies bounds the bytes of data sets that Materialise copies; 0, which is the
// default: no bound. Beyond it those go that were not used for longest and that
// nobody has open with Use. Call it before Materialise.
func (c *Catalog) KeepCopies(limit int64) { c.limit = limit }

// Use marks a file of Materialise's as used as long as it is open.
func Use(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) } // where there are no locks, it may be copied again

// trim removes copies in dir, not own's, until there is room for another file
// under the limit.
func (c *Catalog) trim(dir, own string, wanted int64) error {
	if c.limit <= 0 {
		return nil
	}
	type copied struct {
		path  string
		bytes int64
		used  time.Time
	}
	var all []copied
	total := wanted
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.New(materialiseOp, fault.Unavailable, "%w", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || !e.IsDir() {
			continue
		}
		one := copied{path, sizeOf(path), info.ModTime()}
		total += one.bytes
		if path != own {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b copied) int { return a.used.Compare(b.used) })
	for _, one := range all {
		if total > c.limit && c.removeUnused(one.path) {
			total -= one.bytes
		}
	}
	if total > c.limit {
		return fault.New(materialiseOp, fault.Unavailable,
			"%s has no room for %d bytes more: copies of data sets may take %d there, and those in use take the rest: raise that limit, or run fewer jobs at once", dir, wanted, c.limit)
	}
	return nil
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

// removeUnused removes a data set's copy unless somebody has a file of it open.
func (c *Catalog) removeUnused(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return false
		}
		defer func() { _ = f.Close() }()
		if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
			return false
		}
	}
	c.mu.Lock()
	for _, e := range entries {
		delete(c.seen, filepath.Join(dir, e.Name()))
	}
	c.mu.Unlock()
	return os.RemoveAll(dir) == nil
}
