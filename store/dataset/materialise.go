package dataset

import (
	"context"
	"io"
	"path"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/cache"
)

const materialiseOp = "dataset.materialise"

// Files are the paths of a data set's arrays on this machine: .npy files,
// version 1, C order, little endian. They must only be read.
type Files struct{ TrainX, TrainY, TestX, TestY string }

func newFiles(name string, paths []string, err error) (Files, error) {
	if err != nil {
		return Files{}, fault.New(materialiseOp, fault.KindOf(err), "data set %q: %w", name, err)
	}
	return Files{TrainX: paths[0], TrainY: paths[1], TestX: paths[2], TestY: paths[3]}, nil
}

// Materialise gives the files of a data set on this machine, checked against
// its digest: those of the store itself where they are files here, else, and of the
// built-in ones, copies in a cache of that store, which says how they are kept.
//
// NotFound; Corrupt names the object; Unavailable names the path.
func (c *Catalog) Materialise(ctx context.Context, name, digest string, in *cache.Cache) (Files, error) {
	if name == Digits {
		d, err := c.digits()
		if err != nil {
			return Files{}, err
		}
		if d.manifest.Digest == digest {
			paths, err := in.Put(ctx, d.manifest.entry(), d.manifest.objects(), func(i int, w io.Writer) error { return d.arrays[i].writeTo(w) })
			return newFiles(name, paths, err)
		}
	}
	m, err := readManifest(ctx, c.store, name, digest)
	if err != nil {
		return Files{}, err
	}
	paths, err := in.Files(ctx, m.entry(), m.objects())
	return newFiles(name, paths, err)
}

// entry is what a cache calls the data set.
func (m *manifest) entry() string { return path.Join(folder, m.Digest) }

// objects are its files as a cache wants them.
func (m *manifest) objects() (objects []cache.Object) {
	for i, f := range m.Files {
		objects = append(objects, cache.Object{Name: fileNames[i], Key: m.key(fileNames[i]), Bytes: f.Bytes, SHA256: f.SHA256})
	}
	return objects
}
