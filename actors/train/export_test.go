package train

import (
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// Cut cuts one round out of an epoch's [lo, hi) positions.
func Cut(todo [][2]uint64, n, k, batch uint64, whole bool) (assignments [][][2]uint64, rest [][2]uint64) {
	var r ranges
	for _, s := range todo {
		r = append(r, span{s[0], s[1]})
	}
	parts, left := cut(r, n, k, batch, whole)
	for _, p := range parts {
		assignments = append(assignments, pairs(p))
	}
	return assignments, pairs(left)
}

// Union returns two sets of positions together.
func Union(a, b [][2]uint64) [][2]uint64 {
	var x, y ranges
	for _, s := range a {
		x = append(x, span{s[0], s[1]})
	}
	for _, s := range b {
		y = append(y, span{s[0], s[1]})
	}
	return pairs(x.union(y))
}

// Blocks returns the validation blocks of n samples.
func Blocks(n, batch uint64) (out [][2]uint64) {
	for _, b := range blocks(n, batch) {
		out = append(out, pairs(b)...)
	}
	return out
}

func pairs(r ranges) (out [][2]uint64) {
	for _, s := range r {
		out = append(out, [2]uint64{s.lo, s.hi})
	}
	return out
}

// Derive returns the seed of a draw.
func Derive(seed uint64, p string, epoch, round, function uint32) uint64 {
	return derive(seed, purpose(p), epoch, round, function)
}

// Judge says what becomes of the last of an assignment's failures.
func Judge(failures []*messages.Failure, retries uint32) (retry, lost, fatal bool, after time.Duration) {
	v := judge(failures, retries, 1)
	return !v.lost && v.fatal == nil, v.lost, v.fatal != nil, v.after
}

// Rate is the learning rate of a round.
var Rate = rate
