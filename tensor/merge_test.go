package tensor_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// part is one answer of a test: a model of one function.
type part struct {
	function int
	weight   float64
	dict     tensor.StateDict
}

func answers(t *testing.T, parts []part) []tensor.Answer {
	t.Helper()
	out := make([]tensor.Answer, len(parts))
	for i, p := range parts {
		out[i] = tensor.Answer{Function: p.function, Weight: p.weight, Source: source(encodeFile(t, p.dict))}
	}
	return out
}

func average(t *testing.T, n int, parts []part) tensor.StateDict {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, tensor.Average(&b, n, answers(t, parts)))
	d, err := tensor.Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	return d
}

func values(d tensor.DType, v ...float64) tensor.StateDict {
	return tensor.StateDict{tensor.New(tensor.Spec{Name: "w", DType: d, Shape: []int64{int64(len(v))}}, v)}
}

// randomDict returns a model with every dtype, 0-d and empty tensors and, if
// long, tensors over several windows. Floats are below 8 in magnitude.
func randomDict(rnd *rand.Rand, long bool) tensor.StateDict {
	var d tensor.StateDict
	shapes := [][]int64{{}, {3, 0}, {5}, {2, 3}}
	if long {
		shapes = append(shapes, []int64{7, 9001})
	}
	for i, shape := range shapes {
		for t := tensor.F64; t <= tensor.Bool; t++ {
			spec := tensor.Spec{Name: fmt.Sprintf("%d.%s", i, t), DType: t, Shape: shape}
			v := make([]float64, spec.Elements())
			for k := range v {
				switch {
				case t.IsFloat():
					v[k] = 16*rnd.Float64() - 8
				case t == tensor.U8 || t == tensor.Bool:
					v[k] = float64(rnd.IntN(2))
				default:
					v[k] = float64(rnd.IntN(255) - 127)
				}
			}
			d = append(d, tensor.New(spec, v))
		}
	}
	return d
}

// epsilon is half the distance from 1 to the next value of a type.
var epsilon = map[tensor.DType]float64{tensor.F64: 0x1p-53, tensor.F32: 0x1p-24, tensor.F16: 0x1p-11, tensor.BF16: 0x1p-8}

// The oracle adds in plain order. Both sums are of m products, so each is off
// by at most (m+2) * 2^-53 * sum(w|x|)/sum(w); rounding to the type adds
// epsilon * |mean|, or half a subnormal.
func TestAverageIsTheWeightedMean(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(40)
		var parts []part
		for _, f := range rnd.Perm(n)[:1+rnd.IntN(n)] {
			parts = append(parts, part{f, float64(1 + rnd.IntN(5000)), randomDict(rnd, seed < 3)})
		}
		m := float64(len(parts))
		got := average(t, n, parts)
		require.Len(t, got, len(parts[0].dict))
		for k, g := range got {
			require.True(t, g.Equal(parts[0].dict[k].Spec))
			out := g.Float64()
			sum, abs, high := make([]float64, len(out)), make([]float64, len(out)), make([]float64, len(out))
			total := 0.0
			for i, p := range parts {
				total += p.weight
				for e, x := range p.dict[k].Float64() {
					sum[e] += p.weight * x
					abs[e] += p.weight * math.Abs(x)
					if i == 0 || x > high[e] {
						high[e] = x
					}
				}
			}
			for e, x := range out {
				if !g.DType.IsFloat() {
					require.Equal(t, high[e], x, "%s[%d]", g.Name, e)
					continue
				}
				want := sum[e] / total
				if tolerance := epsilon[g.DType]*math.Abs(want) + 2*(m+2)*0x1p-53*abs[e]/total + 0x1p-25; math.Abs(x-want) > tolerance {
					require.InDelta(t, want, x, tolerance, "%s[%d]", g.Name, e)
				}
			}
		}
	}
}

