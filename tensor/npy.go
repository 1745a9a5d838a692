package tensor

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	npyOp    = "tensor.npy"
	npyMagic = "\x93NUMPY"
	// maxNpyHeader is far above what an array of the types we read needs.
	maxNpyHeader = 1 << 20
)

// Npy says what an npy file holds and where.
type Npy struct {
	DType     NpyType
	Shape     []int64 // never nil; empty is 0-d
	Fortran   bool    // first index fastest; false where both orders are the same
	BigEndian bool
	DataStart int64 // bytes before the data
}

// ParseNpy reads the header, versions 1 to 3, of an npy file of size bytes.
// Invalid, with the reason: not an npy file (npz archives and pickles are named),
// object, structured, text and other types. Corrupt: a broken header,
// a file shorter or longer than header and data. It reads at most 1 MiB.
func ParseNpy(r io.ReaderAt, size int64) (*Npy, error) {
	text, start, err := readNpyHeader(r, size)
	if err != nil {
		return nil, err
	}
	n := &Npy{DataStart: start}
	p := literalParser{rest: text}
	if err := p.header(n); err != nil {
		return nil, err
	}
	count, ok := elements(n.Shape)
	if !ok || count > math.MaxInt64/n.DType.Size() {
		return nil, npyCorrupt("shape %v: a dimension is negative or the size overflows", n.Shape)
	}
	switch bytes, have := count*n.DType.Size(), size-start; {
	case have < bytes:
		return nil, npyCorrupt("truncated: %s %v takes %d bytes, the file has %d", n.DType, n.Shape, bytes, have)
	case have > bytes:
		return nil, npyCorrupt("%d bytes follow the %d of %s %v", have-bytes, bytes, n.DType, n.Shape)
	}
	if n.sameInBothOrders() {
		n.Fortran = false
	}
	return n, nil
}

// Elements returns the number of elements: the product of the dimensions.
func (n *Npy) Elements() int64 {
	count, _ := elements(n.Shape)
	return count
}

// Rows returns the first dimension; a 0-d array is one row of one element.
func (n *Npy) Rows() int64 {
	if len(n.Shape) == 0 {
		return 1
	}
	return n.Shape[0]
}

// RowElements returns the number of elements of a row: the product of all
// dimensions but the first.
func (n *Npy) RowElements() int64 {
	if len(n.Shape) == 0 {
		return 1
	}
	count, ok := elements(n.Shape[1:])
	if !ok { // rows there are none of
		return 0
	}
	return count
}

// sameInBothOrders reports whether at most one dimension is not 1.
func (n *Npy) sameInBothOrders() bool {
	long := 0
	for _, d := range n.Shape {
		if d != 1 {
			long++
		}
	}
	return long <= 1 || slices.Contains(n.Shape, 0)
}

// readNpyHeader returns the header's text and where the data starts.
func readNpyHeader(r io.ReaderAt, size int64) (text string, start int64, err error) {
	var b [12]byte
	have := min(size, int64(len(b)))
	if have < 0 {
		have = 0
	}
	if err := readFull(r, b[:have], 0); err != nil {
		return "", 0, err
	}
	if !strings.HasPrefix(string(b[:have]), npyMagic) {
		return "", 0, fault.New(npyOp, fault.Invalid, "not an npy file%s", npyGuess(b[:have]))
	}
	if have < 10 {
		return "", 0, npyCorrupt("truncated: %d bytes", size)
	}
	version, length := b[6], int64(le.Uint16(b[8:]))
	start = 10
	if version == 2 || version == 3 {
		if have < 12 {
			return "", 0, npyCorrupt("truncated: %d bytes", size)
		}
		length, start = int64(le.Uint32(b[8:])), 12
	} else if version != 1 {
		return "", 0, fault.New(npyOp, fault.Invalid, "npy version %d.%d is not supported (1 to 3 are)", version, b[7])
	}
	switch {
	case length > maxNpyHeader:
		return "", 0, npyCorrupt("header of %d bytes is over the limit of %d", length, maxNpyHeader)
	case length > size-start:
		return "", 0, npyCorrupt("truncated: header of %d bytes in a file of %d", length, size)
	}
	header := make([]byte, length)
	if err := readFull(r, header, start); err != nil {
		return "", 0, err
	}
	return string(header), start + length, nil
}

// npyGuess says what a file that is no npy file seems to be.
func npyGuess(b []byte) string {
	switch {
	case len(b) == 0:
		return ": it is empty"
	case strings.HasPrefix(string(b), "PK"):
		return " but a zip archive (.npz?)"
	case len(b) >= 2 && b[0] == 0x80 && b[1] <= 5:
		return " but a Python pickle, which could run code"
	}
	return fmt.Sprintf(": it begins with %q", b)
}

func npyCorrupt(format string, args ...any) error {
	return fault.New(npyOp, fault.Corrupt, format, args...)
}
