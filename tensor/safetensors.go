package tensor

import (
	"errors"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	readOp  = "tensor.read"
	writeOp = "tensor.write"
)

// Source is a safetensors file somewhere.
type Source struct {
	R    io.ReaderAt
	Size int64 // bytes
}

// Write writes the dict as a safetensors file and returns the bytes written.
// Equal dicts give equal bytes. Invalid: see StateDict.Layout; nothing is
// written then. Unavailable: w failed.
func Write(w io.Writer, d StateDict) (int64, error) {
	l, err := d.Layout()
	if err != nil {
		return 0, err
	}
	if err := l.WriteHeader(w); err != nil {
		return 0, err
	}
	written := l.DataStart
	for _, t := range d {
		n, err := w.Write(t.Data)
		written += int64(n)
		if err != nil {
			return written, writeFailed(t.Name, err)
		}
	}
	return written, nil
}

// Read reads a whole safetensors file into memory that the caller owns. Errors
// are those of ReadLayout.
func Read(r io.ReaderAt, size int64) (StateDict, error) {
	l, err := ReadLayout(r, size)
	if err != nil {
		return nil, err
	}
	d := make(StateDict, len(l.Entries))
	for i, e := range l.Entries {
		d[i] = Tensor{e.Spec, make([]byte, e.Bytes())}
		if err := readFull(r, d[i].Data, e.Offset); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// readFull fills b from offset off: Corrupt where the reader ends before that,
// Unavailable where it fails.
func readFull(r io.ReaderAt, b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return corrupt("truncated: %d bytes wanted at byte %d, %d came", len(b), off, n)
	}
	return fault.New(readOp, fault.Unavailable, "read %d bytes at byte %d: %w", len(b), off, err)
}

func corrupt(format string, args ...any) error {
	return fault.New(readOp, fault.Corrupt, format, args...)
}

func writeFailed(what string, err error) error {
	return fault.New(writeOp, fault.Unavailable, "write %s: %w", what, err)
}
