package dataset

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"math"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

const idxOp = "dataset.idx"

// idxMagic are the first bytes of an IDX file; two more say type and dimensions.
const idxMagic = "\x00\x00"

// readIDX finds the samples of an IDX file, the format of MNIST: two zeros, the
// type, the number of dimensions, each dimension as a uint32, the values in C
// order, all big endian (yann.lecun.com/exdb/mnist). It may be gzipped. Bytes
// that are not packed stay where they are, the rest is converted into a spool;
// memory is one buffer.
//
// Invalid: another type, no samples. Corrupt: no IDX file, truncated, bytes
// behind it, a broken gzip stream.
func readIDX(ctx context.Context, in input, newSpool func() (spool, error)) (rows, error) {
	unpacked, err := gunzip(in.open())
	if err != nil {
		return rows{}, err
	}
	_, plain := unpacked.(*bufio.Reader)
	r, err := readIDXHeader(unpacked)
	if err != nil {
		return rows{}, err
	}
	total := r.n * r.rowBytes()
	if plain {
		if have := in.size - r.off; have != total {
			return rows{}, idxLength(r, have)
		}
		if r.typ.Size() == 1 {
			r.data = in.r
			return r, nil
		}
	}
	converted, err := newSpool()
	if err != nil {
		return rows{}, err
	}
	have, err := copySwapped(&stopper{ctx: ctx, Writer: converted}, unpacked, total, int(r.typ.Size()))
	if err != nil {
		return rows{}, err
	}
	if have != total {
		return rows{}, idxLength(r, have)
	}
	r.data, r.off = converted, 0
	return r, nil
}

// readIDXHeader reads up to the first value; off is its place.
func readIDXHeader(in io.Reader) (rows, error) {
	var b [4]byte
	if err := readIDXBytes(in, b[:]); err != nil {
		return rows{}, err
	}
	if string(b[:2]) != idxMagic {
		return rows{}, fault.New(idxOp, fault.Corrupt, "not an IDX file: it begins with %q", b[:])
	}
	var r rows
	switch b[2] {
	case 0x08:
		r.typ = tensor.NpyUint8
	case 0x09:
		r.typ = tensor.NpyInt8
	case 0x0b:
		r.typ = tensor.NpyInt16
	case 0x0c:
		r.typ = tensor.NpyInt32
	case 0x0d:
		r.typ = tensor.NpyFloat32
	case 0x0e:
		r.typ = tensor.NpyFloat64
	default:
		return rows{}, fault.New(idxOp, fault.Invalid, "type %#02x is none of IDX's: 0x08 uint8, 0x09 int8, 0x0b int16, 0x0c int32, 0x0d float32, 0x0e float64", b[2])
	}
	dims := make([]byte, 4*int(b[3]))
	if len(dims) == 0 {
		return rows{}, fault.New(idxOp, fault.Invalid, "0-d: a single value is no list of samples")
	}
	if err := readIDXBytes(in, dims); err != nil {
		return rows{}, err
	}
	shape, values := make([]int64, len(dims)/4), int64(1)
	for i := range shape {
		shape[i] = int64(binary.BigEndian.Uint32(dims[4*i:]))
		if shape[i] > 0 && values > math.MaxInt64/8/shape[i] {
			return rows{}, fault.New(idxOp, fault.Corrupt, "its shape %v… overflows", shape[:i+1])
		}
		values *= shape[i]
	}
	if values == 0 {
		return rows{}, fault.New(idxOp, fault.Invalid, "empty: its shape is %v", shape)
	}
	r.n, r.sample, r.off = shape[0], shape[1:], int64(len(b)+len(dims))
	return r, nil
}

// readIDXBytes fills b from the header.
func readIDXBytes(in io.Reader, b []byte) error {
	n, err := fill(in, b)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return fault.New(idxOp, fault.Corrupt, "truncated: it ends within its header")
	}
	return gzipFault(err)
}

// idxLength is the error of a file whose values take have bytes.
func idxLength(r rows, have int64) error {
	total := r.n * r.rowBytes()
	if have > total {
		return fault.New(idxOp, fault.Corrupt, "bytes follow the %d that %s %v takes", total, r.typ, append([]int64{r.n}, r.sample...))
	}
	return fault.New(idxOp, fault.Corrupt, "truncated: %s %v takes %d bytes, there are %d", r.typ, append([]int64{r.n}, r.sample...), total, have)
}

// copySwapped copies values of size bytes each, their bytes in reverse, until
// in ends, which checks a gzip stream, or more than total bytes came. It
// returns how many came.
func copySwapped(w io.Writer, in io.Reader, total int64, size int) (have int64, err error) {
	buf := make([]byte, window)
	for have <= total {
		n, err := fill(in, buf)
		have += int64(n)
		whole := buf[:n-n%size]
		for value := whole; size > 1 && len(value) > 0; value = value[size:] {
			slices.Reverse(value[:size])
		}
		if _, err := w.Write(whole); err != nil {
			return have, err
		}
		if err == io.EOF {
			return have, nil
		}
		if err != nil {
			return have, gzipFault(err)
		}
	}
	return have, nil
}

// fill reads until b is full or in returns an error, which is not changed: of
// io.ReadFull's, io.ErrUnexpectedEOF has two meanings.
func fill(in io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = in.Read(b[n:])
		n += more
	}
	return n, err
}
