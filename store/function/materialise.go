package function

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/troupe-ml/troupe/internal/fault"
)

const materialiseOp = "function.materialise"

// Materialise copies a program to dir/<version>/ on this machine, checked
// against its digests, and returns what to start: the file of a program that
// is one file, else the folder that holds main.py.
//
// The copy appears whole or not at all, so callers and processes may do it at
// the same time. One that is there is checked, and made anew if it is damaged;
// files that were added to it (Python's caches) stay. dir is created; removing
// it is the caller's. NotFound; Invalid: it has no code here; Corrupt names the object; Unavailable names
// the path.
func (c *Catalog) Materialise(ctx context.Context, name, version, dir string) (string, error) {
	info, err := c.Get(ctx, name, version)
	if err != nil {
		return "", err
	}
	if info.Runtime != Python {
		return "", fault.New(materialiseOp, fault.Invalid, "the function %q is %s: its code is not here", name, info.Runtime)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fault.New(materialiseOp, fault.Unavailable, "%w", err)
	}
	target := filepath.Join(dir, version)
	if !info.isAt(target) {
		if err := c.copyTo(ctx, &info, dir, target); err != nil {
			return "", err
		}
	}
	if info.Single {
		return filepath.Join(target, info.Entry), nil
	}
	return target, nil
}

// isAt reports whether a folder holds the files of the program.
func (i *Info) isAt(dir string) bool {
	for _, f := range i.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if stat, err := os.Lstat(path); err != nil || !stat.Mode().IsRegular() || stat.Size() != f.Bytes {
			return false
		}
		b, err := os.ReadFile(path)
		if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != f.SHA256 {
			return false
		}
	}
	return true
}

// copyTo copies the files to a temporary folder in dir, which becomes target.
func (c *Catalog) copyTo(ctx context.Context, info *Info, dir, target string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(materialiseOp, fault.Unavailable, "%w", err)
	}
	temp, err := os.MkdirTemp(dir, ".tmp-*")
	if err != nil {
		return fault.New(materialiseOp, fault.Unavailable, "%w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }() // what is in the way, too
	fresh := filepath.Join(temp, "new")
	for _, f := range info.Files {
		content, err := c.readFile(ctx, info, f)
		if err != nil {
			return err
		}
		path := filepath.Join(fresh, filepath.FromSlash(f.Name))
		err = os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, content, 0o600)
		}
		if err != nil {
			return fault.New(materialiseOp, fault.Unavailable, "%w", err)
		}
	}
	for try := 0; ; try++ {
		err := os.Rename(fresh, target)
		if err == nil || info.isAt(target) { // another caller was first
			return nil
		}
		if try == 8 || !errors.Is(err, fs.ErrExist) { // which ENOTEMPTY is too
			return fault.New(materialiseOp, fault.Unavailable, "%w", err)
		}
		old, e := os.MkdirTemp(temp, "old-*")
		if e == nil {
			e = os.Rename(target, filepath.Join(old, "damaged"))
		}
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			return fault.New(materialiseOp, fault.Unavailable, "%w", e)
		}
	}
}

// readFile reads one file from the store and checks it.
func (c *Catalog) readFile(ctx context.Context, info *Info, f File) ([]byte, error) {
	key := fileKey(info.Name, info.Version, f.Name)
	r, err := c.store.Get(ctx, key, 0, -1)
	if err != nil {
		kind := fault.KindOf(err)
		if kind == fault.NotFound { // the manifest promised it
			kind = fault.Corrupt
		}
		return nil, fault.New(materialiseOp, kind, "function %q: %w", info.Name, err)
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fault.New(materialiseOp, fault.Unavailable, "function %q: read %s: %w", info.Name, key, err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, fault.New(materialiseOp, fault.Corrupt, "function %q: %s has sha256 %.12s…, want %.12s…", info.Name, key, hex.EncodeToString(sum[:]), f.SHA256)
	}
	return b, nil
}
