package native

import (
	"fmt"
	"slices"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// State is a state dict at work: its tensors are Go slices, and what is written
// into them is what the invocation gives back.
type State struct {
	what  string // "model" or "optimizer state", for messages
	fixed bool   // tensors may not be added
	cells []*cell
}

// cell is one tensor: values is nil until it is asked for, and data after.
type cell struct {
	spec   tensor.Spec
	data   []byte
	values values
}

// values is a tensor as a slice.
type values interface {
	encode(tensor.Spec) tensor.Tensor
}

type (
	float32s []float32
	float64s []float64
	int64s   []int64
)

func (v float32s) encode(s tensor.Spec) tensor.Tensor { return tensor.NewFloat32(s.Name, s.Shape, v) }

func (v float64s) encode(s tensor.Spec) tensor.Tensor { return tensor.NewFloat64(s.Name, s.Shape, v) }
func (v int64s) encode(s tensor.Spec) tensor.Tensor   { return tensor.NewInt64(s.Name, s.Shape, v) }

func newState(what string, fixed bool, dict tensor.StateDict) *State {
	s := &State{what: what, fixed: fixed}
	for _, t := range dict {
		s.cells = append(s.cells, &cell{spec: t.Spec, data: t.Data})
	}
	return s
}

// Float32 returns the elements of the F32 tensor of that name and shape, C
// order; the slice is the tensor. Where there is none yet it is added, after
// the others and all zero: so Init names a model, and Open a first optimizer
// state. Errors (Invalid): another dtype or shape than asked for; no such
// tensor in a model that exists already.
func (s *State) Float32(name string, shape ...int64) ([]float32, error) {
	c, err := s.cell(name, tensor.F32, shape)
	if err != nil {
		return nil, err
	}
	if c.values == nil {
		c.values = float32s(c.take().Float32())
	}
	return c.values.(float32s), nil
}

// Float64 is Float32 for F64 tensors.
func (s *State) Float64(name string, shape ...int64) ([]float64, error) {
	c, err := s.cell(name, tensor.F64, shape)
	if err != nil {
		return nil, err
	}
	if c.values == nil {
		c.values = float64s(c.take().Float64())
	}
	return c.values.(float64s), nil
}

// Int64 is Float32 for I64 tensors.
func (s *State) Int64(name string, shape ...int64) ([]int64, error) {
	c, err := s.cell(name, tensor.I64, shape)
	if err != nil {
		return nil, err
	}
	if c.values == nil {
		c.values = int64s(c.take().Int64())
	}
	return c.values.(int64s), nil
}

// Shape returns the shape of the tensor of that name, and whether there is
// one. The shape is not to be changed.
func (s *State) Shape(name string) ([]int64, bool) {
	if c := s.find(name); c != nil {
		return c.spec.Shape, true
	}
	return nil, false
}

// Matrix returns the sizes of a tensor with two dimensions. Errors (Invalid):
// there is no such tensor, or it has others.
func (s *State) Matrix(name string) (rows, cols int64, err error) {
	shape, ok := s.Shape(name)
	if !ok || len(shape) != 2 {
		return 0, 0, NewInvalid("the %s has no matrix %q: it is of another function", s.what, name)
	}
	return shape[0], shape[1], nil
}

// Len returns the number of tensors.
func (s *State) Len() int { return len(s.cells) }

func (s *State) find(name string) *cell {
	if i := slices.IndexFunc(s.cells, func(c *cell) bool { return c.spec.Name == name }); i >= 0 {
		return s.cells[i]
	}
	return nil
}

func (s *State) cell(name string, dtype tensor.DType, shape []int64) (*cell, error) {
	want := tensor.Spec{Name: name, DType: dtype, Shape: slices.Clone(shape)}
	if c := s.find(name); c != nil {
		if !c.spec.Equal(want) {
			return nil, NewInvalid("tensor %q of the %s is %v %v, not %v %v: it is of another function or data set",
				name, s.what, c.spec.DType, c.spec.Shape, dtype, shape)
		}
		return c, nil
	}
	if s.fixed {
		return nil, NewInvalid("the %s has no tensor %q: it is of another function", s.what, name)
	}
	if _, err := tensor.NewLayout([]tensor.Spec{want}); err != nil {
		return nil, err
	}
	c := &cell{spec: want, data: make([]byte, want.Bytes())}
	s.cells = append(s.cells, c)
	return c, nil
}

// take gives the bytes up: the values replace them.
func (c *cell) take() tensor.Tensor {
	t := tensor.Tensor{Spec: c.spec, Data: c.data}
	c.data = nil
	return t
}

// write puts the state into out, encoding one tensor at a time.
func (s *State) write(out functions.Output) error {
	specs := make([]tensor.Spec, len(s.cells))
	for i, c := range s.cells {
		specs[i] = c.spec
	}
	layout, err := tensor.NewLayout(specs)
	if err != nil {
		return err
	}
	w, err := out.Create(layout.Size())
	if err != nil {
		return err
	}
	if err := layout.WriteHeader(w); err != nil {
		return fmt.Errorf("write the %s: %w", s.what, err)
	}
	for _, c := range s.cells {
		data := c.data
		if c.values != nil {
			data = c.values.encode(c.spec).Data
		}
		if _, err := w.Write(data); err != nil {
			return fmt.Errorf("write tensor %q of the %s: %w", c.spec.Name, s.what, err)
		}
	}
	return nil
}

// readState reads the state dict of in; none when it is empty.
func readState(what string, fixed bool, in functions.Input) (*State, error) {
	dict, err := functions.ReadDict(in)
	if err != nil {
		return nil, fault.New("native.read", fault.KindOf(err), "read the %s: %w", what, err)
	}
	return newState(what, fixed, dict), nil
}
