package plane

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// fileDraft is a file under its temporary name, its blocks allocated and its
// length 0: so the length tells what was written, by whichever process.
type fileDraft struct {
	space   *Scratch
	key     string
	size    int64
	file    *os.File // nil once ended
	digest  xxhash.Digest
	written int64 // through Write
}

var _ io.ReaderFrom = (*fileDraft)(nil)

func (s *Scratch) newDraft(key string, size int64) (*fileDraft, error) {
	path := filepath.Join(s.folder, draftName(key))
	f, err := openFile(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, s.fullError(key, size, err)
	}
	if err := allocate(f, size); err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, s.fullError(key, size, err)
	}
	d := &fileDraft{space: s, key: key, size: size, file: f}
	d.digest.Reset()
	return d, nil
}

// fullError says why size bytes for key cannot be had, and what to do.
func (s *Scratch) fullError(key string, size int64, err error) error {
	return fault.New("plane.create", fault.Unavailable,
		"reserve %d bytes for key %q in scratch folder %s of node %s: %w: free some room there, or run fewer functions at once",
		size, key, s.folder, s.node, err)
}

// allocate gives f blocks for size bytes and leaves its length 0.
func allocate(f *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	// A large one is asked for first, because an allocation that fails half-way
	// has filled the disk for everybody else until it is undone.
	const large = 1 << 20
	if size > large {
		free, err := room(filepath.Dir(f.Name()))
		if err != nil {
			return err
		}
		if size > free {
			return unix.ENOSPC
		}
	}
	// In steps, so that a signal costs one step and not the whole.
	const step = 64 << 20
	for at := int64(0); at < size; at += step {
		n := min(step, size-at)
		err := ignoreEINTR(func() error {
			return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, at, n)
		})
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil // a file system without reservations: the check above must do
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *fileDraft) Write(p []byte) (int, error) {
	if d.file == nil {
		return 0, endedError(d.key)
	}
	if int64(len(p)) > d.size-d.written {
		return 0, overflowError(d.key, d.size)
	}
	n, err := d.file.Write(p)
	_, _ = d.digest.Write(p[:n])
	d.written += int64(n)
	if err != nil {
		return n, fault.New("plane.write", fault.Unavailable, "write key %q: %w", d.key, err)
	}
	return n, nil
}

func (d *fileDraft) ReadFrom(r io.Reader) (int64, error) { return fill(d, d.size-d.written, r) }

// fill copies r into a draft that lacks some bytes. Its buffer is no longer than
// that, because most drafts are small, and their writers many. One byte more
// shows what is too long.
func fill(draft io.Writer, lacks int64, r io.Reader) (int64, error) {
	const most = 64 << 10
	onlyWrite := struct{ io.Writer }{draft}
	return io.CopyBuffer(onlyWrite, r, make([]byte, min(lacks+1, most)))
}

func (d *fileDraft) Path() string { return filepath.Join(d.space.folder, draftName(d.key)) }

func (d *fileDraft) Seal() (Ref, error) {
	if d.file == nil {
		return Ref{}, endedError(d.key)
	}
	ref, err := d.seal()
	if err != nil {
		_ = d.Abort()
		return Ref{}, err
	}
	return ref, nil
}

func (d *fileDraft) seal() (Ref, error) {
	s := d.space
	s.gate.RLock()
	defer s.gate.RUnlock()
	size, err := length(d.file)
	if err != nil {
		return Ref{}, err
	}
	if size != d.size {
		return Ref{}, shortError(d.key, d.size, size)
	}
	ref := Ref{Node: s.node, Key: d.key, Bytes: size}
	if d.written == size {
		ref.Digest = d.digest.Sum64()
	}
	// Read-only, so that a worker that opens the wrong path for writing fails.
	if err := d.file.Chmod(0o400); err != nil {
		return Ref{}, fault.New("plane.seal", fault.Unavailable, "seal key %q: %w", d.key, err)
	}
	if err := unix.Rename(d.Path(), s.path(d.key)); err != nil { // os.Rename looks for folders first
		return Ref{}, fault.New("plane.seal", fault.Unavailable, "seal key %q: %w", d.key, err)
	}
	s.shelf.put(d.key, d.file) // before anybody can remove the key
	if err := s.book.seal(d.key); err != nil {
		s.shelf.drop(d.key)
		return Ref{}, err
	}
	d.file = nil
	return ref, nil
}

func (d *fileDraft) Abort() error {
	if d.file == nil {
		return nil
	}
	d.space.gate.RLock()
	defer d.space.gate.RUnlock()
	_ = os.Remove(d.Path()) // gone already when the space is closed
	_ = d.file.Close()
	d.file = nil
	d.space.book.abort(d.key)
	return nil
}
