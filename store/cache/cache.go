// Package cache has the objects of a store as files of this machine: those of a
// store whose objects are files here are used in place, of others copies are kept.
//
// Copies of what belongs together are one entry, dir/<kind>/<digest>/. What has come
// of a copy is gone on with after an error, and in another process; what is there is
// read in full once and compared with its digest. All entries together are bounded:
// those go that were not used for longest, unless somebody has a file of them open.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const op = "cache.files"

// Object is an object of a store, and what it is as a file.
type Object struct {
	Name   string // of the copy, in the folder of its entry
	Key    string // in the store
	Bytes  int64
	SHA256 string // lower-case hexadecimal
}

// Cache has files of one store. It is safe for concurrent use, beside other
// processes with the same folder too.
type Cache struct {
	store store.Store
	dir   string
	limit int64

	mu       sync.Mutex               // guards what follows
	verified map[verified]bool        // entries used in place that were read and found right
	seen     map[string]bool          // copies that were, by path
	busy     map[string]chan struct{} // folders that copies go to just now, closed at its end
}

// verified is an entry in one place of the store, see store.Pin.
type verified struct {
	entry string
	life  uint64
}

// New returns the cache of a store, which stays the caller's to close. Copies go to
// dir, which is made when there is one, and take at most limit bytes; 0: any number.
func New(s store.Store, dir string, limit int64) *Cache {
	return &Cache{store: s, dir: dir, limit: limit, verified: map[verified]bool{}, seen: map[string]bool{}, busy: map[string]chan struct{}{}}
}

// Files gives the files of an entry, "<kind>/<digest>", in the order of its objects.
// They must only be read, and those that are open should be marked with Use. Corrupt
// names the object that is missing or is not what it should be; Unavailable.
func (c *Cache) Files(ctx context.Context, entry string, objects []Object) ([]string, error) {
	if ctx.Err() != nil {
		return nil, stopped(ctx)
	}
	for _, o := range objects {
		if sum, err := hex.DecodeString(o.SHA256); err != nil || len(sum) != sha256.Size {
			return nil, fault.New(op, fault.Corrupt, "%s: %.70q is no SHA-256", o.Key, o.SHA256)
		}
	}
	if local, ok := c.store.(store.Localizer); ok {
		if paths, ok, err := c.inPlace(ctx, local, entry, objects); ok || err != nil {
			return paths, err
		}
	}
	return c.copies(ctx, entry, objects)
}

// Open is Files for an entry of one object: it opens it, and marks it as used.
func (c *Cache) Open(ctx context.Context, entry string, object Object) (*os.File, error) {
	const tries, gap = 100, 10 * time.Millisecond
	for try := 0; ; try++ {
		paths, err := c.Files(ctx, entry, []Object{object})
		if err != nil {
			return nil, err
		}
		f, err := openUsed(paths[0])
		if err == nil || try == tries || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return f, asUnavailable(err)
		}
		time.Sleep(gap) // another process is about to remove it
	}
}

// openUsed opens a file that stays until it is closed.
func openUsed(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(err, f.Close())
	}
	there, err := os.Stat(path)
	if err == nil {
		var open fs.FileInfo
		if open, err = f.Stat(); err == nil && !os.SameFile(there, open) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Use marks a file as used as long as it is open.
func Use(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) } // where there are no locks, it may be copied again

// inPlace returns the files of a store whose objects are files here; false if
// they are not.
func (c *Cache) inPlace(ctx context.Context, local store.Localizer, entry string, objects []Object) (paths []string, ok bool, err error) {
	ctx, life, err := store.Pin(ctx, c.store)
	if err != nil {
		return nil, false, err
	}
	for _, o := range objects {
		path, ok := local.Path(o.Key)
		if !ok {
			return nil, false, nil
		}
		there, err := c.store.Stat(ctx, o.Key)
		if err != nil {
			return nil, false, fault.New(op, missing(err), "%w", err)
		}
		if there.Size != o.Bytes {
			return nil, false, fault.New(op, fault.Corrupt, "%s: %d bytes, want %d", o.Key, there.Size, o.Bytes)
		}
		paths = append(paths, path)
	}
	now := verified{entry, life}
	c.mu.Lock()
	known := c.verified[now]
	c.mu.Unlock()
	if known {
		return paths, true, nil
	}
	for _, o := range objects {
		if err := c.check(ctx, o); err != nil {
			return nil, false, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verified[now] = true
	return paths, true, nil
}

// missing is the kind of an error about an object that something has promised.
func missing(err error) fault.Kind {
	if kind := fault.KindOf(err); kind != fault.NotFound {
		return kind
	}
	return fault.Corrupt
}

func asUnavailable(err error) error {
	if err == nil || fault.KindOf(err) != fault.Unknown {
		return err
	}
	return fault.New(op, fault.Unavailable, "%w", err)
}

// hold makes the folder of an entry, which is used now, and stays until it is
// released.
func (c *Cache) hold(entry string) (own string, release func(), err error) {
	own = filepath.Join(c.dir, filepath.FromSlash(entry))
	for {
		if err := os.MkdirAll(own, 0o700); err != nil {
			return "", nil, asUnavailable(err)
		}
		dir, err := os.Open(own)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, asUnavailable(err)
		}
		for errors.Is(unix.Flock(int(dir.Fd()), unix.LOCK_SH), unix.EINTR) { // where there are no locks, it may be made again
			continue
		}
		open, err := dir.Stat()
		if there, gone := os.Stat(own); err == nil && gone == nil && os.SameFile(open, there) {
			_ = os.Chtimes(own, time.Time{}, time.Now()) // best effort: it says which is used
			return own, func() { _ = dir.Close() }, nil
		}
		_ = dir.Close() // it was being removed
	}
}