// tree is the documented order of additions, written as its definition.
func tree(lo, width int, leaf func(id int) (float64, bool)) (float64, bool) {
	if width == 1 {
		return leaf(lo)
	}
	a, hasA := tree(lo, width/2, leaf)
	b, hasB := tree(lo+width/2, width/2, leaf)
	switch {
	case hasA && hasB:
		return a + b, true
	case hasA:
		return a, true
	}
	return b, hasB
}

// Whatever is missing, the additions are those of the tree, bit for bit; the
// values are such that another order gives other bits.
func TestAverageAddsAlongTheFixedTree(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		n := 1 + rnd.IntN(70)
		var parts []part
		for f := range n {
			if rnd.IntN(3) > 0 || f == int(seed)%n {
				x := math.Ldexp(rnd.Float64()-0.5, rnd.IntN(60))
				parts = append(parts, part{f, float64(1 + rnd.IntN(300)), values(tensor.F64, x, -x)})
			}
		}
		find := func(pick func(p part) float64) float64 {
			v, ok := tree(0, 1<<bits.Len(uint(n-1)), func(id int) (float64, bool) {
				for _, p := range parts {
					if p.function == id {
						return pick(p), true
					}
				}
				return 0, false
			})
			require.True(t, ok)
			return v
		}
		want := find(func(p part) float64 { return p.weight * p.dict[0].Float64()[0] }) / find(func(p part) float64 { return p.weight })
		require.Equal(t, []float64{want, -want}, average(t, n, parts)[0].Float64(), "seed %d", seed)
		rnd.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		require.Equal(t, []float64{want, -want}, average(t, n, parts)[0].Float64(), "the order of the slice must not matter")
		require.Equal(t, []float64{want, -want}, average(t, 2*n, parts)[0].Float64(), "missing functions at the end must not matter")
	}
}

func TestCopiesAverageToTheSameBits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	model := tensor.StateDict{finiteBits(tensor.F16), finiteBits(tensor.BF16), {
		Spec: tensor.Spec{Name: "F32", DType: tensor.F32, Shape: []int64{1 << 13}},
	}}
	for range 1 << 13 {
		u := rnd.Uint32()
		for u>>23&0xff == 0xff {
			u = rnd.Uint32()
		}
		if rnd.IntN(8) == 0 {
			u &^= 0xff << 23 // a subnormal or zero
		}
		model[2].Data = append(model[2].Data, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	weights := map[string]func() float64{
		"samples":       func() float64 { return float64(1 + rnd.IntN(100_000)) },
		"any reals":     func() float64 { return rnd.Float64() + 1e-9 },
		"any magnitude": func() float64 { return math.Ldexp(1+rnd.Float64(), rnd.IntN(2000)-1000) },
		"the largest":   func() float64 { return math.MaxFloat64 },
		"the smallest":  func() float64 { return math.SmallestNonzeroFloat64 },
	}
	file := source(encodeFile(t, model))
	for name, weight := range weights {
		for _, n := range []int{1, 3, 64} {
			var same []tensor.Answer
			for f := range n {
				same = append(same, tensor.Answer{Function: f, Weight: weight(), Source: file})
			}
			var b bytes.Buffer
			require.NoError(t, tensor.Average(&b, n, same))
			require.True(t, bytes.Equal(encodeFile(t, model), b.Bytes()), "%d copies, weights: %s", n, name)
		}
	}
}

// finiteBits returns a tensor with every finite value of a 16-bit type.
func finiteBits(d tensor.DType) tensor.Tensor {
	all := allBits(d)
	out := tensor.Tensor{Spec: tensor.Spec{Name: d.String(), DType: d}}
	for i, x := range all.Float64() {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			out.Data = append(out.Data, all.Data[2*i:2*i+2]...)
		}
	}
	out.Shape = []int64{int64(len(out.Data) / 2)}
	return out
}

// Reported case 22: a round in which no samples were trained is no round.
func TestAverageRefusesWeightsThatAreNone(t *testing.T) {
	for _, w := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		err := tensor.Average(io.Discard, 2, answers(t, []part{{0, 1, values(tensor.F32, 1)}, {1, w, values(tensor.F32, 1)}}))
		requireRejected(t, err, fmt.Sprintf("function 1: weight %v", w))
	}
	requireRejected(t, tensor.Average(io.Discard, 2, nil), "none of 2 functions")
}

