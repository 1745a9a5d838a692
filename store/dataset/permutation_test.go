package dataset_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/store/dataset"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// describe writes short permutations in full and long ones as a digest of
// their little-endian uint64s.
func describe(p []int) string {
	if len(p) <= 20 {
		return strings.Trim(fmt.Sprint(p), "[]")
	}
	h := sha256.New()
	for _, v := range p {
		_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	return fmt.Sprintf("%d %d %d ... sha256 %s", p[0], p[1], p[2], hex.EncodeToString(h.Sum(nil)))
}

func TestPermutationNeverChanges(t *testing.T) {
	var b strings.Builder
	for _, seed := range []uint64{0, 1, 2, 1 << 63, 1<<64 - 1} {
		for _, n := range []int{1, 2, 3, 10, 20, 1797, 100_000} {
			fmt.Fprintf(&b, "seed %d n %d: %s\n", seed, n, describe(dataset.Permutation(seed, n)))
		}
	}
	const golden = "testdata/permutation.txt"
	if *rewrite {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func TestPermutationHasEachPositionOnce(t *testing.T) {
	for n := -1; n < 200; n++ {
		p := dataset.Permutation(uint64(n), n)
		require.Len(t, p, max(n, 0))
		slices.Sort(p)
		for i, v := range p {
			require.Equal(t, i, v)
		}
	}
}

// Over 24,000 seeds the 24 orders of four are equally frequent: chi-squared
// with 23 degrees of freedom exceeds 49.7 once in a thousand; the seeds are
// fixed, so the test cannot flake.
func TestPermutationIsFair(t *testing.T) {
	const seeds = 24_000
	count := map[string]float64{}
	for seed := range uint64(seeds) {
		count[fmt.Sprint(dataset.Permutation(seed, 4))]++
	}
	require.Len(t, count, 24)
	chi := 0.0
	for _, c := range count {
		chi += (c - seeds/24) * (c - seeds/24) / (seeds / 24)
	}
	require.Less(t, chi, 49.7)
}
