package bench_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// BenchmarkMerge says how many bytes of answers a second are merged into a model
// on the plane, beside the same bytes merely copied in memory.
func BenchmarkMerge(b *testing.B) {
	for _, kind := range spaceKinds() {
		for _, answers := range []struct {
			size        string
			n, elements int
		}{{"16MiB", 4, 4 << 20}, {"256KiB", 64, 64 << 10}, {"64B", 1000, 16}} {
			b.Run(fmt.Sprintf("plane=%s/N=%d/answer=%s", kind.name, answers.n, answers.size), func(b *testing.B) {
				space := kind.open(b)
				defer space.Close()
				benchmarkMerge(b, space, answers.n, answers.elements)
			})
		}
	}
}

func benchmarkMerge(b *testing.B, space plane.Space, n, elements int) {
	b.Helper()
	dict := tensor.StateDict{tensor.NewFloat32("weight", []int64{int64(elements)}, noise(elements))}
	answers := make([]tensor.Answer, n)
	for i := range answers {
		blob, err := space.Open(b.Context(), store(b, space, fmt.Sprint("answer-", i), dict))
		require.NoError(b, err)
		defer blob.Close()
		answers[i] = tensor.Answer{Function: i, Weight: float64(i + 1), Source: tensor.Source{R: blob, Size: blob.Size()}}
	}
	total := int64(n) * answers[0].Source.Size
	from, to := bytes.Repeat([]byte{1}, int(total)), make([]byte, total)
	b.SetBytes(total)
	var merging, copying []float64
	for b.Loop() {
		merging = append(merging, seconds(func() { merge(b, space, answers) }))
		b.StopTimer()
		copying = append(copying, seconds(func() { copy(to, from) }))
		b.StartTimer()
	}
	b.ReportMetric(float64(total)/median(copying)/1e6, "memcpy-MB/s")
	b.ReportMetric(median(copying)/median(merging), "of-memcpy")
}

// merge does what a job does with the answers of a round.
func merge(b *testing.B, space plane.Space, answers []tensor.Answer) {
	m, err := tensor.NewMerge(tensor.Plan{Functions: len(answers), Answers: answers})
	require.NoError(b, err)
	draft, err := space.Create("merged", m.Size())
	require.NoError(b, err)
	require.NoError(b, m.Write(draft, nil))
	_, err = draft.Seal()
	require.NoError(b, err)
	require.NoError(b, space.Remove("merged"))
}

func store(b *testing.B, space plane.Space, key string, dict tensor.StateDict) plane.Ref {
	b.Helper()
	layout, err := dict.Layout()
	require.NoError(b, err)
	draft, err := space.Create(key, layout.Size())
	require.NoError(b, err)
	_, err = tensor.Write(draft, dict)
	require.NoError(b, err)
	ref, err := draft.Seal()
	require.NoError(b, err)
	return ref
}

func noise(n int) []float32 {
	random := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(random.NormFloat64())
	}
	return values
}

func seconds(work func()) float64 {
	began := time.Now()
	work()
	return time.Since(began).Seconds()
}
