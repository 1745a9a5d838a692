package tensor_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

func strategy(t *testing.T, text string) tensor.Strategy {
	t.Helper()
	s, err := tensor.ParseStrategy(text)
	require.NoError(t, err)
	return s
}

// written is what a merge made.
type written struct {
	model, momentum []byte
}

func merge(t *testing.T, p tensor.Plan) written {
	t.Helper()
	m, err := tensor.NewMerge(p)
	require.NoError(t, err)
	var model, momentum bytes.Buffer
	require.NoError(t, m.Write(&model, &momentum))
	require.EqualValues(t, m.Size(), model.Len())
	require.EqualValues(t, m.MomentumSize(), momentum.Len())
	return written{model.Bytes(), momentum.Bytes()}
}

func dict(t *testing.T, file []byte) tensor.StateDict {
	t.Helper()
	d, err := tensor.Read(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	return d
}

// near is what rounding to a type may add to a value, and the sums of few
// hundred float64 before that.
func near(t *testing.T, d tensor.DType, want, got float64, what string) {
	t.Helper()
	if tolerance := epsilon[d]*math.Abs(want) + 1e-12 + 0x1p-25; math.Abs(want-got) > tolerance {
		require.InDelta(t, want, got, tolerance, what)
	}
}

func TestParseStrategy(t *testing.T) {
	for text, want := range map[string]tensor.Strategy{
		"average":              {},
		"average:unweighted":   {Unweighted: true},
		"nesterov":             {Kind: tensor.Nesterov, LR: 0.7, Momentum: 0.9},
		"nesterov:1":           {Kind: tensor.Nesterov, LR: 1, Momentum: 0.9},
		"nesterov:1,0":         {Kind: tensor.Nesterov, LR: 1},
		"nesterov:0.5, 0.25":   {Kind: tensor.Nesterov, LR: 0.5, Momentum: 0.25},
		"trimmed-mean":         {Kind: tensor.TrimmedMean, Share: 0.2},
		"trimmed-mean:0":       {Kind: tensor.TrimmedMean},
		"trimmed-mean:0.49999": {Kind: tensor.TrimmedMean, Share: 0.49999},
		"median":               {Kind: tensor.Median},
	} {
		require.Equal(t, want, strategy(t, text), text)
	}
	for text, says := range map[string]string{
		"":                   `merge "" does not exist: give one of average, average:unweighted, nesterov[:lr,momentum], trimmed-mean[:share], median`,
		"mode":               `merge "mode" does not exist`,
		"average:":           `merge "average:" does not exist`,
		"average:weighted":   `does not exist`,
		"median:0.1":         `does not exist`,
		"nesterov:":          `"" is no number: give one, such as 0.7`,
		"nesterov:1,0,2":     "3 numbers are too many: give at most 2",
		"nesterov:0":         "outer learning rate 0: give a number above 0, at most 10",
		"nesterov:NaN":       "outer learning rate NaN",
		"nesterov:11,0":      "outer learning rate 11",
		"nesterov:1,1":       "momentum 1: give a number in [0, 1)",
		"nesterov:1,-0.1":    "momentum -0.1",
		"nesterov:1,NaN":     "momentum NaN",
		"trimmed-mean:x":     `"x" is no number: give one, such as 0.2`,
		"trimmed-mean:0.5":   "share 0.5: give what part of the answers is cut off at each end, in [0, 0.5)",
		"trimmed-mean:NaN":   "share NaN",
		"trimmed-mean:-0.1":  "share -0.1",
		"trimmed-mean:.1,.2": "2 numbers are too many",
	} {
		_, err := tensor.ParseStrategy(text)
		require.ErrorContains(t, err, says, text)
		require.Equal(t, fault.Invalid, fault.KindOf(err), text)
	}
}

// middleOracle is the definition of both strategies, one element at a time.
func middleOracle(text string, cut int, column []float64) float64 {
	slices.Sort(column)
	if n := len(column); text == "median" {
		if n%2 == 1 {
			return column[n/2]
		}
		return (column[n/2-1] + column[n/2]) / 2
	}
	sum := 0.0
	kept := column[cut : len(column)-cut]
	for _, x := range kept {
		sum += x
	}
	return sum / float64(len(kept))
}

func TestMedianAndTrimmedMeanOfEveryElement(t *testing.T) {
	cuts := map[string]func(n int) int{
		"median":            func(int) int { return 0 },
		"trimmed-mean:0":    func(int) int { return 0 },
		"trimmed-mean":      func(n int) int { return min((n+4)/5, (n-1)/2) },
		"trimmed-mean:0.25": func(n int) int { return min((n+3)/4, (n-1)/2) },
		"trimmed-mean:0.07": func(n int) int { return min((7*n+99)/100, (n-1)/2) },
	}
	for text, cut := range cuts {
		for seed := range uint64(12) {
			rnd := rand.New(rand.NewPCG(seed, 11))
			n := 1 + rnd.IntN(40)
			if seed == 11 {
				n = 100 // 0.07 * 100 is not 7 in float64
			}
			var parts []part
			for _, f := range rnd.Perm(n)[:1+rnd.IntN(n)] {
				parts = append(parts, part{f, float64(1 + rnd.IntN(5000)), randomDict(rnd, seed == 0)})
			}
			got := merge(t, tensor.Plan{Functions: n, Answers: answers(t, parts), Strategy: strategy(t, text)})
			for k, g := range dict(t, got.model) {
				require.True(t, g.Equal(parts[0].dict[k].Spec))
				columns := make([][]float64, g.Elements())
				for _, p := range parts {
					for e, x := range p.dict[k].Float64() {
						columns[e] = append(columns[e], x)
					}
				}
				for e, x := range g.Float64() {
					if !g.DType.IsFloat() {
						if x != slices.Max(columns[e]) {
							require.Equal(t, slices.Max(columns[e]), x)
						}
						continue
					}
					near(t, g.DType, middleOracle(text, cut(len(parts)), columns[e]), x, text)
				}
			}
		}
	}
}

// Buffers of a model, as a Python program's init names them.
func withBuffers(t *testing.T, d tensor.StateDict, names string) []byte {
	t.Helper()
	l, err := d.Layout()
	require.NoError(t, err)
	l.Metadata = map[string]string{tensor.BuffersKey: names, "format": "pt"}
	l, err = l.Rewritten()
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, l.WriteHeader(&b))
	for _, x := range d {
		b.Write(x.Data)
	}
	return b.Bytes()
}

