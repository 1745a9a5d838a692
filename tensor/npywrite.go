package tensor

import (
	"fmt"
	"io"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// WriteNpyHeader writes what precedes the data of a C-order, little-endian
// array, as numpy does: version 1, the data at a multiple of 64. Invalid: no
// type, a bad shape, one of more dimensions than a version 1 header can name.
func WriteNpyHeader(w io.Writer, t NpyType, shape []int64) error {
	n, ok := elements(shape)
	if t.Size() == 0 || !ok || n*t.Size()/t.Size() != n {
		return fault.New(npyOp, fault.Invalid, "%s %v is no array", t, shape)
	}
	var dims strings.Builder
	for i, d := range shape {
		if i > 0 {
			dims.WriteByte(' ')
		}
		fmt.Fprintf(&dims, "%d,", d)
	}
	tuple := dims.String()
	if len(shape) > 1 {
		tuple = tuple[:len(tuple)-1]
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", t.descr(), tuple)
	const fixed = 10
	pad := -(fixed + len(text) + 1) & (dataAlign - 1)
	text += strings.Repeat(" ", pad) + "\n"
	if len(text) > 0xffff {
		return fault.New(npyOp, fault.Invalid, "%d dimensions are too many", len(shape))
	}
	b := append([]byte(npyMagic), 1, 0)
	b = append(le.AppendUint16(b, uint16(len(text))), text...)
	if _, err := w.Write(b); err != nil {
		return writeFailed("npy header", err)
	}
	return nil
}
