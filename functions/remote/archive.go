package remote

import (
	"bytes"
	"errors"
	"io"
	"sort"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// archive is an npz file that does not exist: x.npy and y.npy, not compressed,
// with the rows of an assignment in training order. The same assignment gives
// the same bytes, which can be read from anywhere.
type archive struct {
	parts  []part // in order, without a gap
	size   int64
	digest Digest
}

// part is a stretch of the archive, which begins at an offset.
type part struct {
	at, size int64
	r        io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (a *archive) ReadAt(p []byte, off int64) (n int, err error) {
	i := sort.Search(len(a.parts), func(i int) bool { return a.parts[i].at+a.parts[i].size > off })
	for ; n < len(p) && i < len(a.parts); i++ {
		part := a.parts[i]
		in := off + int64(n) - part.at
		m := int(min(int64(len(p)-n), part.size-in))
		if err := readFull(part.r, p[n:n+m], in); err != nil {
			return n, err
		}
		n += m
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readFull fills p from an offset.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// newArchive returns the rows that an invocation is about: those of its
// positions, for an init all. They are read once here, for their checksums.
// Errors are those of tensor.OpenNpy; Invalid also for positions that the split
// has not.
func newArchive(inv functions.Invocation, open func(functions.Input) io.ReaderAt) (*archive, error) {
	b := newBuilder()
	for _, array := range []struct {
		name string
		in   functions.Input
	}{{"x.npy", inv.Data.X}, {"y.npy", inv.Data.Y}} {
		rows, err := openRows(array.in.Size, open(array.in), inv)
		if err != nil {
			return nil, fault.New("remote.data", fault.KindOf(err), "%s of the data set: %w", array.name[:1], err)
		}
		if err := b.member(array.name, rows); err != nil {
			return nil, err
		}
	}
	b.directory()
	return &archive{parts: b.parts, size: b.at, digest: b.digest()}, nil
}

// rows are the chosen rows of an npy file.
type rows struct {
	r         io.ReaderAt
	start     int64   // of the data in r
	row       int64   // bytes
	positions []int64 // nil: all, in order
	header    []byte  // of an npy file that holds the chosen ones
	size      int64   // bytes of the chosen ones
}

func openRows(size int64, r io.ReaderAt, inv functions.Invocation) (*rows, error) {
	const op = "remote.data"
	npy, err := tensor.ParseNpy(r, size)
	switch {
	case err != nil:
		return nil, err
	case npy.Fortran || npy.BigEndian || len(npy.Shape) == 0:
		return nil, fault.New(op, fault.Invalid, "rows of an array %v in Fortran order, big endian or 0-d cannot be sent", npy.Shape)
	}
	out := &rows{r: r, start: npy.DataStart, row: npy.RowElements() * npy.DType.Size(), positions: inv.Positions}
	chosen := int64(len(inv.Positions))
	if inv.Task == functions.Init {
		chosen, out.positions = npy.Rows(), nil
	}
	for _, p := range out.positions {
		if p < 0 || p >= npy.Rows() {
			return nil, fault.New(op, fault.Invalid, "position %d is not in [0, %d)", p, npy.Rows())
		}
	}
	out.size = chosen * out.row
	var header bytes.Buffer
	err = tensor.WriteNpyHeader(&header, npy.DType, append([]int64{chosen}, npy.Shape[1:]...))
	out.header = header.Bytes()
	return out, err
}

// ReadAt implements io.ReaderAt. Neighbours are read together.
func (s *rows) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && off < s.size {
		at, length := off, s.size-off
		if s.positions != nil {
			i, in := off/s.row, off%s.row
			at, length = s.positions[i]*s.row+in, s.row-in
			for j := i + 1; j < int64(len(s.positions)) && s.positions[j] == s.positions[j-1]+1 && length < int64(len(p)-n); j++ {
				length += s.row
			}
		}
		m := int(min(length, int64(len(p)-n)))
		if err := readFull(s.r, p[n:n+m], s.start+at); err != nil {
			return n, err
		}
		n, off = n+m, off+int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
