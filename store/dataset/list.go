package dataset

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// List returns the data sets of the store, each name once with its latest
// digest, in the order of their names. The built-in one comes first. What
// cannot be read is left out.
func (c *Catalog) List(ctx context.Context) ([]Info, error) {
	builtIn, err := c.Open(ctx, Digits, Options{})
	if err != nil {
		return nil, err
	}
	infos, names := []Info{builtIn}, []string{}
	for name, err := range c.store.Folders(ctx, folder+"/") {
		if err != nil {
			return nil, fault.New("dataset.list", fault.KindOf(err), "list data sets: %w", err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		info, err := c.Latest(ctx, name)
		switch kind := fault.KindOf(err); {
		case err == nil:
			infos = append(infos, info)
		case kind == fault.NotFound || kind == fault.Corrupt || kind == fault.Invalid:
		default:
			return nil, err
		}
	}
	return infos, nil
}

// Create imports a file or folder, as Open does, under a name that the caller
// chooses: a to z, 0 to 9, ".", "_" and "-", at most 64. What has that name
// already is not replaced: the same contents again change nothing, others are a
// Conflict. Invalid also: another name, or that of the built-in data set.
func (c *Catalog) Create(ctx context.Context, name, source string, opts Options) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	return c.importAs(ctx, name, source, opts, once{c, name})
}

// once gives a name to one data set, until that is deleted.
type once struct {
	catalog *Catalog
	name    string
}

func (o once) may(ctx context.Context, digest string) error {
	switch there, err := o.catalog.Latest(ctx, o.name); {
	case err == nil && there.Digest != digest:
		return fault.New(importOp, fault.Conflict, "data set %q is there, with %d training and %d test samples, and these are others: delete it first (troupe dataset delete --name %s), or choose another name",
			o.name, there.Train, there.Test, o.name)
	case err == nil || fault.KindOf(err) == fault.NotFound || fault.KindOf(err) == fault.Corrupt: // which is no data set any more
		return nil
	default:
		return err
	}
}

func (o once) give(ctx context.Context, m *manifest, put func() error) error {
	h, err := take(ctx, o.catalog.store, o.name)
	if err != nil {
		return err
	}
	defer h.release(ctx)
	if err := o.may(ctx, m.Digest); err != nil { // another one was quicker
		return err
	}
	if err := put(); err != nil {
		return err
	}
	if err := h.held(ctx); err != nil { // this one slept for long
		_ = o.catalog.store.Delete(ctx, m.key(manifestName))
		return err
	}
	return nil
}

// CheckName returns nil if a data set of the store may have that name, else
// Invalid.
func CheckName(name string) error {
	switch {
	case name == Digits:
		return fault.New(importOp, fault.Invalid, "the name %q is that of the built-in data set: choose another", name)
	case name == "" || name != slug("/"+name) || isPath(name):
		return fault.New(importOp, fault.Invalid, "%q cannot be the name of a data set: give 1 to 64 of a-z, 0-9, \".\", \"_\" and \"-\", the first and last no \"-\" or \".\"", name)
	}
	return nil
}

// Delete removes a data set with all its digests. NotFound; Conflict for the
// built-in one.
func (c *Catalog) Delete(ctx context.Context, name string) error {
	const op = "dataset.delete"
	if name == Digits {
		return fault.New(op, fault.Conflict, "the data set %q is built in: it cannot be deleted", name)
	}
	if store.CheckKey(path.Join(folder, name)) != nil || strings.Contains(name, "/") {
		return fault.New(op, fault.Invalid, "%q cannot be the name of a data set", name)
	}
	var manifests, arrays []string
	for o, err := range c.store.List(ctx, path.Join(folder, name)+"/") {
		if err != nil {
			return fault.New(op, fault.KindOf(err), "find data set %q: %w", name, err)
		}
		if path.Base(o.Key) == manifestName {
			manifests = append(manifests, o.Key)
		} else {
			arrays = append(arrays, o.Key)
		}
	}
	if len(manifests) == 0 && len(arrays) == 0 {
		return fault.New(op, fault.NotFound, "no data set %q in the store", name)
	}
	for _, key := range append(manifests, arrays...) { // manifests first: without one it is not there
		if err := c.store.Delete(ctx, key); err != nil {
			return fault.New(op, fault.KindOf(err), "delete data set %q: %w", name, err)
		}
	}
	return nil
}