// nesterovOracle plays rounds of the documented update, one number at a time, on
// models that are never rounded.
func TestNesterovStepsAsDocumented(t *testing.T) {
	const lr, mu = 0.6, 0.8
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 12))
		model := encodeFile(t, randomDict(rnd, seed < 2))
		var momentum []byte
		old := map[string][]float64{}
		for round := range 3 {
			n := 1 + rnd.IntN(5)
			var parts []part
			for f := range n {
				parts = append(parts, part{f, float64(1 + rnd.IntN(50)), randomDict(rnd, seed < 2)})
			}
			p := tensor.Plan{Functions: n, Answers: answers(t, parts), Strategy: tensor.Strategy{Kind: tensor.Nesterov, LR: lr, Momentum: mu}, Reference: source(model)}
			if round > 0 {
				p.Momentum = source(momentum)
			}
			got := merge(t, p)
			ref, next, m := dict(t, model), dict(t, got.model), dict(t, got.momentum)
			for k, g := range next {
				if !g.DType.IsFloat() {
					_, ok := m.Get(g.Name)
					require.False(t, ok, "integers have no momentum")
					continue
				}
				moved, ok := m.Get(g.Name)
				require.True(t, ok)
				require.Equal(t, map[bool]tensor.DType{true: tensor.F64, false: tensor.F32}[g.DType == tensor.F64], moved.DType)
				require.Equal(t, g.Shape, moved.Shape)
				r, out, mOut := ref[k].Float64(), g.Float64(), moved.Float64()
				avg, total := make([]float64, len(out)), 0.0
				for _, p := range parts {
					total += p.weight
					for e, x := range p.dict[k].Float64() {
						avg[e] += p.weight * x
					}
				}
				for e := range out {
					grad := r[e] - avg[e]/total
					v := grad
					if round > 0 {
						v += mu * old[g.Name][e]
					}
					near(t, moved.DType, v, mOut[e], g.Name)
					near(t, g.DType, r[e]-lr*(grad+mu*v), out[e], g.Name) // the usual way to write it
				}
				old[g.Name] = mOut
			}
			model, momentum = got.model, got.momentum
		}
	}
}

