package functions_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
)

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name     string
		n, batch int
		want     []int
	}{
		{"one more than a batch is halved", 65, 64, []int{33, 32}},
		{"a full batch stays whole", 64, 64, []int{64}},
		{"fewer than a batch are one", 63, 64, []int{63}},
		{"one sample is one batch", 1, 64, []int{1}},
		{"the rest is spread", 10, 4, []int{4, 3, 3}},
		{"a batch of one", 3, 1, []int{1, 1, 1}},
		{"nothing", 0, 64, nil},
		{"no batch size", 5, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, functions.Batches(c.n, c.batch)) })
	}
}

func TestBatchesAreEvenForEverySize(t *testing.T) {
	for n := 1; n <= 300; n++ {
		for batch := 1; batch <= 70; batch++ {
			sizes := functions.Batches(n, batch)
			require.Len(t, sizes, (n+batch-1)/batch)
			sum := 0
			for i, size := range sizes {
				sum += size
				require.LessOrEqual(t, size, batch)
				require.True(t, size == sizes[0] || size == sizes[0]-1)
				if i > 0 {
					require.LessOrEqual(t, size, sizes[i-1])
				}
				require.False(t, size == 1 && n > 1 && batch > 2, "%d at %d", n, batch)
			}
			require.Equal(t, n, sum)
		}
	}
}

func TestSabotageStrikesBeforeABatch(t *testing.T) {
	require.Equal(t, -1, functions.Sabotage{NaN: true, At: 0.5}.Batch(4))
	require.Equal(t, 0, functions.Sabotage{Kill: true}.Batch(4))
	require.Equal(t, 2, functions.Sabotage{Hang: true, At: 0.5}.Batch(4))
	require.Equal(t, 3, functions.Sabotage{Slow: time.Second, At: 0.999}.Batch(4))
	require.Equal(t, 0, functions.Sabotage{Kill: true, At: 0.5}.Batch(0))
}
