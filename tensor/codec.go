package tensor

import (
	"sync"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	codecOp = "tensor.codec"
	// encodingKey is the key of an encoded file's metadata that says how it is to be
	// read, encodingForm its value. Another form gets another one.
	encodingKey  = "troupe.encoding"
	encodingForm = "int8/128"
	// blockElements is how many elements share a scale. A scale of 4 bytes makes that
	// 1.03 bytes an element: 0.258 of float32, which leaves room for headers.
	blockElements = 128
	// levels is how many steps of a scale an int8 is at most, either way.
	levels = 127
)

// Codec writes answers of functions in about a quarter of their bytes, and reads
// them as if they were what the functions had written. Of each parameter it keeps
// what the answer changed of the reference model, in blocks of 128 elements:
//
//	scale = max |change| / 127, f32 (f64 of f64 parameters)
//	q     = change / scale, rounded to the nearest, ties to even; int8
//	value = reference + q * scale, rounded to the parameter's type
//
// What a value lacks of the answer, its residual, is returned; a function's next
// answer is encoded with that added to its change (error feedback: Seide et al.,
// "1-Bit Stochastic Gradient Descent", 2014). So nothing is lost, only late: the
// changes of any number of rounds add up to what the answers would have, but for
// half a scale. Residuals are f32 (f64 of f64 parameters), so that an f16
// model can keep what is below its own precision.
//
// Buffers, integers and bools are kept as they are, for what they are and
// because they are few: a BatchNorm variance beside one a million times its size
// could come out negative.
//
// An encoded file is a safetensors file with the names of the reference, in its
// order. A parameter is an I8 tensor of blocks: scale, then up to 128 q. All computing is in
// float64, a product rounded before it is added, so that the bits depend on the
// inputs alone. Memory is a few windows of 128 KiB and the headers.
//
// A Codec is for one reference model, whose reader has to stay readable. It is
// safe for concurrent use if that is.
type Codec struct {
	reference Source
	layout    *Layout // of the reference, and of what Open returns
	encoded   *Layout
	residual  *Layout // of the parameters alone
	parameter []bool  // by entry

	mu  sync.Mutex // guards what follows
	win decoding
}

// NewCodec reads the header of the reference model. Corrupt, Invalid: it is none.
func NewCodec(reference Source) (*Codec, error) {
	wrap := func(err error) error { return fault.New(codecOp, fault.KindOf(err), "reference model: %w", err) }
	l, err := ReadLayout(reference.R, reference.Size)
	if err != nil {
		return nil, wrap(err)
	}
	c := &Codec{reference: reference, layout: l}
	if c.parameter, err = l.parameters(); err != nil {
		return nil, wrap(err)
	}
	specs := l.Specs()
	for i, s := range specs {
		if c.parameter[i] {
			specs[i] = Spec{Name: s.Name, DType: I8, Shape: []int64{encodedBytes(s)}}
		}
	}
	if c.encoded, err = newLayout(specs, map[string]string{encodingKey: encodingForm}); err != nil {
		return nil, wrap(err)
	}
	if c.residual, err = l.wide(c.parameter); err != nil {
		return nil, wrap(err)
	}
	return c, nil
}

// wide returns the layout of a state dict that holds something of each of l's
// parameters: F64 of an F64 one, F32 of any other.
func (l *Layout) wide(parameter []bool) (*Layout, error) {
	var specs []Spec
	for i, e := range l.Entries {
		if parameter[i] {
			specs = append(specs, Spec{Name: e.Name, DType: wide(e.DType), Shape: e.Shape})
		}
	}
	return NewLayout(specs)
}

// wide is the type of what adds up from round to round beside values of a type:
// f16 and bf16 would lose what little is added.
func wide(d DType) DType {
	if d == F64 {
		return F64
	}
	return F32
}

// blockBytes is the size of a full block of a parameter.
func blockBytes(d DType) int64 { return wide(d).Size() + blockElements }

// encodedBytes is the size of a parameter's blocks.
func encodedBytes(s Spec) int64 {
	n := s.Elements()
	return n + (n+blockElements-1)/blockElements*wide(s.DType).Size()
}

// Size returns the bytes of an encoded answer.
func (c *Codec) Size() int64 { return c.encoded.Size() }

// ResidualSize returns the bytes of a residual.
func (c *Codec) ResidualSize() int64 { return c.residual.Size() }
