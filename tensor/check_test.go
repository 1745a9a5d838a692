package tensor_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

func check(t *testing.T, reference, answer tensor.StateDict) error {
	t.Helper()
	return tensor.Check(source(encodeFile(t, reference)), source(encodeFile(t, answer)))
}

func requireRejected(t *testing.T, err error, text string) {
	t.Helper()
	require.Equal(t, fault.Rejected, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, text)
}

// Reported case 24: a 0-d counter that comes back otherwise is refused.
func TestCheckRefusesOtherModels(t *testing.T) {
	bn := func(counter tensor.Tensor) tensor.StateDict {
		return tensor.StateDict{tensor.NewFloat32("bn.weight", []int64{2}, []float32{1, 1}), counter}
	}
	const steps = "bn.num_batches_tracked"
	reference := bn(tensor.NewInt64(steps, nil, []int64{9}))
	require.NoError(t, check(t, reference, reference))
	for name, c := range map[string]struct {
		answer tensor.StateDict
		text   string
	}{
		"a counter of shape [1]": {bn(tensor.NewInt64(steps, []int64{1}, []int64{9})), `tensor "bn.num_batches_tracked": shape [1] instead of []`},
		"a counter as a float":   {bn(tensor.NewFloat64(steps, nil, []float64{9})), `tensor "bn.num_batches_tracked": dtype F64 instead of I64`},
		"another name":           {bn(tensor.NewInt64("x", nil, []int64{9})), `tensor "bn.num_batches_tracked" is missing; "x" stands`},
		"a tensor less":          {reference[:1], `tensor "bn.num_batches_tracked" is missing`},
		"a tensor more":          {append(reference[:2:2], tensor.NewInt64("x", nil, []int64{9})), `tensor "x" is not part`},
		"another order":          {tensor.StateDict{reference[1], reference[0]}, `"bn.num_batches_tracked" stands in the place of "bn.weight"`},
		"no tensors":             {nil, `"bn.weight" is missing`},
	} {
		t.Run(name, func(t *testing.T) { requireRejected(t, check(t, reference, c.answer), c.text) })
	}
}

// Reported case 26.
func TestCheckRefusesGarbageInOneTensor(t *testing.T) {
	const n = 100_001 // several windows
	for _, d := range []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16} {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e38, -1e19} {
			for _, at := range []int{0, 40_000, n - 1} {
				values := make([]float64, n)
				model := func() tensor.StateDict {
					return tensor.StateDict{
						tensor.NewFloat32("first", []int64{3}, []float32{1, 2, 3}),
						tensor.New(tensor.Spec{Name: "fc.weight", DType: d, Shape: []int64{n}}, values),
					}
				}
				reference := model()
				values[at] = bad
				shown := tensor.New(tensor.Spec{DType: d}, []float64{bad}).Float64()[0]
				requireRejected(t, check(t, reference, model()), fmt.Sprintf(`tensor "fc.weight": %v at index %d`, shown, at))
			}
		}
	}
}

func TestCheckJudgesSizeByTheReference(t *testing.T) {
	big := func(x ...float64) tensor.StateDict {
		return tensor.StateDict{tensor.NewFloat64("w", []int64{int64(len(x))}, x), tensor.NewFloat64("v", nil, []float64{1})}
	}
	require.NoError(t, check(t, big(0, 0), big(0x1p63, -0x1p63)))
	requireRejected(t, check(t, big(0, 0.5), big(0, math.Nextafter(0x1p63, 1e300))), "at index 1 is over 9.2")
	require.NoError(t, check(t, big(0, -4), big(0x1p65, -0x1p65)))
	requireRejected(t, check(t, big(0, -4), big(0, -0x1.1p65)), `tensor "w"`)
	require.NoError(t, check(t, big(0, 1e300), big(-math.MaxFloat64, 0)), "a huge reference allows huge answers")
	requireRejected(t, check(t, big(0, 1e300), big(-math.MaxFloat64, math.Inf(1))), "+Inf at index 1")
	requireRejected(t, check(t, big(0, math.NaN()), big(0, 1e38)), `at index 1`)
}

func TestCheckRefusesBoolsThatAreNone(t *testing.T) {
	model := func(b ...byte) tensor.StateDict {
		return tensor.StateDict{{Spec: tensor.Spec{Name: "mask", DType: tensor.Bool, Shape: []int64{int64(len(b))}}, Data: b}}
	}
	require.NoError(t, check(t, model(0, 0), model(0, 1)))
	requireRejected(t, check(t, model(0, 0), model(1, 2)), `tensor "mask": 2 at index 1 is no bool`)
}

func TestCheckRefusesBrokenFiles(t *testing.T) {
	whole := encodeFile(t, small())
	for n := range whole {
		requireRejected(t, tensor.Check(source(whole), source(whole[:n])), "answer")
	}
	requireRejected(t, tensor.Check(source(whole), source(file(`{"w":{"dtype":"C64","shape":[0],"data_offsets":[0,0]}}`))), "C64")
	err := tensor.Check(source(whole[:30]), source(whole))
	require.Equal(t, fault.Corrupt, fault.KindOf(err), "a broken reference is no fault of the answer")
}

// What a checker remembers of one model must not be said of another.
func TestACheckerJudgesEachAnswerByItsOwnReference(t *testing.T) {
	narrow := tensor.StateDict{tensor.NewFloat32("w", []int64{2}, []float32{1, 2})}
	wide := tensor.StateDict{tensor.NewFloat32("w", []int64{4}, []float32{1, 2, 3, 4})}
	renamed := tensor.StateDict{tensor.NewFloat32("v", []int64{2}, []float32{1, 2})} // of narrow's size
	var checker tensor.Checker
	check := func(reference, answer tensor.StateDict) error {
		return checker.Check(source(encodeFile(t, reference)), source(encodeFile(t, answer)))
	}
	for range 2 {
		require.NoError(t, check(narrow, narrow))
		requireRejected(t, check(narrow, renamed), `"v" stands in its place`)
		requireRejected(t, check(renamed, narrow), `"w" stands in its place`)
		require.NoError(t, check(wide, wide))
		requireRejected(t, check(wide, narrow), "shape [2] instead of [4]")
	}
	cut := encodeFile(t, narrow)
	cut = cut[:len(cut)-1]
	requireRejected(t, checker.Check(source(encodeFile(t, narrow)), source(cut)), "truncated")
}
