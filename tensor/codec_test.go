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

func codec(t *testing.T, reference []byte) *tensor.Codec {
	t.Helper()
	c, err := tensor.NewCodec(source(reference))
	require.NoError(t, err)
	return c
}

// coded encodes an answer, with what the last one lacked (nil: none).
func coded(t *testing.T, c *tensor.Codec, answer, before []byte) (encoded, residual []byte) {
	t.Helper()
	var out, left bytes.Buffer
	var last tensor.Source
	if before != nil {
		last = source(before)
	}
	require.NoError(t, c.Encode(source(answer), last, &out, &left))
	require.EqualValues(t, c.Size(), out.Len())
	require.EqualValues(t, c.ResidualSize(), left.Len())
	return out.Bytes(), left.Bytes()
}

// decodedFile reads what an encoded answer stands for.
func decodedFile(t *testing.T, c *tensor.Codec, encoded []byte) []byte {
	t.Helper()
	s, err := c.Open(source(encoded))
	require.NoError(t, err)
	all, err := io.ReadAll(io.NewSectionReader(s.R, 0, s.Size))
	require.NoError(t, err)
	require.Len(t, all, int(s.Size))
	return all
}

// stepped is a model some way from another one.
func stepped(rnd *rand.Rand, from tensor.StateDict, by float64) tensor.StateDict {
	out := make(tensor.StateDict, len(from))
	for i, x := range from {
		v := x.Float64()
		if x.DType.IsFloat() {
			for k := range v {
				v[k] += by * rnd.NormFloat64()
			}
		}
		out[i] = tensor.New(x.Spec, v)
	}
	return out
}

// A value is at most half a scale, 1/254 of its block's largest change, from what
// the function answered and what it was owed; the rest is the residual, to the bit
// of its type. Buffers, integers and bools are what they were.
func TestCodecErrsByHalfAScaleAndKeepsTheRest(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 35))
		reference := randomDict(rnd, seed < 2)
		buffers := map[string]bool{"2.F32": true, "3.BF16": true}
		c := codec(t, withBuffers(t, reference, `["2.F32","3.BF16"]`))
		answer := stepped(rnd, reference, math.Pow(10, float64(seed)-8))
		before := tensor.StateDict{}
		for _, x := range reference {
			if x.DType.IsFloat() && !buffers[x.Name] {
				d := tensor.F32
				if x.DType == tensor.F64 {
					d = tensor.F64
				}
				owed := make([]float64, x.Elements())
				for k := range owed {
					owed[k] = 1e-3 * rnd.NormFloat64()
				}
				before = append(before, tensor.New(tensor.Spec{Name: x.Name, DType: d, Shape: x.Shape}, owed))
			}
		}
		encoded, residual := coded(t, c, encodeFile(t, answer), encodeFile(t, before))
		got, left := dict(t, decodedFile(t, c, encoded)), dict(t, residual)
		require.Equal(t, reference.Specs(), got.Specs())
		require.Equal(t, before.Specs(), left.Specs())
		for i, x := range got {
			if !x.DType.IsFloat() || buffers[x.Name] {
				require.Equal(t, answer[i].Data, x.Data, x.Name)
				continue
			}
			ref, value, have := reference[i].Float64(), answer[i].Float64(), x.Float64()
			last, _ := before.Get(x.Name)
			next, _ := left.Get(x.Name)
			owed, lacks := last.Float64(), next.Float64()
			for k := range have {
				largest := 0.0
				for b := k / 128 * 128; b < min(k/128*128+128, len(have)); b++ {
					largest = max(largest, math.Abs(value[b]-ref[b]+owed[b]))
				}
				want := value[k] + owed[k]
				allowed := largest/254*(1+1e-6) + 2*epsilon[x.DType]*(math.Abs(want)+math.Abs(ref[k])) + 1e-40
				rounding := epsilon[next.DType]*math.Abs(want-have[k]) + 0x1p-50*(math.Abs(want)+math.Abs(ref[k]))
				if math.Abs(want-have[k]) > allowed || math.Abs(want-have[k]-lacks[k]) > rounding {
					t.Fatalf("%s[%d]: %v instead of %v, lacks %v; allowed %v", x.Name, k, have[k], want, lacks[k], allowed)
				}
			}
		}
	}
}

