package functions

import (
	"bytes"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// ReadDict reads the state dict that in holds, all of it, into memory. An
// input of Size 0 is the empty dict.
func ReadDict(in Input) (tensor.StateDict, error) {
	if in.Size == 0 {
		return nil, nil
	}
	return tensor.Read(in.R, in.Size)
}

// WriteDict writes dict to out.
func WriteDict(out Output, dict tensor.StateDict) error {
	layout, err := dict.Layout()
	if err != nil {
		return err
	}
	w, err := out.Create(layout.Size())
	if err != nil {
		return err
	}
	_, err = tensor.Write(w, dict)
	return err
}

// Buffer is an Output in memory, and the Input of what was written: for tests
// and for programs that run a function by hand. The zero value is ready.
type Buffer struct{ buf bytes.Buffer }

var _ Output = (*Buffer)(nil)

// Create implements Output. What was written before is forgotten.
func (b *Buffer) Create(size int64) (io.Writer, error) {
	if size < 0 {
		return nil, fault.New("functions.buffer", fault.Invalid, "size %d is negative", size)
	}
	b.buf = bytes.Buffer{}
	b.buf.Grow(int(size))
	return &b.buf, nil
}

// Path implements Output: there is no file.
func (b *Buffer) Path() string { return "" }

// Attest implements Output. Nobody checks it here.
func (b *Buffer) Attest(uint32) {}

// Bytes returns what was written; it is not copied.
func (b *Buffer) Bytes() []byte { return b.buf.Bytes() }

// Input returns what was written, for the next invocation.
func (b *Buffer) Input() Input {
	return Input{R: bytes.NewReader(b.buf.Bytes()), Size: int64(b.buf.Len())}
}
