package tensor

import (
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// npyBlock is the memory of a conversion from Fortran order.
	npyBlock = 16 << 20
	// npyMaxRow is the longest row in Fortran order that is converted.
	npyMaxRow = 256 << 20
)

// ConvertNpy writes a C-order, little-endian, version 1 copy of the npy file
// that r reads; type and shape stay. Errors are ParseNpy's. Memory: 256 KiB
// for C order; for Fortran order 16 MiB or one row, whichever is more, and rows over
// 256 MiB are Invalid.
func ConvertNpy(w io.Writer, r io.ReaderAt, size int64) error {
	n, err := ParseNpy(r, size)
	if err != nil {
		return err
	}
	if row := n.RowElements() * n.DType.Size(); n.Fortran && row > npyMaxRow {
		return fault.New(npyOp, fault.Invalid, "a row of %d bytes in Fortran order is over the limit of %d: save the array in C order", row, npyMaxRow)
	}
	if err := WriteNpyHeader(w, n.DType, n.Shape); err != nil {
		return err
	}
	f := &NpyFile{*n, r}
	if n.Fortran {
		return f.transpose(w)
	}
	data := size - n.DataStart
	buf := make([]byte, min(data, npyRun))
	for at := int64(0); at < data; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), data-at)]
		if err := f.read(buf, n.DataStart+at); err != nil {
			return err
		}
		if _, err := w.Write(buf); err != nil {
			return writeFailed("npy data", err)
		}
	}
	return nil
}

// transpose writes the data of an array in Fortran order in C order. Seen from
// the file, the array is columns: for each index but the first, the elements
// of all rows lie together. It takes as many rows at once as fit a block, and
// reads their part of each column, or whole stretches of columns where leaving
// the other rows out would not pay.
func (f *NpyFile) transpose(w io.Writer) error {
	rows, elems, size := f.Rows(), f.RowElements(), f.DType.Size()
	take := max(1, min(rows, npyBlock/(elems*size)))
	block := make([]byte, take*elems*size)
	var buf []byte
	for lo := int64(0); lo < rows; lo += take {
		n := min(take, rows-lo)
		columns := int64(1) // read at once
		if (rows-n)*size <= npyGap {
			columns = max(1, npyRun/(rows*size))
		}
		place := newColumnOrder(f.Shape)
		for c := int64(0); c < elems; c += columns {
			span := ((min(columns, elems-c)-1)*rows + n) * size
			if buf == nil {
				buf = make([]byte, max(span, take*size))
			}
			if err := f.read(buf[:span], f.DataStart+(c*rows+lo)*size); err != nil {
				return err
			}
			for at := int64(0); at < span; at += rows * size {
				scatter(block[place.next()*size:], buf[at:at+n*size], elems*size, size)
			}
		}
		if _, err := w.Write(block[:n*elems*size]); err != nil {
			return writeFailed("npy data", err)
		}
	}
	return nil
}

// scatter puts the elements of src, of the given size, stride bytes apart.
func scatter(dst, src []byte, stride, size int64) {
	switch size {
	case 1:
		for i, at := 0, int64(0); i < len(src); i, at = i+1, at+stride {
			dst[at] = src[i]
		}
	case 2:
		for i, at := 0, int64(0); i < len(src); i, at = i+2, at+stride {
			le.PutUint16(dst[at:], le.Uint16(src[i:]))
		}
	case 4:
		for i, at := 0, int64(0); i < len(src); i, at = i+4, at+stride {
			le.PutUint32(dst[at:], le.Uint32(src[i:]))
		}
	case 8:
		for i, at := 0, int64(0); i < len(src); i, at = i+8, at+stride {
			le.PutUint64(dst[at:], le.Uint64(src[i:]))
		}
	}
}

// columnOrder counts through the columns of an array in Fortran order, the
// second dimension fastest, and says where each stands in a row in C order.
type columnOrder struct {
	shape, index, stride []int64
	at                   int64
}

func newColumnOrder(shape []int64) *columnOrder {
	c := &columnOrder{shape: shape[1:], index: make([]int64, len(shape)-1), stride: make([]int64, len(shape)-1)}
	stride := int64(1)
	for i := len(c.shape) - 1; i >= 0; i-- {
		c.stride[i] = stride
		stride *= c.shape[i]
	}
	return c
}

// next returns the place, in elements, of the column it stands at, and steps.
func (c *columnOrder) next() int64 {
	at := c.at
	for i := range c.index {
		c.index[i]++
		c.at += c.stride[i]
		if c.index[i] < c.shape[i] {
			break
		}
		c.at -= c.stride[i] * c.index[i]
		c.index[i] = 0
	}
	return at
}
