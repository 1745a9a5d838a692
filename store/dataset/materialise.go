package dataset

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const materialiseOp = "dataset.materialise"

// Files are the paths of a data set's arrays on this machine: .npy files,
// version 1, C order, little endian. They must only be read.
type Files struct{ TrainX, TrainY, TestX, TestY string }

func newFiles(paths [4]string) Files {
	return Files{TrainX: paths[0], TrainY: paths[1], TestX: paths[2], TestY: paths[3]}
}

// Materialise gives the files of a data set on this machine, checked against
// its digest. Those of a store whose objects are files here are used in place;
// they are read in full once in the life of the catalog, and again if another
// folder takes the store's place; later only their sizes are compared. Others, and the built-in ones, are copied to
// dir/<digest>/: each file whole or not at all, so that callers and processes
// may do it at the same time. A copy that is there is read in full once, too; one
// that was begun is gone on with. See KeepCopies for how much there may be.
//
// dir is created; removing it is the caller's. NotFound; Corrupt names the
// object; Unavailable names the path.
func (c *Catalog) Materialise(ctx context.Context, name, digest, dir string) (Files, error) {
	if name == Digits {
		d, err := c.digits()
		if err != nil {
			return Files{}, err
		}
		if d.manifest.Digest == digest {
			return copyAll(ctx, &d.manifest, dir, func(i int, w io.Writer) error { return d.arrays[i].writeTo(w) })
		}
	}
	m, err := readManifest(ctx, c.store, name, digest)
	if err != nil {
		return Files{}, err
	}
	if local, ok := c.store.(store.Localizer); ok {
		if files, ok, err := c.inPlace(ctx, m, local); ok || err != nil {
			return files, err
		}
	}
	return c.copies(ctx, m, dir)
}

// read verifies one file of the store, writing a copy to w.
func (c *Catalog) read(ctx context.Context, m *manifest, i int, w io.Writer) error {
	key := m.key(fileNames[i])
	r, err := c.store.Get(ctx, key, 0, -1)
	if err != nil {
		return fault.New(materialiseOp, missing(err), "data set %q: %w", m.Name, err)
	}
	defer func() { _ = r.Close() }()
	if err := m.Files[i].verify(&stopper{ctx: ctx, Writer: w}, r); err != nil {
		kind := fault.KindOf(err)
		if kind == fault.Unknown {
			kind = fault.Unavailable
		}
		return fault.New(materialiseOp, kind, "data set %q, %s: %w", m.Name, key, err)
	}
	return nil
}

// missing is the kind of an error about an object that a manifest promised.
func missing(err error) fault.Kind {
	if kind := fault.KindOf(err); kind != fault.NotFound {
		return kind
	}
	return fault.Corrupt
}

// inPlace returns the files of a store whose objects are files here; false if
// they are not.
func (c *Catalog) inPlace(ctx context.Context, m *manifest, local store.Localizer) (files Files, ok bool, err error) {
	ctx, life, err := store.Pin(ctx, c.store)
	if err != nil {
		return Files{}, false, err
	}
	var paths [4]string
	for i, name := range fileNames {
		if paths[i], ok = local.Path(m.key(name)); !ok {
			return Files{}, false, nil
		}
		o, err := c.store.Stat(ctx, m.key(name))
		if err != nil {
			return Files{}, false, fault.New(materialiseOp, missing(err), "data set %q: %w", m.Name, err)
		}
		if o.Size != m.Files[i].Bytes {
			return Files{}, false, fault.New(materialiseOp, fault.Corrupt, "data set %q, %s: %d bytes, want %d", m.Name, o.Key, o.Size, m.Files[i].Bytes)
		}
	}
	c.mu.Lock()
	seen := verified{m.Digest, life}
	known := c.verified[seen]
	c.mu.Unlock()
	if !known {
		for i := range fileNames {
			if err := c.read(ctx, m, i, io.Discard); err != nil {
				return Files{}, false, err
			}
		}
		c.mu.Lock()
		c.verified[seen] = true
		c.mu.Unlock()
	}
	return newFiles(paths), true, nil
}

// copyAll puts the files in dir/<digest>/, each with what write writes.
func copyAll(ctx context.Context, m *manifest, dir string, write func(i int, w io.Writer) error) (Files, error) {
	dir = filepath.Join(dir, m.Digest)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Files{}, fault.New(materialiseOp, fault.Unavailable, "%w", err)
	}
	var paths [4]string
	for i, name := range fileNames {
		if err := ctx.Err(); err != nil {
			return Files{}, fault.New(materialiseOp, fault.Unavailable, "stopped: %w", err)
		}
		paths[i] = filepath.Join(dir, name)
		if info, err := os.Stat(paths[i]); err == nil && info.Size() == m.Files[i].Bytes {
			continue
		}
		if err := copyFile(paths[i], func(w io.Writer) error { return write(i, w) }); err != nil {
			return Files{}, err
		}
	}
	return newFiles(paths), nil
}

// copyFile creates or replaces a file, whole or not at all.
func copyFile(path string, write func(io.Writer) error) (err error) {
	failed := func(err error) error {
		return fault.New(materialiseOp, fault.Unavailable, "%s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return failed(err)
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
	if err != nil && fault.KindOf(err) == fault.Unknown {
		return failed(err)
	}
	return err
}
