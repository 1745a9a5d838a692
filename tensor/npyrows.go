package tensor

import (
	"cmp"
	"io"
	"math"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// npyRun is how much of a file is read at once.
	npyRun = 256 << 10
	// npyGap is what is rather read than left out between two rows.
	npyGap = 4 << 10
)

// NpyFile reads rows of an npy file: elements of one index of the first
// dimension. It keeps no state: any number of goroutines may read at once.
type NpyFile struct {
	Npy
	r io.ReaderAt
}

// OpenNpy returns the file that r reads, of size bytes. Errors are ParseNpy's,
// and Invalid for Fortran order, whose rows are scattered: ConvertNpy first.
func OpenNpy(r io.ReaderAt, size int64) (*NpyFile, error) {
	n, err := ParseNpy(r, size)
	if err != nil {
		return nil, err
	}
	if n.Fortran {
		return nil, fault.New(npyOp, fault.Invalid, "rows of an array in Fortran order cannot be read; convert it to C order")
	}
	return &NpyFile{*n, r}, nil
}

// Float32Rows fills dst, len(positions) * RowElements() long, with the rows at
// the positions, in the order asked for; a position may occur repeatedly. The
// file is read in ascending order, neighbours together. Values are rounded to
// float32; True is 1. Invalid: dst of another length, a position outside
// [0, Rows()).
func (f *NpyFile) Float32Rows(dst []float32, positions []int64) error {
	return readRows(f, dst, positions, func(out []float32, src []byte, _ int64) error {
		if f.DType == NpyFloat32 {
			for i := range out {
				out[i] = math.Float32frombits(le.Uint32(src[4*i:]))
			}
			return nil
		}
		decodeNpy(out, src, f.DType)
		return nil
	})
}

// Float64Rows is Float32Rows with float64: exact but for 64-bit integers
// beyond 2^53.
func (f *NpyFile) Float64Rows(dst []float64, positions []int64) error {
	return readRows(f, dst, positions, func(out []float64, src []byte, _ int64) error {
		decodeNpy(out, src, f.DType)
		return nil
	})
}

// Int64Rows is Float32Rows with int64. A value that is no int64 (a fraction, a NaN,
// an uint64 from 2^63 on) is Invalid, naming row and value.
func (f *NpyFile) Int64Rows(dst []int64, positions []int64) error {
	return readRows(f, dst, positions, func(out []int64, src []byte, row int64) error {
		switch f.DType.kind() {
		case 'f':
			var x [1]float64
			size := int(f.DType.Size())
			for i := range out {
				decodeNpy(x[:], src[i*size:], f.DType)
				if x[0] != math.Trunc(x[0]) || !(x[0] >= -0x1p63 && x[0] < 0x1p63) {
					return fault.New(npyOp, fault.Invalid, "row %d: %v is no int64", row, x[0])
				}
				out[i] = int64(x[0])
			}
			return nil
		case 'u':
			decodeNpy(out, src, f.DType)
			if i := slices.IndexFunc(out, func(x int64) bool { return x < 0 }); i >= 0 {
				return fault.New(npyOp, fault.Invalid, "row %d: %d is no int64", row, uint64(out[i]))
			}
			return nil
		}
		decodeNpy(out, src, f.DType)
		return nil
	})
}

// readRows reads the rows at positions in ascending order and has convert
// turn each, little endian, into its place of dst. A row may come in parts.
func readRows[T any](f *NpyFile, dst []T, positions []int64, convert func(out []T, src []byte, row int64) error) error {
	if err := f.checkRows(int64(len(dst)), positions); err != nil {
		return err
	}
	if len(dst) == 0 {
		return nil
	}
	elems := f.RowElements()
	row := elems * f.DType.Size() // bytes
	order := ascending(positions)
	var buf []byte
	for i := 0; i < len(order); {
		first := positions[order[i]]
		if row > npyRun {
			j := i + 1 // repeats of the row are filled together
			for j < len(order) && positions[order[j]] == first {
				j++
			}
			buf = slices.Grow(buf[:0], npyRun)
			if err := f.longRow(buf[:npyRun], first, func(lo, hi int64, src []byte) error {
				for _, o := range order[i:j] {
					at := int64(o) * elems
					if err := convert(dst[at+lo:at+hi], src, first); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
			i = j
			continue
		}
		// A run: rows that lie close, read at once.
		j, end := i+1, first+1
		for ; j < len(order); j++ {
			p := positions[order[j]]
			if (p-end)*row > npyGap || (p+1-first)*row > npyRun {
				break
			}
			end = p + 1
		}
		buf = slices.Grow(buf[:0], int((end-first)*row))[:(end-first)*row]
		if err := f.read(buf, f.DataStart+first*row); err != nil {
			return err
		}
		for ; i < j; i++ {
			at, p := int64(order[i])*elems, positions[order[i]]
			if err := convert(dst[at:at+elems], buf[(p-first)*row:(p-first+1)*row], p); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRows reports why rows cannot be read into want elements.
func (f *NpyFile) checkRows(want int64, positions []int64) error {
	if elems := f.RowElements(); want != int64(len(positions))*elems {
		return fault.New(npyOp, fault.Invalid, "%d rows of %d elements do not go into %d", len(positions), elems, want)
	}
	for _, p := range positions {
		if p < 0 || p >= f.Rows() {
			return fault.New(npyOp, fault.Invalid, "row %d not in [0, %d)", p, f.Rows())
		}
	}
	return nil
}

// longRow reads one row in parts of len(buf), of elements [lo, hi) each.
func (f *NpyFile) longRow(buf []byte, row int64, visit func(lo, hi int64, src []byte) error) error {
	elems, size := f.RowElements(), f.DType.Size()
	step := int64(len(buf)) / size
	for lo := int64(0); lo < elems; lo += step {
		hi := min(lo+step, elems)
		part := buf[:(hi-lo)*size]
		if err := f.read(part, f.DataStart+(row*elems+lo)*size); err != nil {
			return err
		}
		if err := visit(lo, hi, part); err != nil {
			return err
		}
	}
	return nil
}

// read fills b from the file and makes it little endian.
func (f *NpyFile) read(b []byte, off int64) error {
	if err := readFull(f.r, b, off); err != nil {
		return err
	}
	if f.BigEndian {
		swapBytes(b, f.DType.Size())
	}
	return nil
}

// ascending returns the indices of positions, by position.
func ascending(positions []int64) []int {
	order := make([]int, len(positions))
	for i := range order {
		order[i] = i
	}
	if !slices.IsSorted(positions) {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(positions[a], positions[b]) })
	}
	return order
}
