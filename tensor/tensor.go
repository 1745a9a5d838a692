package tensor

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Spec says what a tensor is, without its values.
type Spec struct {
	Name  string // any UTF-8 but "__metadata__", unique in its model
	DType DType
	Shape []int64 // dimensions, outermost first; empty is 0-d; a dimension may be 0
}

// Elements returns the number of elements: the product of the dimensions, 1
// for 0-d. It is meaningful for specs that NewLayout or ReadLayout accepted:
// for those it cannot overflow.
func (s Spec) Elements() int64 {
	n, _ := elements(s.Shape)
	return n
}

// Bytes returns the size of the values.
func (s Spec) Bytes() int64 { return s.Elements() * s.DType.Size() }

// Equal reports whether both have the same name, type and shape.
func (s Spec) Equal(o Spec) bool {
	return s.Name == o.Name && s.DType == o.DType && slices.Equal(s.Shape, o.Shape)
}

// check returns what makes the spec unfit for a file, "" for nothing.
func (s Spec) check() string {
	switch {
	case s.Name == metadataKey:
		return "the name is reserved"
	case !utf8.ValidString(s.Name):
		return "the name is not UTF-8"
	case s.DType.Size() == 0:
		return "it has no dtype"
	}
	n, ok := elements(s.Shape)
	if !ok || n > math.MaxInt64/s.DType.Size() {
		return "a dimension is negative or the size overflows"
	}
	return ""
}

// elements multiplies the dimensions; ok is false where one is negative or the
// product does not fit.
func elements(shape []int64) (n int64, ok bool) {
	if slices.Contains(shape, 0) {
		return 0, slices.Min(shape) == 0
	}
	n = 1
	for _, d := range shape {
		if d < 0 || n > math.MaxInt64/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// Tensor is a named array: little endian, C order. It owns Data.
type Tensor struct {
	Spec
	Data []byte // Bytes() long
}

// NewFloat32 returns a F32 tensor with a copy of v. Shape is kept, not copied;
// that it holds len(v) elements is checked when the tensor is written.
func NewFloat32(name string, shape []int64, v []float32) Tensor {
	data := make([]byte, 0, 4*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
	}
	return Tensor{Spec{name, F32, shape}, data}
}

// NewFloat64 is NewFloat32 for F64.
func NewFloat64(name string, shape []int64, v []float64) Tensor {
	data := make([]byte, 0, 8*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(x))
	}
	return Tensor{Spec{name, F64, shape}, data}
}

// NewInt64 is NewFloat32 for I64.
func NewInt64(name string, shape []int64, v []int64) Tensor {
	data := make([]byte, 0, 8*len(v))
	for _, x := range v {
		data = binary.LittleEndian.AppendUint64(data, uint64(x))
	}
	return Tensor{Spec{name, I64, shape}, data}
}

// New returns a tensor of any type with the values v, each rounded to the
// nearest of that type (ties to even; for an integer type v is truncated
// towards zero, for Bool non-zero is true).
func New(spec Spec, v []float64) Tensor {
	data := make([]byte, int64(len(v))*spec.DType.Size())
	encode(data, v, spec.DType)
	return Tensor{spec, data}
}

// Float64 returns a copy of the values, converted: exact but for I64 beyond
// 2^53. True is 1.
func (t Tensor) Float64() []float64 {
	out := make([]float64, t.len())
	decode(out, t.Data, t.DType)
	return out
}

// Float32 returns a copy of the values, rounded to float32 where they do not
// fit.
func (t Tensor) Float32() []float32 {
	out := make([]float32, t.len())
	if t.DType == F32 {
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
		return out
	}
	for i, x := range t.Float64() {
		out[i] = float32(x)
	}
	return out
}

// Int64 returns a copy of the values; those of a floating type are truncated
// towards zero, and what does not fit is unspecified.
func (t Tensor) Int64() []int64 {
	out := make([]int64, t.len())
	if t.DType == I64 {
		for i := range out {
			out[i] = int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
		}
		return out
	}
	for i, x := range t.Float64() {
		out[i] = int64(x)
	}
	return out
}

// len returns how many elements Data holds, whatever Shape says.
func (t Tensor) len() int {
	if t.DType.Size() == 0 {
		return 0
	}
	return len(t.Data) / int(t.DType.Size())
}

// StateDict is a model: named tensors in the order in which the model lists
// them. Order is part of a model's identity.
type StateDict []Tensor

// Get returns the tensor of a name. The bytes are shared with the dict.
func (d StateDict) Get(name string) (Tensor, bool) {
	i := slices.IndexFunc(d, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return Tensor{}, false
	}
	return d[i], true
}

// Specs returns what the dict's tensors are. Shapes are shared with the dict.
func (d StateDict) Specs() []Spec {
	specs := make([]Spec, len(d))
	for i, t := range d {
		specs[i] = t.Spec
	}
	return specs
}

// Layout returns the layout of a file that holds the dict. Invalid, naming the
// tensor: a bad spec, or Data that is not Bytes() long.
func (d StateDict) Layout() (*Layout, error) {
	l, err := NewLayout(d.Specs())
	if err != nil {
		return nil, err
	}
	for _, t := range d {
		if int64(len(t.Data)) != t.Bytes() {
			return nil, fault.New("tensor.write", fault.Invalid,
				"tensor %q: %d bytes of data for %s %v, which takes %d", t.Name, len(t.Data), t.DType, t.Shape, t.Bytes())
		}
	}
	return l, nil
}
