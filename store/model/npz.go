package model

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// maxHeader is the limit of the safetensors library itself.
const maxHeader = 100_000_000

// writeNPZ turns a safetensors file of size bytes into an archive of .npy
// files, one a tensor, not compressed, as numpy.savez does. It reads in to its
// end, and returns how many tensors were widened from bfloat16 to float32.
func writeNPZ(w io.Writer, in *bufio.Reader, size int64) (widened int, err error) {
	layout, err := readLayout(in, size)
	if err != nil {
		return 0, err
	}
	archive := zip.NewWriter(w)
	for _, e := range layout.Entries {
		member, err := archive.CreateHeader(&zip.FileHeader{Name: e.Name + ".npy", Method: zip.Store})
		if err != nil {
			return 0, memberFault(e.Name, err)
		}
		if err := tensor.WriteNpyHeader(member, npyType(e.DType), e.Shape); err != nil {
			return 0, fault.New(exportOp, fault.KindOf(err), "tensor %q: %w", e.Name, err)
		}
		if e.DType == tensor.BF16 {
			widened++
			err = widen(member, in, e.Elements())
		} else {
			_, err = io.CopyN(member, in, e.Bytes())
		}
		if err != nil {
			return 0, memberFault(e.Name, err)
		}
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // what is too long, the digest will show
		return 0, err
	}
	if err := archive.Close(); err != nil {
		return 0, memberFault("", err)
	}
	return widened, nil
}

// readLayout reads the header from the start of a stream.
func readLayout(in io.Reader, size int64) (*tensor.Layout, error) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, memberFault("", err)
	}
	if n := binary.LittleEndian.Uint64(head); n <= maxHeader && int64(n) <= size-8 { // else ReadLayout says what is wrong
		head = append(head, make([]byte, n)...)
		if _, err := io.ReadFull(in, head[8:]); err != nil {
			return nil, memberFault("", err)
		}
	}
	return tensor.ReadLayout(bytes.NewReader(head), size)
}

// npyType is the type under which numpy reads all values of a tensor.
func npyType(d tensor.DType) tensor.NpyType {
	switch d {
	case tensor.F64:
		return tensor.NpyFloat64
	case tensor.F32, tensor.BF16:
		return tensor.NpyFloat32
	case tensor.F16:
		return tensor.NpyFloat16
	case tensor.I64:
		return tensor.NpyInt64
	case tensor.I32:
		return tensor.NpyInt32
	case tensor.I16:
		return tensor.NpyInt16
	case tensor.I8:
		return tensor.NpyInt8
	case tensor.U8:
		return tensor.NpyUint8
	case tensor.Bool:
		return tensor.NpyBool
	}
	return 0 // which WriteNpyHeader refuses
}

// widen copies n bfloat16s as float32s: a bfloat16 is the upper half of one.
func widen(w io.Writer, in io.Reader, n int64) error {
	const at = 16 << 10 // values
	narrow, wide := make([]byte, 2*at), make([]byte, 4*at)
	for n > 0 {
		k := min(n, at)
		if _, err := io.ReadFull(in, narrow[:2*k]); err != nil {
			return err
		}
		for i := range k {
			copy(wide[4*i+2:], narrow[2*i:2*i+2])
		}
		if _, err := w.Write(wide[:4*k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

// memberFault gives an error of the archive or the stream its kind.
func memberFault(name string, err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.New(exportOp, fault.Corrupt, "truncated: %w", io.ErrUnexpectedEOF)
	case fault.KindOf(err) != fault.Unknown:
		return err
	case len(name) > 65_000:
		return fault.New(exportOp, fault.Invalid, "tensor %.40q…: an archive cannot hold a name of %d bytes", name, len(name))
	}
	return fault.New(exportOp, fault.Unavailable, "write: %w", err)
}