// Without a branch on either number, nesterov:1,0 is the average, the sign of a
// zero apart.
func TestNesterovOfOneAndZeroIsTheAverage(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 13))
		n := 1 + rnd.IntN(9)
		var parts []part
		for f := range n {
			parts = append(parts, part{f, float64(1 + rnd.IntN(50)), randomDict(rnd, seed < 2)})
		}
		model, old := encodeFile(t, randomDict(rnd, seed < 2)), tensor.Source{}
		if seed%2 == 1 { // whatever the momentum was
			old = source(merge(t, tensor.Plan{Functions: 1, Answers: answers(t, parts[:1]), Strategy: strategy(t, "nesterov"), Reference: source(model)}).momentum)
		}
		plan := tensor.Plan{Functions: n, Answers: answers(t, parts), Reference: source(model), Momentum: old}
		want := merge(t, plan)
		plan.Strategy = strategy(t, "nesterov:1,0")
		require.True(t, bytes.Equal(unsigned(dict(t, want.model)), unsigned(dict(t, merge(t, plan).model))), "seed %d", seed)
	}
}

// unsigned returns a dict's bytes without the signs of its zeros.
func unsigned(d tensor.StateDict) (out []byte) {
	for _, x := range d {
		size := int(x.DType.Size())
		for i, v := range x.Float64() {
			if b := x.Data[i*size : (i+1)*size]; v == 0 {
				out = append(out, make([]byte, size)...)
			} else {
				out = append(out, b...)
			}
		}
	}
	return out
}

// An outer optimizer of a quadratic f(x) = sum(c x^2)/2, whose functions take
// gradient steps of it, gets to the minimum, and faster than the average alone.
func TestNesterovConverges(t *testing.T) {
	curvature := []float64{1, 0.3, 0.05}
	after := func(text string) float64 {
		model, momentum := values(tensor.F64, 1, -1, 1), tensor.Source{}
		for range 60 {
			x := model[0].Float64()
			for i, c := range curvature {
				x[i] -= 0.3 * c * x[i]
			}
			got := merge(t, tensor.Plan{
				Functions: 1, Answers: answers(t, []part{{0, 1, values(tensor.F64, x...)}}), Strategy: strategy(t, text),
				Reference: source(encodeFile(t, model)), Momentum: momentum,
			})
			model, momentum = dict(t, got.model), source(got.momentum)
			if len(got.momentum) == 0 {
				momentum = tensor.Source{}
			}
		}
		sum := 0.0
		for i, x := range model[0].Float64() {
			sum += curvature[i] * x * x / 2
		}
		return sum
	}
	average, outer := after("average"), after("nesterov:1,0.8")
	require.Less(t, outer, 1e-4)
	require.Less(t, outer, average/10, "average gets to %v", average)
}

