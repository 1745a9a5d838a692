package plane

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Scratch is a Space of files in a folder of this process alone,
// `<dir>/troupe-<uid>/<random>`, mode 0700, held by flock: it is gone with
// Close, and when the process was killed, with the next OpenScratch of the same
// user.
type Scratch struct {
	node   string
	folder string
	lock   *os.File // the folder, open and locked
	book   *book
	shelf  shelf

	gate sync.RWMutex // held for reading by whoever touches files, for writing by Close
}

var _ Space = (*Scratch)(nil)

// OpenScratch makes this process's folder, after sweeping those that killed
// processes left behind. Node is the name that refs carry. Warn, which may be
// nil, is told in one line each: that the disk is used because memory has no
// room, and that a folder could not be swept. Errors: Invalid (cfg),
// Unavailable (the folder cannot be made, or belongs to somebody else).
func OpenScratch(cfg config.Scratch, node string, warn func(string)) (*Scratch, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if warn == nil {
		warn = func(string) {}
	}
	dir := chooseDir(cfg, warn)
	folder, lock, err := makeFolder(dir)
	if err != nil {
		return nil, fault.New("plane.open", fault.Unavailable,
			"make a scratch folder in %s: %w: free some room there", dir, err)
	}
	return &Scratch{node: node, folder: folder, lock: lock, book: newBook("scratch "+folder, cfg.Limit)}, nil
}

// Folder is this process's own folder.
func (s *Scratch) Folder() string { return s.folder }

// Create implements Space: the blocks of the file are allocated when it
// returns, so a full disk shows here and not in a worker's write.
func (s *Scratch) Create(key string, size int64) (Draft, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if err := s.book.reserve(key, size); err != nil {
		return nil, err
	}
	d, err := s.newDraft(key, size)
	if err != nil {
		s.book.abort(key)
		return nil, err
	}
	return d, nil
}

// Open implements Space. The blob reads with pread: a mapped file that shrinks
// would kill the process.
func (s *Scratch) Open(_ context.Context, ref Ref) (Blob, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if err := s.book.find(s.node, ref); err != nil {
		return nil, err
	}
	b, err := s.open(ref.Key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New("plane.open", fault.NotFound, "key %q is gone: %w", ref.Key, err)
	}
	if err != nil {
		return nil, fault.New("plane.open", fault.Unavailable, "open key %q: %w", ref.Key, err)
	}
	b.size, err = length(b.file)
	if err == nil && b.size != ref.Bytes {
		err = lengthError(ref, b.size)
	}
	if err != nil {
		_ = b.Close()
		return nil, err
	}
	return b, nil
}

// open returns the file of a sealed key, shared if it is on the shelf.
func (s *Scratch) open(key string) (*fileBlob, error) {
	path := s.path(key)
	if f := s.shelf.take(key); f != nil {
		return &fileBlob{file: f.File, path: path, close: sync.OnceValue(func() error { s.shelf.give(f); return nil })}, nil
	}
	f, err := openFile(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &fileBlob{file: f, path: path, close: f.Close}, nil
}

// Remove implements Space.
func (s *Scratch) Remove(keys ...string) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	var errs []error
	gone := s.book.remove(keys)
	s.shelf.drop(gone...)
	for _, key := range gone {
		if err := os.Remove(s.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fault.New("plane.remove", fault.Unavailable, "remove key %q: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// List implements Space.
func (s *Scratch) List(prefix string) []string { return s.book.list(prefix) }

// Usage implements Space.
func (s *Scratch) Usage() Usage { return s.book.report() }

// Close removes the folder with all that is in it.
func (s *Scratch) Close() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if !s.book.close() {
		return nil
	}
	s.shelf.clear()
	err := os.RemoveAll(s.folder)
	_ = os.Remove(filepath.Dir(s.folder)) // when this process was the last
	_ = s.lock.Close()                    // the lock ends after the folder
	if err != nil {
		return fault.New("plane.close", fault.Unavailable, "remove the scratch folder: %w", err)
	}
	return nil
}

func (s *Scratch) path(key string) string { return filepath.Join(s.folder, fileName(key)) }

// fileBlob reads a sealed file.
type fileBlob struct {
	file  *os.File // others may read it, too
	path  string
	size  int64
	close func() error
}

func (b *fileBlob) ReadAt(p []byte, off int64) (int, error) { return b.file.ReadAt(p, off) }
func (b *fileBlob) Size() int64                             { return b.size }
func (b *fileBlob) Path() string                            { return b.path }
func (b *fileBlob) Close() error                            { return b.close() }

func length(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fault.New("plane.stat", fault.Unavailable, "length of %s: %w", f.Name(), err)
	}
	return info.Size(), nil
}

// openFile is os.OpenFile for plain files, which cannot be waited for: os tries,
// at five system calls a file. New ones are this user's alone.
func openFile(path string, flags int) (*os.File, error) {
	var fd int
	err := ignoreEINTR(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// room returns the bytes that a user without privileges may still write to the
// file system of folder.
func room(folder string) (int64, error) {
	var st unix.Statfs_t
	if err := ignoreEINTR(func() error { return unix.Statfs(folder, &st) }); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

func ignoreEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
