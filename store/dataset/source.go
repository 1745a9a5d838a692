package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

const importOp = "dataset.import"

// formats are the endings of the files that can be read.
var formats = [...]string{".csv", ".csv.gz", ".npz"}

// isPath reports whether a data set's name is that of a file.
func isPath(name string) bool {
	return strings.ContainsRune(name, filepath.Separator) || formatOf(name) != ""
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
	base := filepath.Base(path)
	base = strings.ToLower(base[:len(base)-len(formatOf(path))])
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

// spools makes temporary files that have no name: nothing can be left of them.
type spools struct{ files []*os.File }

func (s *spools) create() (spool, error) {
	f, err := os.CreateTemp("", "troupe-import-*")
	if err != nil {
		return nil, fault.New(importOp, fault.Unavailable, "temporary file: %w", err)
	}
	s.files = append(s.files, f)
	if err := os.Remove(f.Name()); err != nil {
		return nil, fault.New(importOp, fault.Unavailable, "temporary file: %w", err)
	}
	return spoolFile{f}, nil
}

func (s *spools) close() {
	for _, f := range s.files {
		_ = f.Close() // nothing of it is kept
	}
}

// spoolFile says which of the disks is full.
type spoolFile struct{ *os.File }

func (f spoolFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err != nil {
		return n, fault.New(importOp, fault.Unavailable, "temporary file in %s (TMPDIR says where): %w", os.TempDir(), err)
	}
	return n, nil
}

// load reads a file. The contents are valid until s is closed.
func load(ctx context.Context, path string, opts Options, s *spools) (*contents, error) {
	format := formatOf(path)
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(importOp, fault.NotFound, "no such file")
	case err != nil:
		return nil, fault.New(importOp, fault.Invalid, "%w", errors.Unwrap(err)) // without the path, which the caller says
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fault.New(importOp, fault.Unavailable, "%w", err)
	case !info.Mode().IsRegular() || format == "":
		return nil, fault.New(importOp, fault.Invalid, "not a file of a supported format: %s", strings.Join(formats[:], ", "))
	case info.Size() == 0:
		return nil, fault.New(importOp, fault.Invalid, "empty: the file has no bytes")
	}
	return parse(ctx, f, info.Size(), format, opts, s.create)
}

// parse reads size bytes of one of the formats, and splits what has no test
// part. The contents lie in spools.
func parse(ctx context.Context, r io.ReaderAt, size int64, format string, opts Options, newSpool func() (spool, error)) (*contents, error) {
	if format != ".npz" {
		text, err := gunzip(io.NewSectionReader(r, 0, size))
		if err != nil {
			return nil, err
		}
		p, nonFinite, err := readCSV(ctx, text, newSpool)
		if err != nil {
			return nil, err
		}
		return finish(ctx, p, nil, nonFinite, opts)
	}
	train, test, err := readNPZ(ctx, r, size, newSpool)
	if err != nil {
		return nil, err
	}
	nonFinite, err := checkPair("train", train)
	if err != nil {
		return nil, err
	}
	if test != nil {
		n, err := checkPair("test", *test)
		if err != nil {
			return nil, err
		}
		nonFinite += n
		if err := checkAlike(train, *test); err != nil {
			return nil, err
		}
	}
	return finish(ctx, train, test, nonFinite, opts)
}

// checkPair refuses a part that cannot be trained on, and counts the NaNs and
// infinities in x.
func checkPair(part string, p pair) (nonFinite int64, err error) {
	if p.x.n != p.y.n {
		return 0, fault.New(importOp, fault.Invalid, "x_%s has %d samples, y_%s has %d labels", part, p.x.n, part, p.y.n)
	}
	_, first, err := p.y.nonFinite()
	if err != nil {
		return 0, fault.New(importOp, fault.Unavailable, "y_%s: %w", part, err)
	}
	if first >= 0 {
		return 0, fault.New(importOp, fault.Invalid, "y_%s: the label of sample %d is NaN or infinite", part, first)
	}
	if nonFinite, _, err = p.x.nonFinite(); err != nil {
		return 0, fault.New(importOp, fault.Unavailable, "x_%s: %w", part, err)
	}
	return nonFinite, nil
}

// checkAlike refuses a test part of other types or shapes than the training part's.
func checkAlike(train, test pair) error {
	for _, c := range []struct {
		name        string
		train, test rows
	}{{"x", train.x, test.x}, {"y", train.y, test.y}} {
		if c.train.typ != c.test.typ || !slices.Equal(c.train.sample, c.test.sample) {
			return fault.New(importOp, fault.Invalid, "samples of %s_train are %s %v, those of %s_test %s %v",
				c.name, c.train.typ, c.train.sample, c.name, c.test.typ, c.test.sample)
		}
	}
	return nil
}

// finish splits where there is no test part, and computes the digests.
func finish(ctx context.Context, p pair, test *pair, nonFinite int64, opts Options) (*contents, error) {
	var warnings []string
	if nonFinite > 0 {
		warnings = append(warnings, fmt.Sprintf("x has %d values that are NaN or infinite", nonFinite))
	}
	if test != nil {
		return newContents(ctx, []selection{all(p.x), all(p.y), all(test.x), all(test.y)}, warnings)
	}
	if p.x.n == 1 {
		warnings = append(warnings, "there is one sample: nothing is left to test with")
	}
	tr, te := split(p, opts.TestShare, opts.Seed)
	return newContents(ctx, slices.Concat(tr[:], te[:]), warnings)
}
