// Package dataset is the catalog of data sets: four arrays each (x and y, to
// train and to test), named by what they contain, in the store under
//
//	datasets/<name>/<digest>/manifest.json, train-x.npy, train-y.npy, test-x.npy, test-y.npy
//
// The arrays are .npy files, version 1, C order, little endian; the digest is
// the SHA-256 over their SHA-256s. A data set without a manifest is not there.
package dataset

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// defaultTestShare is the part of the samples that is kept for testing where a
// file has no test part of its own.
const defaultTestShare = 0.2

// Info describes a data set. Name and Digest name it for good.
type Info struct {
	Name        string
	Digest      string   // 64 lower-case hexadecimal digits
	Train, Test int64    // samples; Train >= 1, Test 0 only for a file of one sample
	XShape      []int64  // of one sample; empty: one value
	XType       string   // as numpy names it: "float32", "uint8"
	YShape      []int64  // of one label; empty: one value
	YType       string   // as XType
	Warnings    []string // for the user, each one line
}

// Options say how a file is read. The zero value is the default.
type Options struct {
	TestShare float64 // part to test with where there is none, in (0, 1); 0 means 0.2
	Seed      uint64  // which samples those are
	Label     string  // column of a CSV file that is y, by its name; "" means the last
	Called    string  // what errors call the file or folder; "" means its path
}

// Catalog gives access to the data sets of a store. It is safe for concurrent
// use, beside other processes on the same store too.
type Catalog struct {
	store  store.Store
	digits func() (*contents, error)
}

// New returns the catalog of a store, which stays the caller's to close.
func New(s store.Store) *Catalog {
	return &Catalog{store: s, digits: sync.OnceValues(loadDigits)}
}

// Open finds a data set by what the user calls it: "digits", which is built
// in; a name in the store, whose latest digest counts; or a path, which has a
// slash or ends in .csv, .csv.gz or .npz.
//
// A path is imported into the store, all or nothing; the same content again
// makes it the latest of its name, and does nothing else. Where it has no test part one is split off as opts say.
//   - CSV, gzipped or not: the last column or opts.Label is y, the others are x
//     (float32); y is int64 when all labels are whole numbers, else float32.
//   - .npz: the arrays x_train and y_train, and x_test and y_test.
//   - a folder with those as .npy files, x_train.npy or train-x.npy and so on.
//   - a folder with the IDX files of MNIST, gzipped or not.
//
// Memory is a few buffers and 9 bytes a sample, whatever the arrays' sizes;
// see tensor.ConvertNpy for Fortran order.
//
// NotFound; Invalid (with the reason) for what is refused: object arrays,
// lengths that differ, no samples, labels that are NaN or infinite; Corrupt
// for what is truncated or broken; Unavailable. What is refused leaves nothing
// in the store.
func (c *Catalog) Open(ctx context.Context, name string, opts Options) (Info, error) {
	switch {
	case !isPath(name) && (opts.Label != "" || opts.TestShare != 0):
		return Info{}, fault.New("dataset.open", fault.Invalid,
			"data set %q is imported already: --label and --test-share say how a file is read, so give its path", name)
	case name == "":
		return Info{}, fault.New("dataset.open", fault.Invalid, "a data set needs a name or a path")
	case name == Digits:
		d, err := c.digits()
		if err != nil {
			return Info{}, err
		}
		info := d.manifest.info()
		info.Name = Digits
		return info, nil
	case isPath(name):
		return c.importFile(ctx, name, opts)
	}
	return c.Latest(ctx, name)
}

// Get finds a data set by its name and digest. NotFound, Corrupt, Unavailable.
func (c *Catalog) Get(ctx context.Context, name, digest string) (Info, error) {
	if name == Digits {
		if info, err := c.Open(ctx, name, Options{}); err != nil || info.Digest == digest {
			return info, err
		}
	}
	m, err := readManifest(ctx, c.store, name, digest)
	if err != nil {
		return Info{}, err
	}
	return m.info(), nil
}

// importFile reads a file into the store.
func (c *Catalog) importFile(ctx context.Context, path string, opts Options) (Info, error) {
	return c.importAs(ctx, slug(path), path, opts, anyTime{}) // the file may have changed
}

// naming says when contents may have a name.
type naming interface {
	// may says why contents of a digest may not have it; nil: they may.
	may(ctx context.Context, digest string) error
	// give has put give it to them, unless they may not have it any more.
	give(ctx context.Context, m *manifest, put func() error) error
}

// anyTime lets a name mean something else each time.
type anyTime struct{}

func (anyTime) may(context.Context, string) error { return nil }

func (anyTime) give(_ context.Context, _ *manifest, put func() error) error { return put() }

// importAs reads a file into the store under a name, if naming lets it.
func (c *Catalog) importAs(ctx context.Context, name, path string, opts Options, as naming) (Info, error) {
	if opts.TestShare == 0 {
		opts.TestShare = defaultTestShare
	}
	if math.IsNaN(opts.TestShare) || opts.TestShare < 0 || opts.TestShare >= 1 {
		return Info{}, fault.New(importOp, fault.Invalid, "test share %v not in (0, 1)", opts.TestShare)
	}
	var s spools
	defer s.close()
	loaded, err := load(ctx, path, opts, &s)
	if err != nil {
		kind := fault.KindOf(err)
		if kind == fault.Unknown { // from the operating system, while reading what was spooled
			kind = fault.Unavailable
		}
		return Info{}, fault.New(importOp, kind, "%s: %w", cmp.Or(opts.Called, fmt.Sprintf("data set %q", path)), err)
	}
	if err := as.may(ctx, loaded.manifest.Digest); err != nil {
		return Info{}, err
	}
	m, err := loaded.save(ctx, c.store, name, as)
	if err != nil {
		return Info{}, err
	}
	// What is imported last is what the name means, and is too young for
	// package gc, even if it was there before another.
	if latest, err := c.Latest(ctx, m.Name); err != nil || latest.Digest != m.Digest {
		err := m.put(ctx, c.store)
		if err == nil && !complete(ctx, c.store, m) { // which took it for garbage just then
			err = loaded.put(ctx, c.store, m, as)
		}
		if err != nil {
			return Info{}, fault.New(importOp, fault.KindOf(err), "store data set %q: %w", m.Name, err)
		}
	}
	return m.info(), nil
}

// Latest returns the data set of that name that was imported last. NotFound;
// Invalid: the name; Corrupt; Unavailable.
func (c *Catalog) Latest(ctx context.Context, name string) (Info, error) {
	const op = "dataset.open"
	prefix := path.Join(folder, name) + "/"
	if store.CheckKey(path.Join(folder, name)) != nil || strings.Contains(name, "/") {
		return Info{}, fault.New(op, fault.Invalid, "%q cannot be the name of a data set", name)
	}
	var newest time.Time
	latest := ""
	for o, err := range c.store.List(ctx, prefix) {
		if err != nil {
			return Info{}, fault.New(op, fault.KindOf(err), "find data set %q: %w", name, err)
		}
		digest, ok := strings.CutSuffix(strings.TrimPrefix(o.Key, prefix), "/"+manifestName)
		if ok && (latest == "" || o.ModTime.After(newest)) {
			latest, newest = digest, o.ModTime
		}
	}
	if latest == "" {
		return Info{}, fault.New(op, fault.NotFound, "no data set %q: not built in (%s), not in the store, and not a path (a folder here is ./%s; files end in %s)",
			name, Digits, name, strings.Join(formats[:], ", "))
	}
	return c.Get(ctx, name, latest)
}
