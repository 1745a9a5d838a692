package dataset

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/troupe-ml/troupe/tensor"
)

const window = 1 << 20 // bytes read at once

// rows is an array [n, sample...] that lies in a reader: C order, little
// endian, n times rowBytes from offset off on.
type rows struct {
	typ    tensor.NpyType
	n      int64
	sample []int64 // shape of one sample
	data   io.ReaderAt
	off    int64
}

// pair is the samples of one part and their labels; both have the same n.
type pair struct{ x, y rows }

// values is how many values one sample has.
func (r rows) values() int64 {
	n := int64(1)
	for _, d := range r.sample {
		n *= d
	}
	return n
}

func (r rows) rowBytes() int64 { return r.values() * r.typ.Size() }

func (r rows) open() io.Reader { return io.NewSectionReader(r.data, r.off, r.n*r.rowBytes()) }

// selection is some of the rows of an array, in their order.
type selection struct {
	rows
	picked []bool // by row; nil: all
	want   bool   // the value in picked that selects
	count  int64
}

func all(r rows) selection { return selection{rows: r, count: r.n} }

// writeTo writes the selection as a .npy file. The same values give the same
// bytes, whatever file they came from: a data set's digest rests on that.
func (s selection) writeTo(w io.Writer) error {
	if err := tensor.WriteNpyHeader(w, s.typ, append([]int64{s.count}, s.sample...)); err != nil {
		return err
	}
	if s.picked == nil {
		n, err := io.Copy(w, s.open())
		if want := s.n * s.rowBytes(); err == nil && n != want {
			return fmt.Errorf("%d of %d bytes: %w", n, want, io.ErrUnexpectedEOF)
		}
		return err
	}
	in, out := bufio.NewReaderSize(s.open(), window), bufio.NewWriterSize(w, window)
	row := make([]byte, s.rowBytes())
	for i := range s.n {
		if _, err := io.ReadFull(in, row); err != nil {
			return err
		}
		if s.picked[i] != s.want {
			continue
		}
		if _, err := out.Write(row); err != nil {
			return err
		}
	}
	return out.Flush()
}

// split cuts a pair in a training and a test part. Test has ceil(share*n)
// samples but leaves one to train; which, says the seed. Both keep the order
// of the file.
func split(p pair, share float64, seed uint64) (train, test [2]selection) {
	n := p.x.n
	count := min(int64(math.Ceil(share*float64(n))), n-1)
	picked := make([]bool, n)
	for _, i := range Permutation(seed, int(n))[:count] {
		picked[i] = true
	}
	for i, r := range []rows{p.x, p.y} {
		train[i] = selection{rows: r, picked: picked, want: false, count: n - count}
		test[i] = selection{rows: r, picked: picked, want: true, count: count}
	}
	return train, test
}

// nonFinite counts the NaNs and infinities, and says in which row the first
// is: -1 for none.
func (r rows) nonFinite() (count, first int64, err error) {
	first = -1
	var bad func(b []byte) bool
	switch r.typ { // all bits of the exponent set
	case tensor.NpyFloat16:
		bad = func(b []byte) bool { return ^binary.LittleEndian.Uint16(b)&0x7c00 == 0 }
	case tensor.NpyFloat32:
		bad = func(b []byte) bool { return ^binary.LittleEndian.Uint32(b)&0x7f800000 == 0 }
	case tensor.NpyFloat64:
		bad = func(b []byte) bool { return ^binary.LittleEndian.Uint64(b)&0x7ff0000000000000 == 0 }
	default:
		return 0, first, nil
	}
	in, size, buf := r.open(), int(r.typ.Size()), make([]byte, window)
	for value := int64(0); ; {
		n, err := io.ReadFull(in, buf)
		for b := buf[:n]; len(b) >= size; b = b[size:] {
			if bad(b) {
				if count++; first < 0 {
					first = value / r.values()
				}
			}
			value++
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			if want := r.n * r.values(); value != want {
				return 0, 0, fmt.Errorf("%d of %d values: %w", value, want, io.ErrUnexpectedEOF)
			}
			return count, first, nil
		default:
			return 0, 0, err
		}
	}
}
