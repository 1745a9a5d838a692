package train

import (
	"slices"

	"github.com/troupe-ml/troupe/messages"
)

// ranges is a set of positions of an epoch's order: half-open, ascending,
// neither empty nor touching.
type ranges []span

// span is the positions [lo, hi).
type span struct{ lo, hi uint64 }

func (s span) len() uint64 { return s.hi - s.lo }

// all returns the positions [0, n).
func all(n uint64) ranges {
	if n == 0 {
		return nil
	}
	return ranges{{0, n}}
}

// total returns how many positions the set holds.
func (r ranges) total() uint64 {
	var n uint64
	for _, s := range r {
		n += s.len()
	}
	return n
}

// take splits off the first n positions; n is at most total.
func (r ranges) take(n uint64) (taken, rest ranges) {
	for i, s := range r {
		if n < s.len() {
			rest = append(ranges{{s.lo + n, s.hi}}, r[i+1:]...)
			if n > 0 {
				taken = append(taken, span{s.lo, s.lo + n})
			}
			return taken, rest
		}
		taken = append(taken, s)
		n -= s.len()
	}
	return taken, nil
}

// union returns both sets together. They have no position in common.
func (r ranges) union(other ranges) ranges {
	spans := slices.Concat(r, other)
	slices.SortFunc(spans, func(a, b span) int { return int(int64(a.lo) - int64(b.lo)) })
	var joined ranges
	for _, s := range spans {
		if last := len(joined) - 1; last >= 0 && joined[last].hi == s.lo {
			joined[last].hi = s.hi
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// sound reports whether the set keeps its promise: ascending, neither empty
// nor overlapping.
func (r ranges) sound() bool {
	var end uint64
	for _, s := range r {
		if s.lo < end || s.hi <= s.lo {
			return false
		}
		end = s.hi
	}
	return true
}

func (r ranges) message() []*messages.Range {
	out := make([]*messages.Range, len(r))
	for i, s := range r {
		out[i] = &messages.Range{Lo: s.lo, Hi: s.hi}
	}
	return out
}

// rangesOf is the set that a message says.
func rangesOf(said []*messages.Range) ranges {
	var r ranges
	for _, s := range said {
		r = append(r, span{s.GetLo(), s.GetHi()})
	}
	return r
}
