package host

import (
	"bytes"
	"io"
	"math"

	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// spoil copies the state dict that ref names to key, with a NaN in the place of
// one value: of the first tensor of floats, the value at the share `at` of it.
// So the NaN really lies in the bytes that are checked, in whichever space and
// whoever wrote them. A dict without floats cannot be spoilt, nor one that is
// none: ref is returned.
func spoil(space plane.Space, ref plane.Ref, key string, at float64) (plane.Ref, error) {
	blob, err := space.Open(ref)
	if err != nil {
		return ref, err
	}
	defer func() { _ = blob.Close() }()
	offset, nan := nanFor(blob, at)
	if len(nan) == 0 {
		return ref, nil
	}
	draft, err := space.Create(key, blob.Size())
	if err != nil {
		return ref, err
	}
	end := offset + int64(len(nan))
	for _, part := range []io.Reader{
		io.NewSectionReader(blob, 0, offset),
		bytes.NewReader(nan),
		io.NewSectionReader(blob, end, blob.Size()-end),
	} {
		if _, err := io.Copy(draft, part); err != nil {
			_ = draft.Abort()
			return ref, err
		}
	}
	return draft.Seal()
}

// nanFor returns where in a state dict a NaN is to lie, and its bytes; none
// where there is no place for it.
func nanFor(blob plane.Blob, at float64) (offset int64, nan []byte) {
	layout, err := tensor.ReadLayout(blob, blob.Size())
	if err != nil {
		return 0, nil
	}
	for _, e := range layout.Entries {
		if n := e.Elements(); e.DType.IsFloat() && n > 0 {
			index := min(int64(at*float64(n)), n-1)
			one := tensor.New(tensor.Spec{Name: e.Name, DType: e.DType}, []float64{math.NaN()})
			return e.Offset + index*e.DType.Size(), one.Data
		}
	}
	return 0, nil
}
