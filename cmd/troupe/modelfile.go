package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/troupe-ml/troupe/internal/fault"
)

const fileOp = "model.file"

// writeWhole creates a file with what write writes, whole or not at all. One
// that is there is replaced if replace says so, else that is a Conflict, also
// if it appears meanwhile. Links are followed. Invalid: something other than a
// file is there. Unavailable, naming the path. An error of write keeps its kind.
func writeWhole(path string, replace bool, write func(io.Writer) error) (err error) {
	failed := func(err error) error {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err
		} else if e, ok := errors.AsType[*os.LinkError](err); ok {
			err = e.Err
		}
		return fault.New(fileOp, fault.Unavailable, "%s: %w", path, err)
	}
	exists := fault.New(fileOp, fault.Conflict, "%s exists: give another name, or --force to replace it", path)
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return fault.New(fileOp, fault.Invalid, "%s is not a file: give the name of one, or - for standard output", path)
	case err == nil && !replace:
		return exists
	}
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	temp := fmt.Sprintf("%s.%08x.tmp", target, rand.Uint32())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.Remove(temp) }() // gone already if it was renamed
	if err := fillFile(f, write); err != nil {
		if fault.KindOf(err) == fault.Unknown {
			err = failed(err)
		}
		return err
	}
	if replace {
		err = os.Rename(temp, target)
	} else if err = os.Link(temp, target); err != nil && !errors.Is(err, fs.ErrExist) { // a file system without links
		if _, e := os.Lstat(target); errors.Is(e, fs.ErrNotExist) {
			err = os.Rename(temp, target)
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return exists
	case err != nil:
		return failed(err)
	}
	return nil
}

// fillFile writes f to the disk and closes it.
func fillFile(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 1<<20)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
