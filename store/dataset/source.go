package dataset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

const importOp = "dataset.import"

// formats are the endings of the files that can be read.
var formats = [...]string{".csv", ".csv.gz", ".npz", ".npy"}

// isPath reports whether a data set's name is that of a file or folder.
func isPath(name string) bool {
	return strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." || formatOf(name) != ""
}

// formatOf returns the ending of a path that says how to read it, or "".
func formatOf(path string) string {
	lower := strings.ToLower(path)
	for _, format := range formats {
		if strings.HasSuffix(lower, format) {
			return format
		}
	}
	return ""
}

// slug turns a path into a data set's name: its base without the ending, in
// lower case, what is not a-z, 0-9, "." or "_" replaced by "-".
func slug(path string) string {
	if abs, err := filepath.Abs(path); err == nil { // "." has a name too
		path = abs
	}
	base := filepath.Base(path)
	base = strings.ToLower(base[:len(base)-len(formatOf(base))])
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, base), "-.")
	name = name[:min(len(name), 64)]
	switch name {
	case "":
		return "data"
	case Digits: // the built-in one would hide it
		return Digits + "-file"
	}
	return name
}

// load reads a file or folder. The contents are valid until s is closed.
func load(ctx context.Context, path string, opts Options, s *spools) (*contents, error) {
	info, err := os.Stat(path) // before it is opened: that may block on what is no file
	if err != nil {
		return nil, openFault(err)
	}
	format := formatOf(path)
	if opts.Label != "" && !strings.HasPrefix(format, ".csv") {
		return nil, fault.New(importOp, fault.Invalid, "label %q: only the columns of a CSV file have names", opts.Label)
	}
	if info.IsDir() {
		return loadFolder(ctx, path, opts, s)
	}
	if !info.Mode().IsRegular() || format == "" {
		return nil, fault.New(importOp, fault.Invalid, "not a file of a supported format: %s", strings.Join(formats[:], ", "))
	}
	in, err := s.open(path)
	if err != nil {
		return nil, err
	}
	return parse(ctx, in, format, opts, s.create)
}

// loadFolder reads the arrays in a folder.
func loadFolder(ctx context.Context, path string, opts Options, s *spools) (*contents, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, openFault(err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	found, err := pick(names)
	if err != nil {
		return nil, err
	}
	open := func(name string) (input, error) {
		in, err := s.open(filepath.Join(path, name))
		if err != nil {
			return input{}, fault.New(importOp, fault.KindOf(err), "%s: %w", name, err)
		}
		return in, nil
	}
	return parseFolder(ctx, found, open, opts, s.create)
}

// openFault gives an error of the operating system its kind. The path is left
// out: the caller says it.
func openFault(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(importOp, fault.NotFound, "no such file or folder")
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fault.New(importOp, fault.Invalid, "%w", err)
}