// BatchNorm's statistics are measured, not stepped: an outer optimizer leaves
// them what the average makes of them. Their names come from the reference and
// go on with the merge, whatever the answers say.
func TestNesterovNeverStepsBuffers(t *testing.T) {
	model := func(w, mean, variance float32, seen int64) tensor.StateDict {
		return tensor.StateDict{
			tensor.NewFloat32("bn.weight", []int64{1}, []float32{w}), tensor.NewFloat32("bn.running_mean", []int64{1}, []float32{mean}),
			tensor.NewFloat32("bn.running_var", []int64{1}, []float32{variance}), tensor.NewInt64("bn.num_batches_tracked", nil, []int64{seen}),
			tensor.NewFloat32("out", []int64{2}, []float32{w, 2 * w}),
		}
	}
	reference := withBuffers(t, model(1, 0, 1, 0), `["bn.running_mean","bn.running_var","bn.num_batches_tracked","gone"]`)
	var momentum tensor.Source
	for round := range 3 {
		plan := tensor.Plan{
			Functions: 2, Reference: source(reference), Momentum: momentum, Strategy: strategy(t, "nesterov:2,0.9"), Clip: 0.1,
			Answers: answers(t, []part{{0, 1, model(2, 4, 0.01, 3)}, {1, 1, model(4, 2, 0.03, 5)}}),
		}
		got := merge(t, plan)
		d := dict(t, got.model)
		require.Equal(t, []float32{3}, d[1].Float32(), "the mean")
		require.Equal(t, []float32{float32((float64(float32(0.01)) + float64(float32(0.03))) / 2)}, d[2].Float32())
		require.Equal(t, []int64{5}, d[3].Int64())
		require.NotEqual(t, []float32{3}, d[0].Float32())
		require.Equal(t, []string{"bn.weight", "out"}, []string{dict(t, got.momentum)[0].Name, dict(t, got.momentum)[1].Name})
		l, err := tensor.ReadLayout(bytes.NewReader(got.model), int64(len(got.model)))
		require.NoError(t, err)
		require.Len(t, l.Metadata, 2, "round %d", round)
		buffers, err := l.Buffers()
		require.NoError(t, err)
		require.True(t, buffers["bn.running_var"])
		reference, momentum = got.model, source(got.momentum)
	}
	var grafted bytes.Buffer
	require.NoError(t, tensor.Graft(&grafted, source(reference), source(encodeFile(t, model(1, 1, 1, 1))), false))
	l, err := tensor.ReadLayout(bytes.NewReader(grafted.Bytes()), int64(grafted.Len()))
	require.NoError(t, err)
	require.Contains(t, l.Metadata[tensor.BuffersKey], "bn.running_var", "--init keeps them too")
}

// Answers that have changed too much are scaled down along their own direction;
// one at the limit, or below, keeps its bits.
func TestClipShortensEachAnswer(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 14))
		ref := randomDict(rnd, false)
		var norms []float64
		var parts []part
		for f := range 4 {
			p := part{f, float64(1 + f), randomDict(rnd, false)}
			squares := 0.0
			for k, x := range p.dict {
				r := ref[k].Float64()
				for e, v := range x.Float64() {
					if x.DType.IsFloat() {
						squares += (v - r[e]) * (v - r[e])
					}
				}
			}
			parts, norms = append(parts, p), append(norms, math.Sqrt(squares))
		}
		limit := (slices.Min(norms) + slices.Max(norms)) / 2
		want := make([]part, len(parts))
		for i, p := range parts {
			want[i] = part{p.function, p.weight, slices.Clone(p.dict)}
			for k, x := range p.dict {
				if v := x.Float64(); x.DType.IsFloat() && norms[i] > limit {
					for e, r := range ref[k].Float64() {
						v[e] = r + limit/norms[i]*(v[e]-r)
					}
					want[i].dict[k] = tensor.New(x.Spec, v)
				}
			}
		}
		for _, text := range []string{"average", "average:unweighted", "median", "trimmed-mean:0.3", "nesterov"} {
			plan := tensor.Plan{Functions: 4, Answers: answers(t, parts), Strategy: strategy(t, text), Clip: limit, Reference: source(encodeFile(t, ref))}
			clipped := merge(t, plan)
			plan.Answers, plan.Clip = answers(t, want), 0
			expected := dict(t, merge(t, plan).model)
			for k, g := range dict(t, clipped.model) {
				if !g.DType.IsFloat() {
					require.Equal(t, expected[k], g)
					continue
				}
				for e, x := range g.Float64() { // squares were added in another order: a clipped value may be the next one of its type
					require.InDelta(t, expected[k].Float64()[e], x, 64*epsilon[g.DType], "%s: %s[%d]", text, g.Name, e)
				}
			}
			plan.Answers, plan.Clip = answers(t, parts), slices.Max(norms)*1.0000001
			loose := merge(t, plan)
			plan.Clip = 0
			require.Equal(t, merge(t, plan), loose, "%s: nothing to clip: the bits are those without", text)
		}
	}
}

