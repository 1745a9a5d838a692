package claim

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// lock is an exclusive flock on a file of the store. The kernel frees it with
// the process, however that ends.
type lock struct{ file *os.File }

// newLock makes and locks the file of a claim to be. It returns nil where
// files of the store cannot be locked: there beats alone tell who lives.
func (r *Register) newLock(ctx context.Context, what Subject, n uint64, token string) (*lock, error) {
	name := what.key(n, lockPrefix+token)
	path, ok := r.path(name)
	if !ok {
		return nil, nil
	}
	err := r.store.PutIfAbsent(ctx, name, func(io.Writer) error { return nil })
	if err != nil && fault.KindOf(err) != fault.Conflict { // nobody else knows the token: it is ours, of a try before
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // removed by who got the number first (see dropLocks): the claim will tell
	}
	if err != nil {
		return nil, fault.New("claim.take", fault.Unavailable, "open the lock: %w", err)
	}
	switch err := flock(file, unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return &lock{file}, nil
	case errors.Is(err, unix.EWOULDBLOCK): // nobody knows its name yet, but who looks at every file
		_ = file.Close()
		return nil, fault.New("claim.take", fault.Unavailable, "another process has locked %s", path)
	default: // this file system has no locks
		_ = file.Close()
		return nil, r.store.Delete(ctx, name)
	}
}

// release frees the lock; that of nil does nothing.
func (l *lock) release() error {
	if l == nil {
		return nil
	}
	// Closing alone would leave it to a child that was forked and has not yet
	// called exec.
	err := flock(l.file, unix.LOCK_UN)
	if cerr := l.file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fault.New("claim.release", fault.Unavailable, "release the lock: %w", err)
	}
	return nil
}

// isFree reports whether nobody holds the lock of that key. It asks for a
// shared lock, so that those who ask do not mistake each other for the owner.
// What cannot be asked is not free.
func (r *Register) isFree(name string) bool {
	path, ok := r.path(name)
	if !ok {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	if flock(file, unix.LOCK_SH|unix.LOCK_NB) != nil {
		return false
	}
	_ = flock(file, unix.LOCK_UN)
	return true
}

func (r *Register) path(name string) (string, bool) {
	l, ok := r.store.(store.Localizer)
	if !ok {
		return "", false
	}
	return l.Path(name)
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
