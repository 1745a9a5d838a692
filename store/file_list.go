package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
)

// List implements Store. It starts at the folder of the prefix, and holds the
// names of one folder per level in memory.
func (f *File) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	const op = "store.list"
	return func(yield func(Object, error) bool) {
		if err := checkPrefix(prefix); err != nil {
			yield(Object{}, err)
			return
		}
		root, err := f.openRoot(ctx, op, prefix)
		if err == nil {
			err = walk(ctx, root, path.Dir(prefix+"x"), func(key string, entry fs.DirEntry) error {
				return visit(key, prefix, entry, yield)
			})
		}
		switch {
		case err == nil, errors.Is(err, fs.SkipAll), fault.KindOf(err) == fault.NotFound:
		case ctx.Err() != nil:
			yield(Object{}, fault.New(op, fault.Unavailable, "list %q: %w", prefix, ctx.Err()))
		default:
			yield(Object{}, f.unavailable(op, prefix, err))
		}
	}
}

// Folders implements Store. A folder without an object, where a writer is just
// at work or was killed, is not there.
func (f *File) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	const op = "store.folders"
	return func(yield func(string, error) bool) {
		if err := checkFolder(prefix); err != nil {
			yield("", err)
			return
		}
		root, err := f.openRoot(ctx, op, prefix)
		if err == nil {
			err = walk(ctx, root, path.Clean(prefix+"."), func(key string, entry fs.DirEntry) error {
				if !entry.IsDir() || refusePart(entry.Name()) != "" {
					return fs.SkipDir
				}
				if there, err := holdsObject(ctx, root, key); err != nil || !there {
					return cmp.Or(err, fs.SkipDir)
				}
				if !yield(entry.Name(), nil) {
					return fs.SkipAll
				}
				return fs.SkipDir
			})
		}
		switch {
		case err == nil, errors.Is(err, fs.SkipAll), fault.KindOf(err) == fault.NotFound:
		case ctx.Err() != nil:
			yield("", fault.New(op, fault.Unavailable, "list %q: %w", prefix, ctx.Err()))
		default:
			yield("", f.unavailable(op, prefix, err))
		}
	}
}

// holdsObject reports whether there is an object below dir.
func holdsObject(ctx context.Context, root *os.Root, dir string) (bool, error) {
	found := false
	err := walk(ctx, root, dir, func(key string, entry fs.DirEntry) error {
		return visit(key, dir+"/", entry, func(Object, error) bool { found = true; return false })
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return found, err
}

// visit yields one file if it is an object under prefix, and says which
// folders to leave out.
func visit(key, prefix string, entry fs.DirEntry, yield func(Object, error) bool) error {
	if refusePart(path.Base(key)) != "" { // ours, or a stranger's
		return fs.SkipDir
	}
	if entry.IsDir() {
		if !strings.HasPrefix(key+"/", prefix) {
			return fs.SkipDir
		}
		return nil
	}
	if !entry.Type().IsRegular() || !strings.HasPrefix(key, prefix) {
		return nil
	}
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted since the folder was read
	}
	if err != nil {
		return err
	}
	if !yield(objectOf(key, info), nil) {
		return fs.SkipAll
	}
	return nil
}

// walk calls visit for everything below dir, in bytewise order of the keys. A
// folder is visited before what is in it; fs.SkipDir leaves that out, any
// other error ends the walk. Folders that vanish meanwhile are passed over.
func walk(ctx context.Context, root *os.Root, dir string, visit func(key string, entry fs.DirEntry) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := readDir(root, dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortName(a), sortName(b)) })
	for _, entry := range entries {
		key := path.Join(dir, entry.Name())
		err := visit(key, entry)
		if err == nil && entry.IsDir() {
			err = walk(ctx, root, key, visit)
		}
		if err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}

// sortName orders a folder by the keys in it: "a-b" < "a/b" < "a0".
func sortName(entry fs.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

func readDir(root *os.Root, dir string) ([]fs.DirEntry, error) {
	d, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	return d.ReadDir(-1)
}

const (
	// sweepAge spares a temporary file between its creation and its lock.
	sweepAge = time.Minute
	// sweepAgeUnlocked is the age without a write from which a temporary file
	// counts as left behind where the file system has no locks.
	sweepAgeUnlocked = time.Hour
)

// Sweep removes the temporary files that dead writers left, of whatever
// process, and returns how many. NewFile runs it in the background.
func (f *File) Sweep(ctx context.Context) (int, error) {
	const op = "store.sweep"
	root, err := f.openRoot(ctx, op, "")
	if fault.KindOf(err) == fault.NotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	swept := 0
	err = walk(ctx, root, ".", func(key string, entry fs.DirEntry) error {
		if entry.Type().IsRegular() && isTemp(entry.Name()) && isLeft(root, key, time.Now()) && unlink(root, key, 0) == nil {
			swept++
			f.prune(root, path.Dir(key))
		}
		return nil
	})
	if err != nil {
		return swept, f.unavailable(op, "", err)
	}
	return swept, nil
}

// isLeft reports whether nobody writes a temporary file any more.
func isLeft(root *os.Root, temp string, now time.Time) bool {
	file, err := root.Open(temp)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || now.Sub(info.ModTime()) < sweepAge {
		return false
	}
	switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return true
	case errors.Is(err, unix.EWOULDBLOCK):
		return false
	default:
		return now.Sub(info.ModTime()) > sweepAgeUnlocked
	}
}
