package dataset

import (
	"encoding/binary"
	"io"

	"github.com/troupe-ml/troupe/tensor"
)

// agree makes the labels of two parts int64 where both are integers, of two
// types: which type holds them says nothing about them.
func agree(train, test rows) (rows, rows) {
	if train.typ == test.typ || !isInt(train.typ) || !isInt(test.typ) {
		return train, test
	}
	return asInt64(train), asInt64(test)
}

// isInt reports whether int64 holds all values of a type, which are integers.
func isInt(t tensor.NpyType) bool {
	return t >= tensor.NpyBool && t <= tensor.NpyUint32
}

func asInt64(r rows) rows {
	if r.typ == tensor.NpyInt64 {
		return r
	}
	return rows{typ: tensor.NpyInt64, n: r.n, sample: r.sample, data: int64s{r}}
}

// int64s reads an array of integers of another type as int64, little endian.
type int64s struct{ of rows }

// ReadAt implements io.ReaderAt.
func (w int64s) ReadAt(p []byte, off int64) (int, error) {
	const wide = 8
	size, values := w.of.typ.Size(), w.of.n*w.of.values()
	first, last := off/wide, min((off+int64(len(p))+wide-1)/wide, values)
	if off < 0 || first >= last {
		return 0, io.EOF
	}
	narrow := make([]byte, (last-first)*size)
	if n, err := w.of.data.ReadAt(narrow, w.of.off+first*size); n < len(narrow) {
		return 0, err
	}
	out := make([]byte, 0, (last-first)*wide)
	for ; len(narrow) > 0; narrow = narrow[size:] {
		out = binary.LittleEndian.AppendUint64(out, uint64(integer(w.of.typ, narrow)))
	}
	n := copy(p, out[off-first*wide:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// integer is the first value in b, little endian.
func integer(t tensor.NpyType, b []byte) int64 {
	switch t {
	case tensor.NpyBool:
		return int64(min(b[0], 1))
	case tensor.NpyInt8:
		return int64(int8(b[0]))
	case tensor.NpyUint8:
		return int64(b[0])
	case tensor.NpyInt16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case tensor.NpyUint16:
		return int64(binary.LittleEndian.Uint16(b))
	case tensor.NpyInt32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case tensor.NpyUint32:
		return int64(binary.LittleEndian.Uint32(b))
	}
	return int64(binary.LittleEndian.Uint64(b))
}
