package cache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

const partExt = ".part" // ends the name of a copy that is not whole

// copies puts the objects in the folder of their entry. Callers wait for each other,
// so that each object is read once.
func (c *Cache) copies(ctx context.Context, entry string, objects []Object) ([]string, error) {
	leave, err := c.enter(ctx, entry)
	if err != nil {
		return nil, err
	}
	defer leave()
	own, release, err := c.hold(entry)
	if err != nil {
		return nil, err
	}
	defer release()
	var paths []string
	for _, o := range objects {
		path := filepath.Join(own, o.Name)
		paths = append(paths, path)
		if c.isWhole(path, o) {
			continue
		}
		lacks := o.Bytes
		if part, err := os.Stat(path + partExt); err == nil {
			lacks -= part.Size()
		}
		if err := c.trim(own, lacks); err != nil {
			return nil, err
		}
		if err := c.copy(ctx, o, path); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// enter waits until nobody else of this cache is at work on an entry.
func (c *Cache) enter(ctx context.Context, entry string) (leave func(), err error) {
	for {
		c.mu.Lock()
		busy := c.busy[entry]
		if busy == nil {
			done := make(chan struct{})
			c.busy[entry] = done
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				delete(c.busy, entry)
				close(done)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, stopped(ctx)
		}
	}
}

func stopped(ctx context.Context) error {
	return fault.New(op, fault.Unavailable, "stopped: %w", ctx.Err())
}

// isWhole reports whether a copy is there. One that this cache did not make is read
// in full once.
func (c *Cache) isWhole(path string, want Object) bool {
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

func (c *Cache) see(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[path] = true
}

// copy makes one file, going on with what an earlier try has left.
func (c *Cache) copy(ctx context.Context, o Object, path string) error {
	part, err := openPart(path + partExt)
	if err != nil {
		return asUnavailable(err)
	}
	if part == nil { // another process is at it: it need not be waited for
		return writeFile(path, func(w io.Writer) error { return c.read(ctx, o, w) })
	}
	defer func() { _ = part.Close() }()
	resumed, err := c.fill(ctx, o, part)
	if fault.KindOf(err) == fault.Corrupt && resumed {
		_, err = c.fill(ctx, o, part) // what was there was not what it seemed: fill has emptied it
	}
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return fault.New(op, cmp.Or(fault.KindOf(err), fault.Unavailable), "%s: %w", path, err)
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
func (c *Cache) fill(ctx context.Context, want Object, part *os.File) (resumed bool, err error) {
	h := sha256.New()
	have, err := begun(part, want, h)
	if err != nil {
		return false, asUnavailable(err)
	}
	r, err := c.store.Get(ctx, want.Key, have, -1)
	if fault.KindOf(err) == fault.Invalid { // it is shorter than it should be
		return false, fault.New(op, fault.Corrupt, "%s: %w", want.Key, err)
	}
	if err != nil {
		return false, fault.New(op, missing(err), "%w", err)
	}
	defer func() { _ = r.Close() }()
	n, err := io.Copy(io.MultiWriter(part, h), until{ctx, r})
	if err != nil {
		return false, fault.New(op, cmp.Or(fault.KindOf(err), fault.Unavailable), "%s: %w", want.Key, err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); have+n != want.Bytes || sum != want.SHA256 {
		_ = part.Truncate(0)
		return have > 0, want.other(have+n, sum)
	}
	return false, nil
}

// begun reads what is there of a file, and stands behind it.
func begun(part *os.File, want Object, h io.Writer) (int64, error) {
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

// Put gives the files of an entry that is in no store: of those that are not there
// write writes the one of that index.
func (c *Cache) Put(ctx context.Context, entry string, objects []Object, write func(i int, w io.Writer) error) ([]string, error) {
	own, release, err := c.hold(entry)
	if err != nil {
		return nil, err
	}
	defer release()
	var paths []string
	for i, o := range objects {
		if ctx.Err() != nil {
			return nil, stopped(ctx)
		}
		path := filepath.Join(own, o.Name)
		paths = append(paths, path)
		if info, err := os.Stat(path); err == nil && info.Size() == o.Bytes {
			continue
		}
		if err := writeFile(path, func(w io.Writer) error { return write(i, w) }); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// writeFile creates or replaces a file, whole or not at all.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return asUnavailable(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	err = write(f)
	if e := f.Close(); err == nil && e != nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return asUnavailable(err)
}