// Reported cases 24 and 25.
func TestIntegersAndBoolsKeepTheirTypeAndTakeTheMaximum(t *testing.T) {
	for d := tensor.I64; d <= tensor.Bool; d++ {
		one := func(x float64) tensor.StateDict {
			return tensor.StateDict{tensor.New(tensor.Spec{Name: "n", DType: d, Shape: []int64{}}, []float64{x})}
		}
		require.Equal(t, one(1), average(t, 3, []part{{0, 1, one(0)}, {1, 5, one(1)}, {2, 9, one(0)}}), d.String())
		if d <= tensor.I8 {
			require.Equal(t, one(-3), average(t, 3, []part{{0, 1, one(-4)}, {1, 5, one(-3)}, {2, 9, one(-100)}}), d.String())
		}
	}
	long := func(x int64) tensor.StateDict { return tensor.StateDict{tensor.NewInt64("n", []int64{}, []int64{x})} }
	require.Equal(t, long(math.MaxInt64), average(t, 2, []part{{0, 1, long(math.MaxInt64 - 1)}, {1, 1, long(math.MaxInt64)}}))
}

// Reported case 26: what Check lets through by mistake still enters no merge.
func TestAverageNamesTheFunctionThatIsNotFinite(t *testing.T) {
	const n = 50_000
	for d := tensor.F64; d <= tensor.BF16; d++ {
		for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
			v := make([]float64, n)
			ok := values(d, v...)
			v[n-2] = bad
			err := tensor.Average(io.Discard, 3, answers(t, []part{{0, 1, ok}, {2, 1e-300, values(d, v...)}}))
			requireRejected(t, err, fmt.Sprintf(`function 2: tensor "w": %v at index %d`, bad, n-2))
		}
	}
	greatest := values(tensor.F32, math.MaxFloat32, -math.MaxFloat32)
	require.Equal(t, greatest, average(t, 3, []part{{0, 3, greatest}, {1, 5, greatest}, {2, 7, greatest}}), "the greatest values do not overflow")
	huge := values(tensor.F64, 1e308, -1e308)
	require.Equal(t, huge, average(t, 2, []part{{0, 1, huge}, {1, 1, huge}}))
}

// Reported case 27.
func TestSumsDoNotOverflowTheType(t *testing.T) {
	var parts []part
	for f := range 64 {
		parts = append(parts, part{f, 1437, values(tensor.F16, 2000, -2000, 65504)})
	}
	require.Equal(t, []float64{2000, -2000, 65504}, average(t, 64, parts)[0].Float64())
}

// Reported case 30: weights of 1 are the unweighted mean.
func TestWeightsOfOneAreTheUnweightedMean(t *testing.T) {
	parts := func(a, b float64) []part {
		return []part{{0, a, values(tensor.F32, 1, 4)}, {1, b, values(tensor.F32, 2, 8)}}
	}
	require.Equal(t, []float64{1.5, 6}, average(t, 2, parts(1, 1))[0].Float64())
	require.Equal(t, []float64{1.25, 5}, average(t, 2, parts(3, 1))[0].Float64())
}

