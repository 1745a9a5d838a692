package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/failpoint"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	tempPrefix = reserved + "tmp-"
	dirMode    = 0o755 // below the bucket's folder, which is 0700
	fileMode   = 0o644

	maxDurable = 4096 // folders remembered; beyond it they are all forgotten
)

// Put implements Store.
func (f *File) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	return f.put(ctx, "store.put", key, write, (*os.Root).Rename)
}

// PutIfAbsent implements Store. write is not called if the key is seen to be
// there beforehand.
func (f *File) PutIfAbsent(ctx context.Context, key string, write func(io.Writer) error) error {
	const op = "store.put_if_absent"
	if _, err := f.Stat(ctx, key); err == nil {
		return fault.New(op, fault.Conflict, "object %q exists in %s", key, f.dir)
	} else if fault.KindOf(err) != fault.NotFound {
		return err
	}
	return f.put(ctx, op, key, write, (*os.Root).Link)
}

// put writes a temporary file and publishes it under key.
func (f *File) put(ctx context.Context, op, key string, write func(io.Writer) error, publish func(r *os.Root, from, to string) error) (err error) {
	if err := CheckKey(key); err != nil {
		return err
	}
	root, err := f.makeRoot(ctx, op, key)
	if err != nil {
		return err
	}
	defer func() {
		if fault.KindOf(err) != fault.Unavailable {
			return
		}
		if gone := f.settled(op, key, root); gone != nil {
			err = gone // what the folder said as it went is no help
		}
	}()
	file, temp, err := f.createTemp(root, path.Dir(key))
	if err != nil {
		f.prune(root, path.Dir(key))
		return f.writeFault(op, key, err)
	}
	published := false
	defer func() { // also when write panics
		_ = root.Remove(temp) // gone already if it was renamed
		// The object is the same file, and shall not seem locked: closing
		// alone leaves the lock to a child that another goroutine has forked
		// and that has not yet called exec.
		_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
		_ = file.Close()
		if !published {
			f.prune(root, path.Dir(key))
		}
	}()

	w := &putWriter{ctx: ctx, file: file, fault: func(err error) error { return f.writeFault(op, key, err) }}
	if err := failpoint.Pass("store.put.temp"); err != nil {
		return f.writeFault(op, key, err)
	}
	if err := write(w); w.err != nil { // which write may have ignored, and which says the path
		return w.err
	} else if err != nil {
		return fmt.Errorf("write %q: %w", key, err)
	}
	if err := ctx.Err(); err != nil {
		return fault.New(op, fault.Unavailable, "write %q: %w", key, err)
	}
	if err := errors.Join(failpoint.Pass("store.put.written"), file.Sync(), failpoint.Pass("store.put.synced")); err != nil {
		return f.writeFault(op, key, err)
	}
	if err := publish(root, temp, key); err != nil {
		return f.writeFault(op, key, err)
	}
	published = true
	if err := errors.Join(failpoint.Pass("store.put.published"), syncDir(root, path.Dir(key)), failpoint.Pass("store.put.done")); err != nil {
		return f.writeFault(op, key, err)
	}
	return f.settled(op, key, root)
}

// putWriter is what a write function writes to: it stops when ctx ends, and
// remembers its first error in case the function does not pass it on.
type putWriter struct {
	ctx   context.Context
	file  *os.File
	fault func(error) error
	err   error
}

func (w *putWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if err := w.ctx.Err(); err != nil {
		w.err = w.fault(err)
		return 0, w.err
	}
	n, err := writeHalves(w.file, p)
	if err != nil {
		w.err = w.fault(err)
	}
	return n, w.err
}

// writeHalves writes p, in builds with failpoints with one in its middle.
func writeHalves(file *os.File, p []byte) (int, error) {
	if !failpoint.Enabled {
		return file.Write(p)
	}
	n, err := file.Write(p[:len(p)/2])
	if err == nil {
		err = failpoint.Pass("store.put.half")
	}
	if err != nil {
		return n, err
	}
	m, err := file.Write(p[n:])
	return n + m, err
}

