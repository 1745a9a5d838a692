package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// openRoot returns the open folder, once it has seen that the path still leads
// to it. Where there is no store yet the answer is that key does not exist:
// fault.NotFound.
//
// A folder that was moved away, unmounted, emptied or removed is not written to
// any more: that is Unavailable, until it is back or another with the store's id
// stands in its place, such as a copy. See Pin for those who remember what the
// store has.
func (f *File) openRoot(ctx context.Context, op, key string) (*os.Root, error) {
	if err := ctx.Err(); err != nil {
		return nil, fault.New(op, fault.Unavailable, "%q: %w", key, err)
	}
	root, life, err := f.root()
	if err != nil && fault.KindOf(err) == fault.Unknown {
		err = f.readFault(op, key, err)
	}
	if err != nil {
		return nil, err
	}
	if pinned, ok := ctx.Value(pinKey{}).(pin); ok && pinned.file == f && pinned.life != life {
		return nil, fault.New(op, fault.Unavailable, "another folder has taken the place of the store %s in the middle of this: it is tried again there", f.dir)
	}
	return root, nil
}

// root returns the open folder and which one it is.
func (f *File) root() (*os.Root, uint64, error) {
	now, err := lookAt(f.dir) // not under the lock: a server that hangs holds up nobody else
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, 0, fault.New("store.open", fault.Unavailable, "the store %s is closed", f.dir)
	}
	if err != nil || f.open == nil || f.stale.Load() || !f.open.is(now, f.id) {
		if err := f.reopenLocked(); err != nil {
			return nil, 0, err
		}
	}
	if f.id == "" {
		f.id = f.open.readID()
	}
	return f.open.root, f.life, nil
}

// reopenLocked opens the folder that the path leads to now, if it is this store.
func (f *File) reopenLocked() error {
	next, err := openFolder(f.dir)
	if err != nil && f.id == "" {
		f.dropLocked()
		return err
	}
	if err != nil {
		return f.away(err)
	}
	id := next.readID()
	if f.id != "" && id != f.id {
		next.close()
		return f.another(id)
	}
	if f.open != nil && !f.stale.Load() && f.open.is(next.seen, f.id) { // it was looked at before it was this
		next.close()
		return nil
	}
	f.dropLocked()
	f.open, f.id = next, id
	f.life++
	return nil
}

// dropLocked closes the folder. What is in the middle of a write there fails.
func (f *File) dropLocked() {
	f.open.close()
	f.open = nil
	f.stale.Store(false)
	clear(f.durable)
}

// away says that nothing is where the store was.
func (f *File) away(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fault.New("store.open", fault.Unavailable,
		"the folder of the store, %s, is away (%w): mount it or move it back; it has the id %s in %s", f.dir, err, f.id, idKey)
}

// another says that what stands where the store was is not it.
func (f *File) another(id string) error {
	path := filepath.Join(f.dir, idKey)
	if id == "" {
		return fault.New("store.open", fault.Unavailable,
			`%s is not the store that was open here: it has no %s that can be read, which said {"id":"%s"}: mount the store or move it back; if it is lost, write that to %s, and running jobs are saved anew here`,
			f.dir, idKey, f.id, path)
	}
	return fault.New("store.open", fault.Unavailable,
		"%s is not the store that was open here: %s says the id %s, that one had %s: mount it or move it back; for this one, end this process and begin a new one", f.dir, path, id, f.id)
}

// settled reports whether the path still leads to root: if not, what was written
// there is not in the store.
func (f *File) settled(op, key string, root *os.Root) error {
	now, _, err := f.root()
	switch {
	case err != nil && fault.KindOf(err) == fault.Unknown:
		return f.unavailable(op, key, err)
	case err != nil:
		return err
	case now != root:
		return fault.New(op, fault.Unavailable, "another folder has taken the place of the store %s while %s was written: it is tried again there", f.dir, key)
	}
	return nil
}

// suspect has a folder opened anew that its file server does not know any more.
func (f *File) suspect(err error) {
	if errors.Is(err, unix.ESTALE) {
		f.stale.Store(true)
	}
}