// Error feedback: whatever functions answer, the decoded changes of all rounds
// add up to the answers' changes, but for what one round may lack. A change far
// below the scale of its block, which one round loses whole, comes through too.
func TestCodecLosesNothingOverRounds(t *testing.T) {
	const n, rounds = 300, 400
	for _, d := range []tensor.DType{tensor.F64, tensor.F32, tensor.F16, tensor.BF16} {
		rnd := rand.New(rand.NewPCG(7, uint64(d)))
		model := values(d, make([]float64, n)...)
		want, got := make([]float64, n), make([]float64, n)
		var before []byte
		half := 0.0
		for range rounds {
			c := codec(t, encodeFile(t, model))
			answer := model[0].Float64()
			for k := range answer {
				answer[k] += 1e-3 * rnd.NormFloat64()
				if k%128 == 0 {
					answer[k] += 4 * rnd.NormFloat64() // the scale of its block is 30 times the others' changes
				}
			}
			trained := values(d, answer...)
			encoded, residual := coded(t, c, encodeFile(t, trained), before)
			next := dict(t, decodedFile(t, c, encoded))
			half = 0
			ref, value := model[0].Float64(), trained[0].Float64()
			for k, x := range next[0].Float64() {
				want[k] += value[k] - ref[k]
				got[k] += x - ref[k]
				half = max(half, math.Abs(value[k]-ref[k])/254)
			}
			model, before = next, residual
		}
		for k := range want {
			allowed := half*1.1 + 4*epsilon[d]*math.Abs(model[0].Float64()[k]) + rounds*1e-9
			require.InDelta(t, want[k], got[k], allowed, "%s[%d]", d, k)
		}
	}
}

// What did not change is the reference, bit for bit, whatever its values.
func TestCodecKeepsWhatIsUnchanged(t *testing.T) {
	zero := math.Copysign(0, -1)
	for d := tensor.F64; d <= tensor.Bool; d++ {
		file := encodeFile(t, values(d, 1, zero, 0, 1, 0x1p-14, 3))
		c := codec(t, file)
		encoded, residual := coded(t, c, file, nil)
		require.Equal(t, file, decodedFile(t, c, encoded), d)
		for _, x := range dict(t, residual) {
			for _, v := range x.Float64() {
				require.Zero(t, v, d)
			}
		}
	}
}

// Changes of any size that a type has stay finite, and so do residuals.
func TestCodecStaysFinite(t *testing.T) {
	largest := map[tensor.DType]float64{tensor.F64: math.MaxFloat64, tensor.F32: math.MaxFloat32, tensor.F16: 65504, tensor.BF16: 0x1.fep127}
	smallest := map[tensor.DType]float64{tensor.F64: 5e-324, tensor.F32: 0x1p-149, tensor.F16: 0x1p-24, tensor.BF16: 0x1p-133}
	for d, most := range largest {
		least := smallest[d]
		reference := encodeFile(t, values(d, most, -most, 0, most, 0, -least, 1))
		answer := encodeFile(t, values(d, -most, most, most, most, least, least, -1))
		c := codec(t, reference)
		var before []byte
		for range 5 {
			encoded, residual := coded(t, c, answer, before)
			for _, v := range append(dict(t, decodedFile(t, c, encoded))[0].Float64(), dict(t, residual)[0].Float64()...) {
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "%s: %v", d, v)
			}
			before = residual
		}
		tiny := codec(t, encodeFile(t, values(d, 0, 0, 0)))
		encoded, _ := coded(t, tiny, encodeFile(t, values(d, least, -least, 0)), nil)
		require.Zero(t, dict(t, decodedFile(t, tiny, encoded))[0].Float64()[2])
	}
}

// Any stretch of a decoded model reads as a part of the whole, whichever bytes it
// begins and ends with, and whichever answer was read before.
func TestDecodedModelsAreReadAnywhere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(35, 1))
	reference := randomDict(rnd, true)
	c := codec(t, encodeFile(t, reference))
	var sources []tensor.Source
	var files [][]byte
	for range 3 {
		encoded, _ := coded(t, c, encodeFile(t, stepped(rnd, reference, 0.1)), nil)
		s, err := c.Open(source(encoded))
		require.NoError(t, err)
		sources, files = append(sources, s), append(files, decodedFile(t, c, encoded))
	}
	size := int(sources[0].Size)
	for range 3000 {
		k, lo := rnd.IntN(3), rnd.IntN(size)
		b := make([]byte, 1+rnd.IntN(min(size-lo, 1<<uint(rnd.IntN(20)))))
		n, err := sources[k].R.ReadAt(b, int64(lo))
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.True(t, bytes.Equal(files[k][lo:lo+n], b), "[%d,%d)", lo, lo+n)
	}
	for _, off := range []int64{int64(size) - 3, int64(size), int64(size) + 9} {
		n, err := sources[0].R.ReadAt(make([]byte, 10), off)
		require.ErrorIs(t, err, io.EOF)
		require.EqualValues(t, max(0, int64(size)-off), n)
	}
	_, err := sources[0].R.ReadAt(make([]byte, 1), -1)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// Encoded answers are at most 0.27 of what float32 ones are, headers included.