// The norm is over all windows of all parameters, and a model is not clipped
// tensor by tensor.
func TestClipTakesTheNormOfAllParameters(t *testing.T) {
	const n = 100_000
	zero := tensor.StateDict{tensor.NewFloat32("a", []int64{n}, make([]float32, n)), tensor.NewFloat32("b", nil, []float32{0})}
	ones := slices.Repeat([]float32{3}, n)
	moved := tensor.StateDict{tensor.NewFloat32("a", []int64{n}, ones), tensor.NewFloat32("b", nil, []float32{float32(400 * math.Sqrt(10))})}
	// The change is 3*sqrt(100,000) = 300*sqrt(10) in a, 400*sqrt(10) in b: 500*sqrt(10) in all.
	got := dict(t, merge(t, tensor.Plan{
		Functions: 1, Answers: answers(t, []part{{0, 1, moved}}), Clip: 50 * math.Sqrt(10), Reference: source(encodeFile(t, zero)),
	}).model)
	require.InDelta(t, 0.3, got[0].Float32()[n-1], 1e-7)
	require.InDelta(t, 40*math.Sqrt(10), got[1].Float32()[0], 1e-4)
}

func TestCopiesAreWhatEveryStrategyMakesOfThem(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 15))
	model := append(tensor.StateDict{finiteBits(tensor.F16), finiteBits(tensor.BF16)}, randomDict(rnd, true)...)
	model = slices.DeleteFunc(model, func(x tensor.Tensor) bool { return x.DType == tensor.F64 }) // as precise as the sums
	file := encodeFile(t, model)
	for _, text := range []string{"average", "average:unweighted", "median", "trimmed-mean", "trimmed-mean:0.3", "nesterov"} {
		for _, n := range []int{1, 2, 3, 21} {
			var same []tensor.Answer
			for f := range n {
				same = append(same, tensor.Answer{Function: f, Weight: float64(1 + f), Source: source(file)})
			}
			got := merge(t, tensor.Plan{Functions: n, Answers: same, Strategy: strategy(t, text), Reference: source(file), Clip: 1})
			if text == "nesterov" { // nothing has changed, so there is nothing to go on with
				require.True(t, bytes.Equal(unsigned(model), unsigned(dict(t, got.model))), "%d copies", n)
				continue
			}
			require.True(t, bytes.Equal(file, got.model), "%s of %d copies", text, n)
		}
	}
}

func TestTheOrderOfArrivalDoesNotMatter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 16))
	model := encodeFile(t, randomDict(rnd, true))
	var parts []part
	for f := range 7 {
		parts = append(parts, part{f, float64(1 + rnd.IntN(50)), randomDict(rnd, true)})
	}
	for _, text := range tensor.Strategies() {
		text, _, _ := strings.Cut(text, "[")
		plan := tensor.Plan{Functions: 7, Answers: answers(t, parts), Strategy: strategy(t, text), Reference: source(model), Clip: 100}
		want := merge(t, plan)
		for range 2 {
			rnd.Shuffle(len(plan.Answers), func(i, j int) { plan.Answers[i], plan.Answers[j] = plan.Answers[j], plan.Answers[i] })
			require.Equal(t, want, merge(t, plan), text)
		}
	}
}

// One function of five answers garbage that is finite: what the guard of a merge
// cannot refuse, the median and the trimmed mean shrug off.
func TestGarbageOfOneFunctionOfFive(t *testing.T) {
	var parts []part
	for f := range 5 {
		parts = append(parts, part{f, 10, values(tensor.F32, 1+float64(f)/10, -1)})
	}
	parts[3].dict = values(tensor.F32, 1e6, -1e6)
	at := func(text string, clip float64) []float64 {
		return dict(t, merge(t, tensor.Plan{
			Functions: 5, Answers: answers(t, parts), Strategy: strategy(t, text), Clip: clip, Reference: source(encodeFile(t, values(tensor.F32, 1, -1))),
		}).model)[0].Float64()
	}
	require.Greater(t, at("average", 0)[0], 1e5)
	require.InDelta(t, 1.2, at("median", 0)[0], 1e-6)
	require.InDelta(t, (1.1+1.2+1.4)/3, at("trimmed-mean", 0)[0], 1e-6)
	require.InDelta(t, -1, at("trimmed-mean", 0)[1], 1e-6)
	require.InDelta(t, 1.2, at("average", 0.5)[0], 0.1, "clipped")
}

