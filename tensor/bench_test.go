package tensor_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/tensor"
)

// BenchmarkAverage says how many MB of answers a second are merged; a tiny
// model shows the cost of an answer, a large one that of an element.
func BenchmarkAverage(b *testing.B) {
	for _, c := range []struct {
		dtype    tensor.DType
		elements int64
		n        int
	}{
		{tensor.F32, 8 << 20, 4},
		{tensor.F32, 1 << 20, 64},
		{tensor.F16, 1 << 20, 8},
		{tensor.BF16, 1 << 20, 8},
		{tensor.F64, 1 << 20, 8},
		{tensor.I64, 1 << 20, 8},
		{tensor.F32, 8 << 10, 1000},
		{tensor.F32, 16, 1000},
	} {
		b.Run(fmt.Sprintf("%s/elements=%d/n=%d", c.dtype, c.elements, c.n), func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 2))
			values := make([]float64, c.elements)
			for i := range values {
				values[i] = rnd.NormFloat64()
			}
			spec := tensor.Spec{Name: "w", DType: c.dtype, Shape: []int64{c.elements}}
			file := encodeFile(b, tensor.StateDict{tensor.New(spec, values)})
			answers := make([]tensor.Answer, c.n)
			for i := range answers {
				answers[i] = tensor.Answer{Function: i, Weight: float64(i%7 + 1), Source: source(file)}
			}
			b.SetBytes(int64(len(file)) * int64(c.n))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, tensor.Average(io.Discard, c.n, answers))
			}
		})
	}
}

// BenchmarkStrategies is BenchmarkAverage for the other ways to merge.
func BenchmarkStrategies(b *testing.B) {
	for _, c := range []struct {
		text string
		clip float64
		n    int
	}{{"average", 0, 4}, {"average", 1, 4}, {"nesterov", 0, 4}, {"trimmed-mean", 0, 4}, {"median", 0, 4}, {"median", 0, 64}} {
		b.Run(fmt.Sprintf("%s/clip=%v/n=%d", c.text, c.clip, c.n), func(b *testing.B) {
			const elements = 1 << 20
			rnd := rand.New(rand.NewPCG(1, 2))
			file := func() tensor.Source {
				values := make([]float32, elements)
				for i := range values {
					values[i] = float32(rnd.NormFloat64())
				}
				return source(encodeFile(b, tensor.StateDict{tensor.NewFloat32("w", []int64{elements}, values)}))
			}
			strategy, err := tensor.ParseStrategy(c.text)
			require.NoError(b, err)
			plan := tensor.Plan{Functions: c.n, Strategy: strategy, Clip: c.clip, Reference: file()}
			if strategy.Kind == tensor.Nesterov {
				plan.Momentum = file()
			}
			for i := range c.n {
				plan.Answers = append(plan.Answers, tensor.Answer{Function: i, Weight: float64(i%7 + 1), Source: file()})
			}
			b.SetBytes(plan.Reference.Size * int64(c.n))
			b.ReportAllocs()
			for b.Loop() {
				m, err := tensor.NewMerge(plan)
				require.NoError(b, err)
				require.NoError(b, m.Write(io.Discard, io.Discard))
			}
		})
	}
}

// BenchmarkCheck says how many MB of an answer a second are checked.
func BenchmarkCheck(b *testing.B) {
	file := encodeFile(b, tensor.StateDict{tensor.NewFloat32("w", []int64{4 << 20}, make([]float32, 4<<20))})
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		require.NoError(b, tensor.Check(source(file), source(file)))
	}
}

// BenchmarkCodec says how many MB of float32 answers a second are encoded, and
// merged from what they are encoded to.
func BenchmarkCodec(b *testing.B) {
	const elements, n = 4 << 20, 4
	rnd := rand.New(rand.NewPCG(1, 2))
	file := func() tensor.Source {
		values := make([]float32, elements)
		for i := range values {
			values[i] = float32(rnd.NormFloat64())
		}
		return source(encodeFile(b, tensor.StateDict{tensor.NewFloat32("w", []int64{elements}, values)}))
	}
	plan := tensor.Plan{Functions: n, Reference: file(), Encoding: tensor.Int8}
	codec, err := tensor.NewCodec(plan.Reference)
	require.NoError(b, err)
	answer := file()
	var encoded, residual bytes.Buffer
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(answer.Size)
		b.ReportAllocs()
		for b.Loop() {
			encoded.Reset()
			residual.Reset()
			require.NoError(b, codec.Encode(answer, tensor.Source{}, &encoded, &residual))
		}
	})
	for i := range n {
		plan.Answers = append(plan.Answers, tensor.Answer{Function: i, Weight: float64(i%7 + 1), Source: source(encoded.Bytes())})
	}
	b.Run("merge", func(b *testing.B) {
		b.SetBytes(answer.Size * n)
		b.ReportAllocs()
		for b.Loop() {
			m, err := tensor.NewMerge(plan)
			require.NoError(b, err)
			require.NoError(b, m.Write(io.Discard, io.Discard))
		}
	})
}

func encodeFile(tb testing.TB, d tensor.StateDict) []byte {
	tb.Helper()
	var b bytes.Buffer
	n, err := tensor.Write(&b, d)
	require.NoError(tb, err)
	require.EqualValues(tb, b.Len(), n)
	return b.Bytes()
}

func source(file []byte) tensor.Source {
	return tensor.Source{R: bytes.NewReader(file), Size: int64(len(file))}
}
