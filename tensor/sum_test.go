package tensor_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// addUp returns a plan in which the nodes of the tree whose answers all lie in one
// place are sums that were made there; it says how many those are. Place 0 keeps
// its answers as they are.
func addUp(t *testing.T, p tensor.Plan, place func(function int) int) (tensor.Plan, int) {
	t.Helper()
	ids, weights := make([]int, len(p.Answers)), make([]float64, len(p.Answers))
	for i, a := range p.Answers {
		ids[i], weights[i] = a.Function, a.Weight
		if p.Strategy.Unweighted {
			weights[i] = 1
		}
	}
	weights = tensor.ScaledWeights(weights)
	taken := tensor.Subtrees(p.Functions, ids, func(first, end int) bool {
		for i := first; i < end; i++ {
			if place(ids[i]) == 0 || place(ids[i]) != place(ids[first]) {
				return false
			}
		}
		return true
	})
	all := p.Answers
	p.Answers = nil
	next := 0
	for _, s := range taken {
		p.Answers = append(p.Answers, all[next:s[0]]...)
		next = s[1]
		there := p
		there.Answers = nil
		for i := s[0]; i < s[1]; i++ {
			a := all[i]
			a.Weight = weights[i]
			there.Answers = append(there.Answers, a)
		}
		p.Sums = append(p.Sums, tensor.Sum{Answers: all[s[0]:s[1]], Source: source(sum(t, there))})
	}
	p.Answers = append(p.Answers, all[next:]...)
	return p, len(taken)
}

func sum(t *testing.T, p tensor.Plan) []byte {
	t.Helper()
	p.Sums = nil
	a, err := tensor.NewSum(p)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, a.Write(&b))
	require.EqualValues(t, b.Len(), a.Size())
	like := p.Answers[0].Source
	if p.Encoding != tensor.Plain {
		like = p.Reference
	}
	want, err := tensor.SumBytes(like)
	require.NoError(t, err)
	require.Equal(t, want, a.Size())
	return b.Bytes()
}

// Whatever is added up where it lies, the merge has the bits that it has of the
// answers themselves: for any N, any places, whoever is missing, and any weights,
// types, encodings, clips and strategies that take a mean.
func TestSumsChangeNothing(t *testing.T) {
	taken := 0
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 36))
		n := 1 + rnd.IntN(40)
		reference := randomDict(rnd, seed < 3)
		p := tensor.Plan{Functions: n, Strategy: strategy(t, []string{"average", "average:unweighted", "nesterov"}[seed%3])}
		began := withBuffers(t, reference, `["2.F32","3.F64"]`)
		p.Reference = source(began)
		if seed%2 == 0 {
			p.Clip = 1 + 20*rnd.Float64()
		}
		var plain [][]byte
		absent, block := rnd.IntN(3), 1+rnd.IntN(8)
		for f := range n {
			if rnd.IntN(4) < absent && f != int(seed)%n {
				continue
			}
			weight := float64(1 + rnd.IntN(5000))
			if seed%5 == 0 {
				weight = math.Ldexp(weight, rnd.IntN(600)-300)
			}
			file := encodeFile(t, randomDict(rnd, seed < 3))
			plain = append(plain, file)
			p.Answers = append(p.Answers, tensor.Answer{Function: f, Weight: weight, Source: source(file)})
		}
		if seed%7 < 2 {
			p.Encoding = tensor.Int8
			c := codec(t, began)
			for i := range p.Answers {
				encoded, _ := coded(t, c, plain[i], nil)
				p.Answers[i].Source = source(encoded)
			}
		}
		if p.Strategy.Kind == tensor.Nesterov && seed%4 == 0 {
			p.Momentum = source(merge(t, p).momentum)
		}
		want := merge(t, p)
		shift, places := rnd.IntN(8), 1+rnd.IntN(4)
		summed, k := addUp(t, p, func(function int) int { return (function + shift) / block % places })
		got := merge(t, summed)
		require.True(t, bytes.Equal(want.model, got.model), "seed %d: %d sums", seed, k)
		require.True(t, bytes.Equal(want.momentum, got.momentum), "seed %d", seed)
		taken += k
	}
	require.Greater(t, taken, 300)
}

// A round whose answers are all in sums, and none of which has a reference, is
// merged too: as optimizer states are.
func TestSumsAlone(t *testing.T) {
	p := tensor.Plan{Functions: 8, Strategy: strategy(t, "average")}
	rnd := rand.New(rand.NewPCG(1, 1))
	for f := range 8 {
		p.Answers = append(p.Answers, tensor.Answer{Function: f, Weight: float64(f + 1), Source: source(encodeFile(t, randomDict(rnd, false)))})
	}
	for _, places := range []int{1, 2, 4} {
		summed, k := addUp(t, p, func(function int) int { return 1 + function*places/8 })
		require.Equal(t, places, k)
		require.Empty(t, summed.Answers)
		require.Equal(t, merge(t, p), merge(t, summed))
	}
}

