package tensor

import (
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Graft writes a state dict that looks like base (names, order, dtypes, shapes)
// and has the values of scion: a model that training goes on from. The metadata
// are base's. Where the
// two differ in names or specs it is Invalid, naming the first tensor that
// does; with partial such tensors keep base's values instead, and only a scion
// of which nothing fits is Invalid. Corrupt: one of the two is no state dict.
func Graft(w io.Writer, base, scion Source, partial bool) error {
	target, err := ReadLayout(base.R, base.Size)
	if err != nil {
		return err
	}
	from, err := ReadLayout(scion.R, scion.Size)
	if err != nil {
		return err
	}
	parts, err := graftPlan(target, from, base, scion, partial)
	if err != nil {
		return err
	}
	layout, err := target.Rewritten()
	if err != nil {
		return err
	}
	if err := layout.WriteHeader(w); err != nil {
		return err
	}
	for _, part := range parts {
		if _, err := io.Copy(w, part); err != nil {
			return writeFailed("the grafted model", err)
		}
	}
	return nil
}

// graftPlan returns where each tensor of target is read from.
func graftPlan(target, from *Layout, base, scion Source, partial bool) ([]io.Reader, error) {
	known := make(map[string]Entry, len(from.Entries))
	for _, e := range from.Entries {
		known[e.Name] = e
	}
	var parts []io.Reader
	var taken int
	for _, e := range target.Entries {
		source, ok := known[e.Name]
		delete(known, e.Name)
		switch {
		case ok && source.Spec.Equal(e.Spec):
			parts = append(parts, io.NewSectionReader(scion.R, source.Offset, source.Bytes()))
			taken++
		case partial:
			parts = append(parts, io.NewSectionReader(base.R, e.Offset, e.Bytes()))
		case !ok:
			return nil, fault.New("tensor.graft", fault.Invalid, "the model to start from has no tensor %q", e.Name)
		default:
			return nil, fault.New("tensor.graft", fault.Invalid, "tensor %q of the model to start from is %v %v, the function wants %v %v",
				e.Name, source.DType, source.Shape, e.DType, e.Shape)
		}
	}
	for _, e := range from.Entries {
		if _, left := known[e.Name]; left && !partial {
			return nil, fault.New("tensor.graft", fault.Invalid, "the model to start from has a tensor %q that the function does not know", e.Name)
		}
	}
	if taken == 0 && len(target.Entries) > 0 {
		return nil, fault.New("tensor.graft", fault.Invalid, "nothing of the model to start from fits the function")
	}
	return parts, nil
}