func TestCodecTakesAQuarterOfTheBytes(t *testing.T) {
	for name, shapes := range map[string][][]int64{
		"LeNet":                  {{6, 1, 5, 5}, {6}, {16, 6, 5, 5}, {16}, {120, 400}, {120}, {84, 120}, {84}, {10, 84}, {10}},
		"a megabyte":             {{512, 512}, {512}},
		"layers of a ResNet":     {{64, 3, 7, 7}, {64}, {128, 64, 3, 3}, {128}, {512, 256, 3, 3}, {512}, {1000, 512}, {1000}},
		"many of a few thousand": {{4000}, {3999}, {4096}, {2049}, {5000}, {4001}, {4002}, {4003}, {4004}, {4005}},
	} {
		var specs []tensor.Spec
		for i, shape := range shapes {
			specs = append(specs, tensor.Spec{Name: fmt.Sprintf("layer.%d", i), DType: tensor.F32, Shape: shape})
		}
		layout, err := tensor.NewLayout(specs)
		require.NoError(t, err)
		var header bytes.Buffer
		require.NoError(t, layout.WriteHeader(&header))
		c, err := tensor.NewCodec(tensor.Source{R: bytes.NewReader(header.Bytes()), Size: layout.Size()})
		require.NoError(t, err)
		share := float64(c.Size()) / float64(layout.Size())
		t.Logf("%s: %d of %d bytes, %.4f", name, c.Size(), layout.Size(), share)
		require.LessOrEqual(t, share, 0.27, name)
	}
}

// A merge of encoded answers is the merge of what they decode to, whatever the
// strategy.
func TestMergesTakeEncodedAnswersAsWhatTheyDecodeTo(t *testing.T) {
	for _, text := range []string{"average", "average:unweighted", "nesterov", "trimmed-mean:0.3", "median"} {
		for _, clip := range []float64{0, 1} {
			rnd := rand.New(rand.NewPCG(35, 2))
			reference := randomDict(rnd, text == "average")
			file := withBuffers(t, reference, `["3.F32"]`)
			c := codec(t, file)
			plan := tensor.Plan{Functions: 6, Strategy: strategy(t, text), Clip: clip, Reference: source(file)}
			plain := plan
			plan.Encoding = tensor.Int8
			for _, f := range []int{5, 0, 2, 3} {
				encoded, _ := coded(t, c, encodeFile(t, stepped(rnd, reference, 0.05)), nil)
				a := tensor.Answer{Function: f, Weight: float64(f + 1), Source: source(encoded)}
				plan.Answers = append(plan.Answers, a)
				a.Source = source(decodedFile(t, c, encoded))
				plain.Answers = append(plain.Answers, a)
			}
			want := merge(t, plain)
			require.Equal(t, want, merge(t, plan), "%s, clip %v", text, clip)
			if kind := plan.Strategy.Kind; kind == tensor.Mean || kind == tensor.Nesterov {
				require.Equal(t, want, merge(t, summedUp(t, plan, 2, 3)), "%s, clip %v", text, clip)
			}
		}
	}
}

// summedUp is a plan in whose place of the answers of two functions is their sum.
func summedUp(t *testing.T, p tensor.Plan, functions ...int) tensor.Plan {
	t.Helper()
	weights := make([]float64, len(p.Answers))
	for i, a := range p.Answers {
		if weights[i] = a.Weight; p.Strategy.Unweighted {
			weights[i] = 1
		}
	}
	weights = tensor.ScaledWeights(weights)
	part, rest := p, p
	part.Answers, rest.Answers, part.Strategy = nil, nil, tensor.Strategy{}
	var sum tensor.Sum
	for i, a := range p.Answers {
		if !slices.Contains(functions, a.Function) {
			rest.Answers = append(rest.Answers, a)
			continue
		}
		sum.Answers = append(sum.Answers, a)
		a.Weight = weights[i]
		part.Answers = append(part.Answers, a)
	}
	addition, err := tensor.NewSum(part)
	require.NoError(t, err)
	var file bytes.Buffer
	require.NoError(t, addition.Write(&file))
	sum.Source = source(file.Bytes())
	rest.Sums = []tensor.Sum{sum}
	return rest
}