func TestAverageRefusesWhatDoesNotBelongTogether(t *testing.T) {
	a, b := values(tensor.F32, 1, 2), values(tensor.F32, 1, 2, 3)
	for name, c := range map[string]struct {
		n     int
		parts []part
		kind  fault.Kind
		text  string
	}{
		"no functions":       {0, []part{{0, 1, a}}, fault.Invalid, "0 functions"},
		"a function too far": {2, []part{{2, 1, a}}, fault.Invalid, "function 2 not in [0, 2)"},
		"a negative one":     {2, []part{{-1, 1, a}}, fault.Invalid, "function -1 not in [0, 2)"},
		"the same twice":     {2, []part{{1, 1, a}, {1, 2, a}}, fault.Invalid, "function 1 answers twice"},
		"another shape":      {2, []part{{0, 1, a}, {1, 1, b}}, fault.Rejected, `function 1: tensor "w": shape [3] instead of [2]`},
		"another dtype":      {2, []part{{0, 1, a}, {1, 1, values(tensor.I32, 1, 2)}}, fault.Rejected, "function 1: tensor"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tensor.Average(io.Discard, c.n, answers(t, c.parts))
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
		})
	}
	whole := encodeFile(t, a)
	for n := range whole {
		short := tensor.Source{R: bytes.NewReader(whole[:n]), Size: int64(len(whole))}
		requireRejected(t, tensor.Average(io.Discard, 2, []tensor.Answer{{0, 1, source(whole)}, {1, 1, short}}), "function 1: truncated")
		requireRejected(t, tensor.Average(io.Discard, 2, []tensor.Answer{{0, 1, source(whole)}, {1, 1, source(whole[:n])}}), "function 1")
	}
}

// Headers of other writers differ in bytes, not in meaning.
func TestAverageMergesFilesOfDifferentWriters(t *testing.T) {
	ours := source(encodeFile(t, tensor.StateDict{tensor.New(tensor.Spec{Name: "w", DType: tensor.U8, Shape: []int64{2}}, []float64{1, 9})}))
	other := source(file(`{"__metadata__":{"format":"pt"},"w":{"shape":[2],"dtype":"U8","data_offsets":[0,2]}}`, 5, 6))
	var a, b bytes.Buffer
	require.NoError(t, tensor.Average(&a, 2, []tensor.Answer{{0, 1, ours}, {1, 1, other}}))
	require.NoError(t, tensor.Average(&b, 2, []tensor.Answer{{0, 1, other}, {1, 1, ours}}))
	require.Equal(t, a.Bytes(), b.Bytes(), "metadata are not merged")
	require.Equal(t, []byte{5, 9}, a.Bytes()[a.Len()-2:])
}

// zeros is a file of a header and zeros that takes no memory.
type zeros struct{ header []byte }

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(z.header)) {
		copy(p, z.header[off:])
	}
	return len(p), nil
}

// Memory depends neither on the model nor, beyond a few words each, on the
// number of answers: 18 sums of a window of 256 KiB, and 5 MiB of bookkeeping.
func TestAMergeKnowsItsSize(t *testing.T) {
	answer := tensor.StateDict{tensor.NewFloat32("w", []int64{3}, []float32{1, 2, 3}), tensor.NewInt64("n", nil, []int64{7})}
	file := encodeFile(t, answer)
	m, err := tensor.NewMerge(tensor.Plan{Functions: 2, Answers: []tensor.Answer{{Function: 1, Weight: 1, Source: source(file)}}})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, m.Write(&out, nil))
	require.EqualValues(t, len(file), m.Size())
	require.Zero(t, m.MomentumSize())
	require.Equal(t, file, out.Bytes(), "of one answer the merge is that answer")
}

func TestAverageTakesLittleMemory(t *testing.T) {
	for _, c := range []struct {
		n        int
		elements int64
		limit    uint64
	}{
		{4, 4 << 20, 2 << 20},   // 16 MiB each
		{500, 50_000, 4 << 20},  // 200 kB each: two windows
		{65_536, 100, 12 << 20}, // 400 bytes each
		{256, 32_768, 5 << 20},  // 128 KiB each: a full window
		{1000, 16, 256 << 10},   // 64 bytes each: the window shrinks to the model
		{8, 4, 16 << 10},        // what a test's round costs
	} {
		l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int64{c.elements}}})
		require.NoError(t, err)
		var header bytes.Buffer
		require.NoError(t, l.WriteHeader(&header))
		same := make([]tensor.Answer, c.n)
		for f := range same {
			same[f] = tensor.Answer{Function: f, Weight: 1, Source: tensor.Source{R: zeros{header.Bytes()}, Size: l.Size()}}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, tensor.Average(io.Discard, c.n, same))
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, c.limit, "n=%d, %d elements", c.n, c.elements)
	}
}
