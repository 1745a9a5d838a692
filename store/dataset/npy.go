package dataset

import (
	"context"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

const npyOp = "dataset.npy"

// readNPY finds the samples of a .npy file: where it lies if that is C order,
// little endian, else converted into a spool, with the memory of
// tensor.ConvertNpy. Errors are those of tensor.ParseNpy; Invalid also for an
// array without samples.
func readNPY(ctx context.Context, in input, newSpool func() (spool, error)) (rows, error) {
	header, err := tensor.ParseNpy(in.r, in.size)
	if err != nil {
		return rows{}, err
	}
	switch {
	case len(header.Shape) == 0:
		return rows{}, fault.New(npyOp, fault.Invalid, "0-d: a single value is no list of samples")
	case header.Elements() == 0:
		return rows{}, fault.New(npyOp, fault.Invalid, "empty: its shape is %v", header.Shape)
	}
	data := in.r
	if header.Fortran || header.BigEndian {
		converted, err := newSpool()
		if err != nil {
			return rows{}, err
		}
		out := &stopper{ctx: ctx, Writer: converted}
		if err := tensor.ConvertNpy(out, in.r, in.size); err != nil {
			return rows{}, err
		}
		if header, err = tensor.ParseNpy(converted, out.n); err != nil {
			return rows{}, err
		}
		data = converted
	}
	return rows{typ: header.DType, n: header.Shape[0], sample: slices.Clone(header.Shape[1:]), data: data, off: header.DataStart}, nil
}
