package train_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/train"
)

type span = [2]uint64

func TestCut(t *testing.T) {
	for name, c := range map[string]struct {
		todo        []span
		n, k, batch uint64
		whole       bool
		want        [][]span
		rest        []span
	}{
		"a full round takes n*k*batch":               {[]span{{0, 1000}}, 2, 4, 16, false, [][]span{{{0, 64}}, {{64, 128}}}, []span{{128, 1000}}},
		"sizes differ by at most one":                {[]span{{0, 10}}, 4, 1, 16, false, [][]span{{{0, 3}}, {{3, 6}}, {{6, 8}}, {{8, 10}}}, nil},
		"functions that would get none do not run":   {[]span{{0, 2}}, 4, 1, 16, false, [][]span{{{0, 1}}, {{1, 2}}}, nil},
		"what would remain under n*batch is taken":   {[]span{{0, 159}}, 2, 4, 16, false, [][]span{{{0, 80}}, {{80, 159}}}, nil},
		"n*batch left over is another round":         {[]span{{0, 160}}, 2, 4, 16, false, [][]span{{{0, 64}}, {{64, 128}}}, []span{{128, 160}}},
		"whole takes everything":                     {[]span{{0, 1000}}, 2, 0, 16, true, [][]span{{{0, 500}}, {{500, 1000}}}, nil},
		"an assignment may be made of pieces":        {[]span{{0, 3}, {10, 14}, {20, 21}}, 2, 9, 16, false, [][]span{{{0, 3}, {10, 11}}, {{11, 14}, {20, 21}}}, nil},
		"one sample, eight functions":                {[]span{{7, 8}}, 8, 1, 1, false, [][]span{{{7, 8}}}, nil},
		"nothing to do is no assignment":             {nil, 3, 1, 1, false, nil, nil},
		"a cut on the edge of a piece leaves a rest": {[]span{{0, 4}, {8, 12}}, 1, 4, 1, false, [][]span{{{0, 4}}}, []span{{8, 12}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, rest := train.Cut(c.todo, c.n, c.k, c.batch, c.whole)
			require.Equal(t, c.want, got)
			require.Equal(t, c.rest, rest)
		})
	}
}

// Whatever is lost and however N changes, an epoch cut to its end has every
// position exactly once.
func TestCutCoversTheEpochExactlyOnce(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		total := r.Uint64N(400)
		todo := []span{{0, total}}
		if total == 0 {
			todo = nil
		}
		seen := map[uint64]int{}
		for rounds := 0; len(todo) > 0; rounds++ {
			require.Less(t, rounds, 100_000, "seed %d", seed)
			n, k, batch := 1+r.Uint64N(9), 1+r.Uint64N(4), 1+r.Uint64N(20)
			parts, rest := train.Cut(todo, n, k, batch, r.IntN(10) == 0)
			var smallest, largest uint64 = 1 << 60, 0
			for _, p := range parts {
				var size uint64
				for _, s := range p {
					size += s[1] - s[0]
				}
				smallest, largest = min(smallest, size), max(largest, size)
				if r.IntN(3) == 0 {
					rest = train.Union(rest, p) // given up
					continue
				}
				for _, s := range p {
					for i := s[0]; i < s[1]; i++ {
						seen[i]++
					}
				}
			}
			require.LessOrEqual(t, largest-smallest, uint64(1))
			todo = rest
		}
		require.Len(t, seen, int(total), "seed %d", seed)
		for i, times := range seen {
			require.Equal(t, 1, times, "seed %d: position %d", seed, i)
		}
	}
}

func TestBlocksDependOnTheDataAlone(t *testing.T) {
	for _, c := range []struct {
		n, batch uint64
		want     []span
	}{
		{0, 64, nil},
		{1, 64, []span{{0, 1}}},
		{360, 64, []span{{0, 360}}},
		{1100, 64, []span{{0, 512}, {512, 1024}, {1024, 1100}}},
		{1100, 100, []span{{0, 600}, {600, 1100}}},
		{1100, 4096, []span{{0, 1100}}},
	} {
		t.Run(fmt.Sprintf("%d at %d", c.n, c.batch), func(t *testing.T) {
			require.Equal(t, c.want, train.Blocks(c.n, c.batch))
		})
	}
}

// The seeds of a job must never change: replays of old jobs depend on them.
func TestSeedsAreGolden(t *testing.T) {
	require.Equal(t, uint64(0xf983ea24d113c928), train.Derive(0, "order", 1, 0, 0))
	require.Equal(t, uint64(0x262d83912cd0a32b), train.Derive(7, "function", 3, 2, 1))
	seen := map[uint64]bool{}
	for epoch := range uint32(10) {
		for function := range uint32(10) {
			for _, p := range []string{"order", "function"} {
				seen[train.Derive(1, p, epoch, 1, function)] = true
			}
		}
	}
	require.Len(t, seen, 200)
}
