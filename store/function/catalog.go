// Package function is the catalog of the users' functions, programs and the
// endpoints of others, in the store under
//
//	functions/<name>/<version>/manifest.json, code/main.py, ...
//
// The version of a program is the SHA-256 over the names and contents of its
// files, so it names a program for good; that of endpoints is one over their
// URLs. The manifest is written last: a version without
// one is not there. Of several versions of a name the one imported last is the
// current one.
package function

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// Python is the runtime of every program that is imported from files.
const Python = "python"

// Info describes a function. Name and Version name it for good.
type Info struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`        // 64 lower-case hexadecimal digits
	Runtime  string    `json:"runtime"`        // Python or Remote
	Entry    string    `json:"entry"`          // the file to start with: main.py, or the only one; Remote: ""
	Single   bool      `json:"single"`         // it was imported from a file, not a folder
	Bytes    int64     `json:"bytes"`          // of all files
	Files    []File    `json:"files"`          // in the order of their names; Remote: none
	URLs     []string  `json:"urls,omitempty"` // of the endpoints, in order: Remote alone has them
	Imported time.Time `json:"imported"`       // by the clock of who imported it last
}

// File is a file of a program.
type File struct {
	Name   string `json:"name"` // slash-separated, relative
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // lower-case hexadecimal
}

// Catalog gives access to the programs of a store. It is safe for concurrent
// use, beside other processes on the same store too.
type Catalog struct {
	store    store.Store
	reserved []string
}

// New returns the catalog of a store, which stays the caller's to close. No
// program may have a reserved name: those of built-in functions, which would
// hide it.
func New(s store.Store, reserved ...string) *Catalog {
	return &Catalog{store: s, reserved: slices.Clone(reserved)}
}

// CheckName returns nil if a program may have that name: a to z, 0 to 9, ".",
// "_" and "-", at most 64, the first a letter or digit. Else Invalid.
func CheckName(name string) error {
	const op = "function.name"
	if name == "" || len(name) > 64 {
		return fault.New(op, fault.Invalid, "function name %.70q has %d characters, want 1 to 64", name, len(name))
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._-", r)) {
			return fault.New(op, fault.Invalid, "function name %q has the character %q at %d: want a-z, 0-9, and after the first . _ and -", name, r, i+1)
		}
	}
	return nil
}

// Show returns the current version of a program. NotFound; Invalid: the name;
// Corrupt; Unavailable.
func (c *Catalog) Show(ctx context.Context, name string) (Info, error) {
	const op = "function.show"
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	versions, err := c.versions(ctx, name)
	if err != nil {
		return Info{}, fault.New(op, fault.KindOf(err), "find function %q: %w", name, err)
	}
	if len(versions) == 0 {
		return Info{}, fault.New(op, fault.NotFound, "no function %q in the store", name)
	}
	return slices.MaxFunc(versions, older), nil
}

// Get returns one version of a program, and is else as Show.
func (c *Catalog) Get(ctx context.Context, name, version string) (Info, error) {
	if err := CheckName(name); err != nil {
		return Info{}, err
	}
	return c.readManifest(ctx, name, version)
}

// List returns the current version of each program, in the order of their
// names.
func (c *Catalog) List(ctx context.Context) ([]Info, error) {
	const op = "function.list"
	var names []string
	for o, err := range c.store.List(ctx, folder+"/") {
		if err != nil {
			return nil, fault.New(op, fault.KindOf(err), "list functions: %w", err)
		}
		if parts := strings.Split(o.Key, "/"); len(parts) == 4 && parts[3] == manifestName && CheckName(parts[1]) == nil {
			names = append(names, parts[1])
		}
	}
	slices.Sort(names)
	infos := []Info{}
	for _, name := range slices.Compact(names) {
		info, err := c.Show(ctx, name)
		if fault.KindOf(err) == fault.NotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Delete removes all versions of a program. NotFound; Invalid: the name;
// Unavailable: some may be gone.
func (c *Catalog) Delete(ctx context.Context, name string) error {
	const op = "function.delete"
	if err := CheckName(name); err != nil {
		return err
	}
	var manifests, files []string
	for o, err := range c.store.List(ctx, path.Join(folder, name)+"/") {
		if err != nil {
			return fault.New(op, fault.KindOf(err), "delete function %q: %w", name, err)
		}
		if path.Base(o.Key) == manifestName && strings.Count(o.Key, "/") == 3 {
			manifests = append(manifests, o.Key)
		} else {
			files = append(files, o.Key)
		}
	}
	if len(manifests) == 0 {
		return fault.New(op, fault.NotFound, "no function %q in the store", name)
	}
	for _, key := range append(manifests, files...) { // a manifest never promises what is gone
		if err := c.store.Delete(ctx, key); err != nil {
			return fault.New(op, fault.KindOf(err), "delete function %q: %w", name, err)
		}
	}
	return nil
}

// versions reads the manifests of a name.
func (c *Catalog) versions(ctx context.Context, name string) ([]Info, error) {
	prefix := path.Join(folder, name) + "/"
	var infos []Info
	for o, err := range c.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		version, ok := strings.CutSuffix(strings.TrimPrefix(o.Key, prefix), "/"+manifestName)
		if !ok || strings.Contains(version, "/") {
			continue
		}
		info, err := c.readManifest(ctx, name, version)
		switch {
		case fault.KindOf(err) == fault.NotFound: // deleted meanwhile
		case err != nil:
			return nil, err
		default:
			infos = append(infos, info)
		}
	}
	return infos, nil
}

// older orders versions by when they were imported.
func older(a, b Info) int {
	return cmp.Or(a.Imported.Compare(b.Imported), cmp.Compare(a.Version, b.Version))
}