// Two encodings of the same are the same, and need no more memory than windows.
func TestCodecIsDeterministicAndSmall(t *testing.T) {
	rnd := rand.New(rand.NewPCG(35, 3))
	v := make([]float64, 4<<20)
	reference := encodeFile(t, values(tensor.F32, v...))
	for k := range v {
		v[k] = rnd.NormFloat64()
	}
	answer := encodeFile(t, values(tensor.F32, v...))
	c := codec(t, reference)
	encoded, residual := coded(t, c, answer, nil)
	again, left := coded(t, codec(t, reference), answer, nil)
	require.True(t, bytes.Equal(encoded, again))
	require.True(t, bytes.Equal(residual, left))

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := c.Open(source(encoded))
	require.NoError(t, err)
	require.NoError(t, c.Encode(source(answer), source(residual), io.Discard, io.Discard))
	_, err = io.Copy(io.Discard, io.NewSectionReader(s.R, 0, s.Size))
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(2<<20), "of a model of 16 MiB")
}

func TestCodecRefuses(t *testing.T) {
	model := values(tensor.F32, 1, 2, 3)
	file := encodeFile(t, model)
	c := codec(t, file)
	encoded, residual := coded(t, c, file, nil)
	other := encodeFile(t, values(tensor.F32, 1, 2))
	otherEncoded, _ := coded(t, codec(t, other), other, nil)
	for name, tt := range map[string]struct {
		file []byte
		kind fault.Kind
		says string
	}{
		"a plain answer":   {file, fault.Rejected, `not encoded against the reference model: tensor "w": dtype F32 instead of I8`},
		"another model's":  {otherEncoded, fault.Rejected, "shape [6] instead of [7]"},
		"a truncated one":  {encoded[:len(encoded)-1], fault.Corrupt, "truncated"},
		"another encoding": {[]byte(strings.Replace(string(encoded), "int8/128", "int8/256", 1)), fault.Rejected, "it does not say int8/128"},
	} {
		_, err := c.Open(source(tt.file))
		require.ErrorContains(t, err, tt.says, name)
		require.Equal(t, tt.kind, fault.KindOf(err), name)
		m := tensor.Plan{Functions: 2, Reference: source(file), Encoding: tensor.Int8, Answers: []tensor.Answer{{Function: 1, Weight: 1, Source: source(tt.file)}}}
		_, err = tensor.NewMerge(m)
		require.ErrorContains(t, err, "function 1: ", name)
		require.Equal(t, fault.Rejected, fault.KindOf(err), name)
	}
	_, err := tensor.NewMerge(tensor.Plan{Functions: 1, Encoding: tensor.Int8, Answers: []tensor.Answer{{Weight: 1, Source: source(encoded)}}})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	_, err = tensor.NewCodec(source(file[:20]))
	require.Equal(t, fault.Corrupt, fault.KindOf(err))

	for name, tt := range map[string]struct {
		answer, before []byte
		kind           fault.Kind
		says           string
	}{
		"an answer of another model":  {other, nil, fault.Invalid, "the answer is not of the reference model"},
		"a residual of another model": {file, other, fault.Invalid, "the residual is not of the reference model"},
		"half a residual":             {file, residual[:len(residual)-1], fault.Corrupt, "the residual"},
	} {
		var last tensor.Source
		if tt.before != nil {
			last = source(tt.before)
		}
		err := c.Encode(source(tt.answer), last, io.Discard, io.Discard)
		require.ErrorContains(t, err, tt.says, name)
		require.Equal(t, tt.kind, fault.KindOf(err), name)
	}
	err = c.Encode(source(file), tensor.Source{}, full{}, io.Discard)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	err = c.Encode(source(file), tensor.Source{}, io.Discard, full{})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestParseEncoding(t *testing.T) {
	for text, want := range map[string]tensor.Encoding{"": tensor.Plain, "none": tensor.Plain, "int8": tensor.Int8} {
		got, err := tensor.ParseEncoding(text)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	_, err := tensor.ParseEncoding("int4")
	require.ErrorContains(t, err, `compress "int4" does not exist: give one of none, int8`)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// Whatever the file, opening it gives an error or a model that can be read.
func FuzzCodecOpen(f *testing.F) {
	model := tensor.StateDict{
		tensor.New(tensor.Spec{Name: "a", DType: tensor.F16, Shape: []int64{3}}, []float64{1, 2, 3}),
		tensor.New(tensor.Spec{Name: "b", DType: tensor.I32, Shape: []int64{2}}, []float64{4, 5}),
	}
	var file, encoded bytes.Buffer
	_, err := tensor.Write(&file, model)
	require.NoError(f, err)
	c, err := tensor.NewCodec(source(file.Bytes()))
	require.NoError(f, err)
	require.NoError(f, c.Encode(source(file.Bytes()), tensor.Source{}, &encoded, io.Discard))
	f.Add(encoded.Bytes())
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := c.Open(source(b))
		if err != nil {
			return
		}
		_, err = tensor.Read(s.R, s.Size)
		require.NoError(t, err)
	})
}