// Delete implements Store. Folders that become empty go as well.
func (f *File) Delete(ctx context.Context, key string) error {
	const op = "store.delete"
	if _, err := f.Stat(ctx, key); fault.KindOf(err) == fault.NotFound {
		return nil
	} else if err != nil {
		return err
	}
	root, err := f.openRoot(ctx, op, key)
	if err != nil {
		return err
	}
	if err := unlink(root, key, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.unavailable(op, key, err)
	}
	if err := failpoint.Pass("store.delete.removed"); err != nil {
		return f.unavailable(op, key, err)
	}
	if err := syncDir(root, path.Dir(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.unavailable(op, key, err)
	}
	f.prune(root, path.Dir(key))
	return nil
}

// makeRoot is openRoot for writing: it creates the bucket's folder.
func (f *File) makeRoot(ctx context.Context, op, key string) (*os.Root, error) {
	root, err := f.openRoot(ctx, op, key)
	if err == nil || fault.KindOf(err) != fault.NotFound {
		return root, err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return nil, f.unavailable(op, "", err)
	}
	for dir := filepath.Dir(f.dir); ; dir = filepath.Dir(dir) {
		// Best effort: the folders above belong to others and may refuse it.
		if d, err := os.Open(dir); err == nil {
			_ = d.Sync()
			_ = d.Close()
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return f.openRoot(ctx, op, key)
}

// createTemp creates and locks a temporary file in dir, making the folder
// where needed. A concurrent Delete may prune it in between, hence the loop.
func (f *File) createTemp(root *os.Root, dir string) (*os.File, string, error) {
	for try := 0; ; try++ {
		err := f.makeDirs(root, dir)
		if err == nil {
			temp := path.Join(dir, fmt.Sprintf("%s%016x", tempPrefix, rand.Uint64()))
			var file *os.File
			if file, err = root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode); err == nil {
				// Where flock is not supported Sweep goes by age.
				_ = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
				return file, temp, nil
			}
		}
		if !errors.Is(err, fs.ErrNotExist) || try == 100 {
			return nil, "", err
		}
		f.forget(dir)
	}
}

// makeDirs creates dir and the folders above it, and sees to it that their
// entries are on disk: its own, and those that others created just now.
func (f *File) makeDirs(root *os.Root, dir string) error {
	if dir == "." || f.isDurable(dir) {
		return nil
	}
	parent := path.Dir(dir)
	if err := f.makeDirs(root, parent); err != nil {
		return err
	}
	if err := root.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(root, parent); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.durable) >= maxDurable {
		clear(f.durable)
	}
	f.durable[dir] = true
	return nil
}

func (f *File) isDurable(dir string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.durable[dir]
}

// forget drops dir and the folders above it from those known to be on disk.
func (f *File) forget(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ; dir != "."; dir = path.Dir(dir) {
		delete(f.durable, dir)
	}
}

// prune removes dir and the folders above it as far as they are empty. It
// cannot take a folder from a writer, whose temporary file lies in it.
func (f *File) prune(root *os.Root, dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if err := unlink(root, dir, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		f.forget(dir)
	}
}

// unlink removes a file (flags 0) or an empty folder (AT_REMOVEDIR), and never
// the other of the two, which os.Root.Remove would.
func unlink(root *os.Root, name string, flags int) error {
	parent, err := root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	return unix.Unlinkat(int(parent.Fd()), path.Base(name), flags)
}

// syncDir writes the entries of a folder to disk.
func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// writeFault gives an error of a write its kind.
func (f *File) writeFault(op, key string, err error) error {
	switch {
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTDIR), errors.Is(err, fs.ErrExist), errors.Is(err, unix.ENOTEMPTY):
		what := "it exists"
		if !errors.Is(err, fs.ErrExist) {
			what = "an object cannot be the folder of another"
		}
		return fault.New(op, fault.Conflict, "object %q in %s: %s", key, f.dir, what)
	case errors.Is(err, unix.ENAMETOOLONG):
		return fault.New(op, fault.Invalid, "object %q in %s: %w", key, f.dir, unix.ENAMETOOLONG)
	}
	return f.unavailable(op, key, err)
}

// isTemp reports whether a file name is one of createTemp's.
func isTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) }
