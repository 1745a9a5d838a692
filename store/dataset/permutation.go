package dataset

import (
	"math/bits"
	"math/rand/v2"
)

// permutationStream is the second half of the generator's seed: it keeps
// permutations apart from other draws with the same seed.
const permutationStream = 0x7065726d75746174 // "permutat"

// Permutation returns a permutation of 0..n-1 that depends on seed and n
// alone, for ever: on no version of Go, machine or library. n <= 0 gives none.
//
// The algorithm, for whoever wants the same numbers elsewhere:
//
//	g = PCG-DXSM with 128 bits of state, seeded (seed, 0x7065726d75746174)
//	p = [0, 1, ..., n-1]
//	for i = n-1 down to 1: swap p[i] and p[below(g, i+1)]
//
//	below(g, k): the high 64 bits of the 128-bit product of k and the next
//	output of g; while its low 64 bits are under 2^64 mod k, draw again
//	(Lemire, "Fast Random Integer Generation in an Interval", 2019: unbiased).
//
// PCG is math/rand/v2's, whose output is part of its specification; the
// shuffle and the bounded draw are ours, because the library's may change.
func Permutation(seed uint64, n int) []int {
	if n <= 0 {
		return nil
	}
	p := make([]int, n)
	for i := range p {
		p[i] = i
	}
	g := rand.NewPCG(seed, permutationStream)
	for i := n - 1; i > 0; i-- {
		j := below(g, uint64(i)+1)
		p[i], p[j] = p[j], p[i]
	}
	return p
}

// below draws uniformly from [0, k), k > 0.
func below(g *rand.PCG, k uint64) uint64 {
	hi, lo := bits.Mul64(g.Uint64(), k)
	if lo < k {
		for least := -k % k; lo < least; {
			hi, lo = bits.Mul64(g.Uint64(), k)
		}
	}
	return hi
}
