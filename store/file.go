package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// File is a bucket in a folder, which several processes may share: the object
// of key "a/b" is the file a/b. It is a Store and a Localizer.
//
// An object is written under a temporary name in its own folder, synced, then
// renamed (Put) or hard-linked (PutIfAbsent) to its key, and the folder synced.
// link(2) fails where the name exists, on every file system and between
// processes: that makes it the claim. The writer holds an flock on its
// temporary file; one without is a dead writer's, which Sweep removes.
// Folders come with the first object in them and go with the last.
//
// The folder is held open, so that no link leads out of it; and at each call the
// path must still lead to it, and its store.json be what it was, see openRoot.
type File struct {
	dir string // absolute

	stale atomic.Bool // the open folder is to be opened anew

	mu      sync.Mutex      // guards what follows
	open    *folder         // nil until it is first needed and there
	life    uint64          // how many have been opened
	id      string          // of the store; "": not known to have one
	durable map[string]bool // folders whose own entry is known to be on disk
	closed  bool

	stop context.CancelFunc // ends the sweep
	done chan struct{}      // closed when the sweep has ended
}

var (
	_ Store     = (*File)(nil)
	_ Localizer = (*File)(nil)
)

// NewFile opens the bucket in the folder dir, which need not exist: the first
// Put creates it, for this user alone. What dead writers left is swept in the
// background. A dir that is no folder is fault.Invalid.
func NewFile(dir string) (*File, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fault.New("store.open", fault.Invalid, "store folder: %w", err)
	}
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return nil, fault.New("store.open", fault.Invalid, "store %s is not a folder", dir)
	case errors.Is(err, unix.ENAMETOOLONG):
		return nil, fault.New("store.open", fault.Invalid, "the path of the store is too long (%d characters): give a shorter one", len(dir))
	case errors.Is(err, unix.ENOTDIR):
		return nil, fault.New("store.open", fault.Invalid, "store %s lies behind a file: %w", dir, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fault.New("store.open", fault.Unavailable, "open store: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &File{dir: dir, durable: map[string]bool{}, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		// What a sweep cannot do now, the next opener's will.
		_, _ = f.Sweep(ctx)
	}()
	return f, nil
}

// Get implements Store. The file is opened once, so a later replacement of the
// object is not seen.
func (f *File) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	const op = "store.get"
	if err := checkRange(key, offset, length); err != nil {
		return nil, err
	}
	root, err := f.openRoot(ctx, op, key)
	if err != nil {
		return nil, err
	}
	file, err := root.Open(key)
	if err != nil {
		return nil, f.readFault(op, key, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = file.Close()
		return nil, f.readFault(op, key, err)
	}
	if err := checkOffset(key, offset, info.Size()); err != nil {
		_ = file.Close()
		return nil, err
	}
	if length < 0 || length > info.Size()-offset {
		length = info.Size() - offset
	}
	return &section{io.NewSectionReader(file, offset, length), file}, nil
}

// section reads a part of a file and closes the file.
type section struct {
	*io.SectionReader
	io.Closer
}

// Stat implements Store.
func (f *File) Stat(ctx context.Context, key string) (Object, error) {
	const op = "store.stat"
	if err := CheckKey(key); err != nil {
		return Object{}, err
	}
	root, err := f.openRoot(ctx, op, key)
	if err != nil {
		return Object{}, err
	}
	info, err := root.Lstat(key)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Object{}, f.readFault(op, key, err)
	}
	return objectOf(key, info), nil
}

// objectOf describes a file. Each content is a file of its own; the number of one
// may be that of an earlier one, but not at the same time.
func objectOf(key string, info fs.FileInfo) Object {
	o := Object{Key: key, Size: info.Size(), ModTime: info.ModTime(), Version: uint64(info.ModTime().UnixNano())}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		o.Version += stat.Ino * 0x9e3779b97f4a7c15
	}
	return o
}

// Path implements Localizer.
func (f *File) Path(key string) (string, bool) {
	if CheckKey(key) != nil {
		return "", false
	}
	return filepath.Join(f.dir, filepath.FromSlash(key)), true
}

// URL implements Store: file:///folder/key.
func (f *File) URL(key string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(f.dir, key))}).String()
}

// Close implements Store. Readers that Get gave out stay valid.
func (f *File) Close() error {
	f.stop()
	<-f.done
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.open.close()
	f.open = nil
	return nil
}

// readFault gives an error of a read its kind.
func (f *File) readFault(op, key string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return fault.New(op, fault.NotFound, "no object %q in %s", key, f.dir)
	}
	return f.unavailable(op, key, err)
}

// unavailable wraps what the file system refused, naming the path.
func (f *File) unavailable(op, key string, err error) error {
	if fault.KindOf(err) == fault.Unavailable {
		return err // it says the path
	}
	f.suspect(err)
	// The path is said once, in full: those inside err are relative or
	// temporary names.
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	return fault.New(op, fault.Unavailable, "%s: %w", filepath.Join(f.dir, key), err)
}

// checkRange checks what can be checked of a Get before the object is known.
func checkRange(key string, offset, length int64) error {
	if offset < 0 || length < -1 {
		return fault.New("store.get", fault.Invalid, "%q: offset %d, length %d: want offset >= 0 and length >= -1", key, offset, length)
	}
	return CheckKey(key)
}

// checkOffset checks that a range starts within an object of that size.
func checkOffset(key string, offset, size int64) error {
	if offset > size {
		return fault.New("store.get", fault.Invalid, "%q: offset %d lies behind its %d bytes", key, offset, size)
	}
	return nil
}
