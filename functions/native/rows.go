package native

import (
	"iter"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// window is how many bytes of rows are read at once, where a batch is not
// longer.
const window = 4 << 20

// Rows are the rows of a split, as features and labels.
type Rows struct {
	Samples  int64
	Features int     // of a row: the product of Shape
	Shape    []int64 // of a row; not to be changed

	x, y *tensor.NpyFile
}

func openRows(data functions.Data) (*Rows, error) {
	x, err := tensor.OpenNpy(data.X.R, data.X.Size)
	if err != nil {
		return nil, fault.New("native.data", fault.KindOf(err), "read x of the data set: %w", err)
	}
	y, err := tensor.OpenNpy(data.Y.R, data.Y.Size)
	if err != nil {
		return nil, fault.New("native.data", fault.KindOf(err), "read y of the data set: %w", err)
	}
	if len(x.Shape) < 2 || x.RowElements() < 1 {
		return nil, fault.New("native.data", fault.Invalid,
			"x has shape %v, not [samples, features...]: reshape it, with at least one feature", x.Shape)
	}
	if len(y.Shape) < 1 || y.RowElements() != 1 {
		return nil, fault.New("native.data", fault.Invalid, "y has shape %v, not [samples]: give one label a sample", y.Shape)
	}
	if x.Rows() != data.Samples || y.Rows() != data.Samples || data.Samples < 1 {
		return nil, fault.New("native.data", fault.Invalid,
			"the split has %d samples, %d rows of x and %d of y: give as many of each, at least one", data.Samples, x.Rows(), y.Rows())
	}
	return &Rows{Samples: data.Samples, Features: int(x.RowElements()), Shape: x.Shape[1:], x: x, y: y}, nil
}

// All yields every row of the split in ascending order, size (at least 1) at a
// time, the last time what is left. It ends after an error.
func (r *Rows) All(size int) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		positions := make([]int64, 0, size)
		for at := int64(0); at < r.Samples; at += int64(size) {
			positions = positions[:0]
			for p := at; p < min(at+int64(size), r.Samples); p++ {
				positions = append(positions, p)
			}
			for b, err := range r.batches(positions, []int{len(positions)}) {
				b.Index = int(at / int64(size))
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
	}
}

// batches yields the rows at positions, in that order, in batches of those
// sizes. It ends after an error.
func (r *Rows) batches(positions []int64, sizes []int) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		var x []float32
		var y []int64
		for first := 0; first < len(sizes); {
			last, rows := first+1, sizes[first] // batches [first, last) are read at once
			for ; last < len(sizes) && 4*r.Features*(rows+sizes[last]) <= window; last++ {
				rows += sizes[last]
			}
			x, y = resize(x, rows*r.Features), resize(y, rows)
			if err := r.read(x, y, positions[:rows]); err != nil {
				yield(Batch{}, err)
				return
			}
			at := 0
			for i := first; i < last; i++ {
				end := at + sizes[i]
				b := Batch{
					Index: i, N: sizes[i], Features: r.Features,
					X: x[at*r.Features : end*r.Features], Y: y[at:end], Positions: positions[at:end],
				}
				if !yield(b, nil) {
					return
				}
				at = end
			}
			positions, first = positions[rows:], last
		}
	}
}

func (r *Rows) read(x []float32, y []int64, positions []int64) error {
	if err := r.x.Float32Rows(x, positions); err != nil {
		return fault.New("native.data", fault.KindOf(err), "read x of the data set: %w", err)
	}
	if err := r.y.Int64Rows(y, positions); err != nil {
		return fault.New("native.data", fault.KindOf(err), "read y of the data set: %w", err)
	}
	return nil
}

// resize returns a slice of n elements, s where it is long enough.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
