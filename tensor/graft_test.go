package tensor_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

func TestGraft(t *testing.T) {
	a := func(v ...float32) tensor.Tensor { return tensor.NewFloat32("a", []int64{int64(len(v))}, v) }
	n := func(v ...int64) tensor.Tensor { return tensor.NewInt64("n", []int64{}, v) }
	base := tensor.StateDict{a(1, 2), n(3)}
	for name, c := range map[string]struct {
		scion   tensor.StateDict
		partial bool
		want    tensor.StateDict
		says    string
	}{
		"values are taken, the order stays":     {tensor.StateDict{n(9), a(7, 8)}, false, tensor.StateDict{a(7, 8), n(9)}, ""},
		"a missing tensor is refused":           {tensor.StateDict{a(7, 8)}, false, nil, `has no tensor "n"`},
		"another shape is refused":              {tensor.StateDict{a(7), n(9)}, false, nil, `tensor "a" of the model to start from is F32 [1], the function wants F32 [2]`},
		"a tensor too many is refused":          {tensor.StateDict{a(7, 8), n(9), tensor.NewInt64("x", nil, []int64{1})}, false, nil, `a tensor "x"`},
		"partial takes what fits":               {tensor.StateDict{a(7), n(9)}, true, tensor.StateDict{a(1, 2), n(9)}, ""},
		"partial refuses what does not fit all": {tensor.StateDict{a(7)}, true, nil, "nothing of the model"},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			err := tensor.Graft(&got, source(encodeFile(t, base)), source(encodeFile(t, c.scion)), c.partial)
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				require.Equal(t, fault.Invalid, fault.KindOf(err))
				return
			}
			require.NoError(t, err)
			dict, err := tensor.Read(bytes.NewReader(got.Bytes()), int64(got.Len()))
			require.NoError(t, err)
			require.Equal(t, c.want, dict)
		})
	}
}