func TestMergeRefusesWhatIsNotFiniteWhateverTheStrategy(t *testing.T) {
	bad := func(x float64) []part {
		return []part{{0, 1, values(tensor.F32, 1, 1)}, {2, 1, values(tensor.F32, 1, x)}, {3, 1, values(tensor.F32, 1, 1)}}
	}
	for _, text := range []string{"average", "median", "trimmed-mean:0.4", "nesterov"} {
		for _, clip := range []float64{0, 1e-3} {
			for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
				m, err := tensor.NewMerge(tensor.Plan{
					Functions: 4, Answers: answers(t, bad(x)), Strategy: strategy(t, text), Clip: clip, Reference: source(encodeFile(t, values(tensor.F32, 1, 1))),
				})
				require.NoError(t, err)
				requireRejected(t, m.Write(io.Discard, io.Discard), fmt.Sprintf(`function 2: tensor "w": %v at index 1`, x))
			}
		}
	}
	far := answers(t, []part{{0, 1, values(tensor.F32, -math.MaxFloat32)}})
	m, err := tensor.NewMerge(tensor.Plan{Functions: 1, Answers: far, Strategy: strategy(t, "nesterov:2"), Reference: source(encodeFile(t, values(tensor.F32, math.MaxFloat32)))})
	require.NoError(t, err)
	requireRejected(t, m.Write(io.Discard, io.Discard), "at index 0 does not fit F32: the outer optimizer diverges, lower its learning rate")
}

func TestMergeRefusesAnotherReferenceOrMomentum(t *testing.T) {
	one := answers(t, []part{{0, 1, values(tensor.F32, 1, 2)}})
	model, other := source(encodeFile(t, values(tensor.F32, 1, 2))), source(encodeFile(t, values(tensor.F32, 1, 2, 3)))
	outer := strategy(t, "nesterov")
	for name, c := range map[string]struct {
		plan tensor.Plan
		kind fault.Kind
		says string
	}{
		"nesterov without a reference": {tensor.Plan{Strategy: outer}, fault.Invalid, "needs the model that the answers began from"},
		"clip without a reference":     {tensor.Plan{Clip: 1}, fault.Invalid, "needs the model that the answers began from"},
		"another reference":            {tensor.Plan{Reference: other}, fault.Invalid, `not of the reference model: tensor "w": shape [2] instead of [3]`},
		"a truncated reference":        {tensor.Plan{Reference: tensor.Source{R: model.R, Size: 20}}, fault.Corrupt, "reference model"},
		"another momentum":             {tensor.Plan{Strategy: outer, Reference: model, Momentum: other}, fault.Invalid, "the momentum is not of the reference model"},
		"a truncated momentum":         {tensor.Plan{Strategy: outer, Reference: model, Momentum: tensor.Source{R: model.R, Size: 20}}, fault.Corrupt, "momentum"},
		"buffers that are no list": {
			tensor.Plan{Reference: source(withBuffers(t, values(tensor.F32, 1, 2), "w"))}, fault.Corrupt, `"troupe.buffers" are no array of tensor names`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.plan.Functions, c.plan.Answers = 1, one
			_, err := tensor.NewMerge(c.plan)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.kind, fault.KindOf(err))
		})
	}
}

// Whatever the model and however many answers, each strategy's memory is a few
// windows; that of trimmed-mean and median 8 MiB more.
func TestStrategiesTakeLittleMemory(t *testing.T) {
	for _, text := range []string{"median", "trimmed-mean", "nesterov"} {
		for _, c := range []struct {
			n        int
			elements int64
		}{{4, 4 << 20}, {200, 200_000}, {20_000, 16}} {
			l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int64{c.elements}}})
			require.NoError(t, err)
			var header bytes.Buffer
			require.NoError(t, l.WriteHeader(&header))
			zero := tensor.Source{R: zeros{header.Bytes()}, Size: l.Size()}
			same := make([]tensor.Answer, c.n)
			for f := range same {
				same[f] = tensor.Answer{Function: f, Weight: 1, Source: zero}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			m, err := tensor.NewMerge(tensor.Plan{Functions: c.n, Answers: same, Strategy: strategy(t, text), Clip: 1, Reference: zero})
			require.NoError(t, err)
			require.NoError(t, m.Write(io.Discard, io.Discard))
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(15<<20), "%s, n=%d, %d elements", text, c.n, c.elements)
		}
	}
}
