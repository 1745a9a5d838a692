package function

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Import reads a program into the store, all or nothing, and makes it the
// current version of its name: that of the file or folder, in lower case, what
// is not a-z, 0-9, "." or "_" replaced by "-". The same content again is the
// same version.
//
// source is a file that ends in .py, which is all of the program, or a folder
// with main.py, of which every file is taken but hidden ones, __pycache__ and
// virtual environments. Links are followed to files within the folder.
//
// NotFound: no such path. Invalid, with the reason: what is no program, links
// out of the folder or to folders, more than MaxFiles or MaxBytes. Unavailable.
func (c *Catalog) Import(ctx context.Context, source string) (Info, error) {
	return c.ImportAs(ctx, c.slug(source), Source{Path: source})
}

// Source is where a program is imported from.
type Source struct {
	Path   string // of a file or folder, see Import
	Called string // what errors call that; empty: the path
}

// ImportAs is Import under a name that the caller chooses; see CheckName.
// Invalid also: a reserved name.
func (c *Catalog) ImportAs(ctx context.Context, name string, from Source) (Info, error) {
	if err := c.checkFree(importOp, name); err != nil {
		return Info{}, err
	}
	p, err := read(ctx, from.Path)
	if err != nil {
		called := cmp.Or(from.Called, fmt.Sprintf("program %q", from.Path))
		return Info{}, fault.New(importOp, fault.KindOf(err), "%s: %w", called, err)
	}
	p.info.Name = name
	if err := c.save(ctx, p); err != nil {
		return Info{}, fault.New(importOp, fault.KindOf(err), "store function %q: %w", name, err)
	}
	return p.info, nil
}

// checkFree refuses a name that nothing may have which is put into the store.
func (c *Catalog) checkFree(op, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if slices.Contains(c.reserved, name) {
		return fault.New(op, fault.Invalid, "the name %q is that of a built-in function: choose another", name)
	}
	return nil
}

// save writes a program, manifest last. Of a version that is there what is
// whole stays; its manifest then says that it is current.
func (c *Catalog) save(ctx context.Context, p *program) error {
	info := &p.info
	others, err := c.versions(ctx, info.Name)
	if err != nil && fault.KindOf(err) != fault.Corrupt {
		return err
	}
	info.Imported = time.Now().UTC().Round(0)
	for _, other := range others { // whatever the clocks say, what is imported last is current
		if !other.Imported.Before(info.Imported) {
			info.Imported = other.Imported.Add(1)
		}
	}
	there := slices.ContainsFunc(others, func(other Info) bool { return other.Version == info.Version })
	err = c.put(ctx, p, there)
	if err != nil && !there {
		c.discard(context.WithoutCancel(ctx), info)
	}
	return err
}

func (c *Catalog) put(ctx context.Context, p *program, there bool) error {
	if err := c.putFiles(ctx, p, there); err != nil {
		return err
	}
	b, err := json.MarshalIndent(p.info, "", "  ")
	if err != nil {
		return err
	}
	err = c.store.Put(ctx, manifestKey(p.info.Name, p.info.Version), bytesOf(append(b, '\n')))
	if err != nil || !there {
		return err
	}
	return c.putFiles(ctx, p, there) // what package gc took for garbage until the manifest was written
}

// putFiles writes the files; where some are there, those that are not whole.
func (c *Catalog) putFiles(ctx context.Context, p *program, there bool) error {
	for i, f := range p.info.Files {
		if there {
			if _, err := c.readFile(ctx, &p.info, f); err == nil {
				continue
			}
		}
		if err := c.store.Put(ctx, fileKey(p.info.Name, p.info.Version, f.Name), bytesOf(p.contents[i])); err != nil {
			return err
		}
	}
	return nil
}

// discard removes what a failed save left. One that another process completed
// meanwhile stays; should that race be lost, the next import repairs it.
func (c *Catalog) discard(ctx context.Context, info *Info) {
	if _, err := c.store.Stat(ctx, manifestKey(info.Name, info.Version)); fault.KindOf(err) != fault.NotFound {
		return
	}
	for _, f := range info.Files {
		_ = c.store.Delete(ctx, fileKey(info.Name, info.Version, f.Name)) // best effort: without a manifest they do not count
	}
}

func bytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// slug turns a path into a name.
func (c *Catalog) slug(source string) string {
	if abs, err := filepath.Abs(source); err == nil { // "." has a name too
		source = abs
	}
	base := strings.TrimSuffix(strings.ToLower(filepath.Base(source)), ".py")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, base)
	name = strings.Trim(name[:min(len(name), 50)], "-._")
	switch {
	case name == "":
		return "program"
	case slices.Contains(c.reserved, name): // the built-in one would hide it
		return name + "-program"
	}
	return name
}
