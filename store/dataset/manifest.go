package dataset

import (
	"context"
	"encoding/json"
	"io"
	"path"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	folder       = "datasets"
	manifestName = "manifest.json"
	maxManifest  = 1 << 20 // bytes
)

// manifest is datasets/<name>/<digest>/manifest.json: written last, it says
// that the four files beside it are complete, and what they are.
type manifest struct {
	Name     string   `json:"name"`
	Digest   string   `json:"digest"`
	Train    int64    `json:"train"`
	Test     int64    `json:"test"`
	XShape   []int64  `json:"x_shape"`
	XType    string   `json:"x_type"`
	YShape   []int64  `json:"y_shape"`
	YType    string   `json:"y_type"`
	Warnings []string `json:"warnings,omitempty"`
	Files    [4]file  `json:"files"` // in the order of fileNames
}

func (m *manifest) info() Info {
	return Info{
		Name: m.Name, Digest: m.Digest, Train: m.Train, Test: m.Test,
		XShape: m.XShape, XType: m.XType, YShape: m.YShape, YType: m.YType, Warnings: m.Warnings,
	}
}

// key is the key of a file of the data set.
func (m *manifest) key(file string) string { return path.Join(folder, m.Name, m.Digest, file) }

// readManifest reads the manifest of a data set in the store. NotFound;
// Corrupt when it is not what was written.
func readManifest(ctx context.Context, s store.Store, name, digest string) (*manifest, error) {
	const op = "dataset.open"
	want := &manifest{Name: name, Digest: digest}
	b, err := store.Read(ctx, s, want.key(manifestName), maxManifest)
	switch fault.KindOf(err) {
	case fault.NotFound, fault.Invalid: // Invalid: no key, so no such data set
		return nil, fault.New(op, fault.NotFound, "no data set %q with digest %.12s… in the store: %w", name, digest, err)
	}
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fault.New(op, fault.Corrupt, "data set %q: broken manifest: %w", name, err)
	}
	if err := m.check(want); err != nil {
		return nil, fault.New(op, fault.Corrupt, "data set %q: broken manifest: %w", name, err)
	}
	return m, nil
}

func (m *manifest) check(want *manifest) error {
	for _, f := range m.Files {
		if len(f.SHA256) != 64 || f.Bytes <= 0 {
			return fault.New("dataset.open", fault.Corrupt, "a file of %d bytes, sha256 %q", f.Bytes, f.SHA256)
		}
	}
	if m.Name != want.Name || m.Digest != want.Digest || m.Digest != digest(m.Files) {
		return fault.New("dataset.open", fault.Corrupt, "it is that of %q with digest %.12s…, its files say %.12s…", m.Name, m.Digest, digest(m.Files))
	}
	if m.Train < 1 || m.Test < 0 {
		return fault.New("dataset.open", fault.Corrupt, "%d training and %d test samples", m.Train, m.Test)
	}
	return nil
}

// save writes the data set, manifest last. What is there complete stays; what
// is there in part, from an import that failed, is written again.
func (c *contents) save(ctx context.Context, s store.Store, name string, as naming) (*manifest, error) {
	m := c.manifest
	m.Name = name
	if old, err := readManifest(ctx, s, m.Name, m.Digest); err == nil && complete(ctx, s, old) {
		return old, nil
	} else if kind := fault.KindOf(err); err != nil && kind != fault.NotFound && kind != fault.Corrupt {
		return nil, err
	}
	if err := c.put(ctx, s, &m, as); err != nil {
		discard(context.WithoutCancel(ctx), s, &m)
		return nil, fault.New("dataset.import", fault.KindOf(err), "store data set %q: %w", name, err)
	}
	return &m, nil
}

func (c *contents) put(ctx context.Context, s store.Store, m *manifest, as naming) error {
	for i, array := range c.arrays {
		err := s.Put(ctx, m.key(fileNames[i]), func(w io.Writer) error { return m.Files[i].written(w, array) })
		if err != nil {
			return err
		}
	}
	return as.give(ctx, m, func() error { return m.put(ctx, s) })
}

func (m *manifest) put(ctx context.Context, s store.Store) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return s.Put(ctx, m.key(manifestName), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// complete reports whether the files of a manifest are there, by their size.
func complete(ctx context.Context, s store.Store, m *manifest) bool {
	for i, f := range m.Files {
		if o, err := s.Stat(ctx, m.key(fileNames[i])); err != nil || o.Size != f.Bytes {
			return false
		}
	}
	return true
}

// discard removes what a failed save left. One that another process completed
// meanwhile stays; should that race be lost, the next import repairs it.
func discard(ctx context.Context, s store.Store, m *manifest) {
	if _, err := s.Stat(ctx, m.key(manifestName)); fault.KindOf(err) != fault.NotFound {
		return
	}
	for _, name := range fileNames {
		_ = s.Delete(ctx, m.key(name)) // best effort: without a manifest they do not count
	}
}
