package tensor

import (
	"math/bits"
	"sort"
)

// A merge adds answers along a binary tree whose leaves are the function ids:
// the node at level j and index k covers the ids [k<<j, (k+1)<<j) and is the
// sum of its two halves, or the one of them that has answers at all. So the
// order of additions depends on nothing but which ids answered, and whoever
// holds all answers of a node can add them apart from the rest.
//
// step is one addition of the tree, compiled for a machine with a stack of
// sums: a node at depth d of right turns leaves its sum in sums[d].
type step struct {
	op  stepOp
	arg int // set, add: index of the answer
	sum int // index of the sum that changes
}

type stepOp uint8

const (
	stepSet  stepOp = iota // sums[sum] = answer
	stepAdd                // sums[sum] += answer
	stepFold               // sums[sum] += sums[sum+1]
)

// plan compiles the tree over function ids [0, n) in which only ids, which
// ascend, have answers. Sums is how many sums it needs: at most
// log2(n) rounded up, and 1.
func plan(n int, ids []int) (steps []step, sums int) {
	p := planner{ids: ids, steps: make([]step, 0, 2*len(ids))}
	p.node(0, len(ids), 0, 1<<bits.Len(uint(n-1)), 0)
	return p.steps, p.sums
}

type planner struct {
	ids   []int
	steps []step
	sums  int
}

// node adds the answers [a, b), whose ids lie in [lo, lo+width), into a sum.
func (p *planner) node(a, b, lo, width, sum int) {
	p.sums = max(p.sums, sum+1)
	if b-a == 1 {
		p.steps = append(p.steps, step{stepSet, a, sum})
		return
	}
	width /= 2
	middle := lo + width
	split := a + sort.SearchInts(p.ids[a:b], middle)
	switch {
	case split == a:
		p.node(a, b, middle, width, sum)
	case split == b:
		p.node(a, b, lo, width, sum)
	default:
		p.node(a, split, lo, width, sum)
		if b-split == 1 {
			p.steps = append(p.steps, step{stepAdd, split, sum})
			return
		}
		p.node(split, b, middle, width, sum+1)
		p.steps = append(p.steps, step{op: stepFold, sum: sum})
	}
}
