package dataset

import (
	"io"
	"os"
	"path/filepath"

	"github.com/troupe-ml/troupe/internal/fault"
)

// spool holds bytes that were read once and are needed again.
type spool interface {
	io.Writer
	io.ReaderAt
}

// spools holds the files of one import: those that are read, and temporary ones
// that have no name, so that nothing can be left of them.
type spools struct{ files []*os.File }

// open opens a file to be read.
func (s *spools) open(path string) (input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return input{}, openFault(err)
	}
	switch {
	case !info.Mode().IsRegular():
		return input{}, fault.New(importOp, fault.Invalid, "not a regular file")
	case info.Size() == 0:
		return input{}, fault.New(importOp, fault.Invalid, "empty: the file has no bytes")
	}
	f, err := os.Open(path)
	if err != nil {
		return input{}, openFault(err)
	}
	s.files = append(s.files, f)
	return input{name: filepath.Base(path), r: f, size: info.Size()}, nil
}

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