func TestSubtreesAreThoseOfTheTree(t *testing.T) {
	ids := []int{0, 1, 2, 3, 4, 6, 7, 8, 11}
	all := func(int, int) bool { return true }
	require.Equal(t, [][2]int{{0, 9}}, tensor.Subtrees(12, ids, all), "all is a node too")
	small := func(first, end int) bool { return end-first <= 3 }
	require.Equal(t, [][2]int{{0, 2}, {2, 4}, {4, 7}, {7, 9}}, tensor.Subtrees(12, ids, small), "5 is missing, and is no gap")
	require.Empty(t, tensor.Subtrees(12, ids, func(int, int) bool { return false }))
	require.Empty(t, tensor.Subtrees(1, []int{0}, all))
}

func TestMergeRefusesSumsThatAreNone(t *testing.T) {
	var all []tensor.Answer
	for f := range 4 {
		all = append(all, tensor.Answer{Function: f, Weight: 1, Source: source(encodeFile(t, values(tensor.F32, 1, 2)))})
	}
	of := func(answers ...tensor.Answer) tensor.Sum {
		return tensor.Sum{Answers: answers, Source: source(sum(t, tensor.Plan{Functions: 4, Answers: answers}))}
	}
	other := of(tensor.Answer{Function: 2, Weight: 1, Source: source(encodeFile(t, values(tensor.F16, 1, 2)))})
	raw := of(all[2:]...)
	raw.Source = all[2].Source
	for name, c := range map[string]struct {
		plan tensor.Plan
		kind fault.Kind
		text string
	}{
		"across the tree": {tensor.Plan{Answers: []tensor.Answer{all[0], all[3]}, Sums: []tensor.Sum{of(all[1:3]...)}}, fault.Invalid, "no node of the tree"},
		"not all":         {tensor.Plan{Answers: []tensor.Answer{all[1], all[3]}, Sums: []tensor.Sum{of(all[0], all[2])}}, fault.Invalid, "no node of the tree"},
		"twice":           {tensor.Plan{Answers: all[:3], Sums: []tensor.Sum{of(all[2:]...)}}, fault.Invalid, "function 2 answers twice"},
		"of none":         {tensor.Plan{Answers: all[:3], Sums: []tensor.Sum{{}}}, fault.Invalid, "a sum of no answers"},
		"other types":     {tensor.Plan{Answers: all[:2], Sums: []tensor.Sum{other}}, fault.Rejected, "the sum of functions 2 to 2: tensor \"w\": dtype F16 instead of F32"},
		"an answer":       {tensor.Plan{Answers: all[:2], Sums: []tensor.Sum{raw}}, fault.Rejected, "the sum of functions 2 to 3"},
		"a median":        {tensor.Plan{Strategy: strategy(t, "median"), Answers: all[:2], Sums: []tensor.Sum{of(all[2:]...)}}, fault.Invalid, "takes no sums"},
	} {
		c.plan.Functions = 4
		_, err := tensor.NewMerge(c.plan)
		require.ErrorContains(t, err, c.text, name)
		require.Equal(t, c.kind.String(), fault.KindOf(err).String(), name)
	}
}

// What is not finite makes no sum: its function is named, as by a merge.
func TestASumIsFinite(t *testing.T) {
	for d := tensor.F64; d <= tensor.BF16; d++ {
		a, err := tensor.NewSum(tensor.Plan{Functions: 4, Answers: answers(t, []part{{2, 0.2, values(d, 1)}, {3, 0.2, values(d, math.Inf(1))}})})
		require.NoError(t, err)
		requireRejected(t, a.Write(io.Discard), `function 3: tensor "w": +Inf at index 0`)
	}
}

// Its memory is that of a window and its sums.
func TestASumTakesLittleMemory(t *testing.T) {
	for _, d := range []tensor.DType{tensor.F32, tensor.BF16} {
		l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: d, Shape: []int64{4 << 20}}})
		require.NoError(t, err)
		var header bytes.Buffer
		require.NoError(t, l.WriteHeader(&header))
		p := tensor.Plan{Functions: 64}
		for f := range 64 {
			p.Answers = append(p.Answers, tensor.Answer{Function: f, Weight: 1.0 / 256, Source: tensor.Source{R: zeros{header.Bytes()}, Size: l.Size()}})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a, err := tensor.NewSum(p)
		require.NoError(t, err)
		require.NoError(t, a.Write(io.Discard))
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(6<<20), fmt.Sprint(d))
	}
}
