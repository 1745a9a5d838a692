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
	arg int32 // set, add: index of the summand
	sum int32 // index of the sum that changes
	op  stepOp
}

type stepOp uint8

const (
	stepSet  stepOp = iota // sums[sum] = summand
	stepAdd                // sums[sum] += summand
	stepFold               // sums[sum] += sums[sum+1]
)

// plan compiles the tree over function ids [0, n) in which only ids, which
// ascend, have answers. Spans are the summands that cover them: each is one
// answer, or all that a node of the tree has, which ok reports; nil: each answer
// is one. Sums is how many sums it needs: at most log2(n) rounded up, and 1.
func plan(n int, ids []int, spans []span) (steps []step, sums int, ok bool) {
	p := planner{ids: ids, spans: spans, steps: make([]step, 0, 2*len(ids))}
	p.node(0, len(ids), 0, 1<<bits.Len(uint(n-1)), 0)
	return p.steps, int(p.sums), !p.torn
}

// Subtrees returns nodes of the tree over function ids [0, n) in which only ids,
// which ascend, have answers: those that take wants, of which a node is not asked
// for if one above it is taken. Each is a range [first, end) of ids, of two or more;
// they ascend and do not overlap.
func Subtrees(n int, ids []int, take func(first, end int) bool) [][2]int {
	var taken [][2]int
	var visit func(a, b, lo, width int)
	visit = func(a, b, lo, width int) {
		switch {
		case b-a < 2:
		case take(a, b):
			taken = append(taken, [2]int{a, b})
		default:
			width /= 2
			split := a + sort.SearchInts(ids[a:b], lo+width)
			visit(a, split, lo, width)
			visit(split, b, lo+width, width)
		}
	}
	visit(0, len(ids), 0, 1<<bits.Len(uint(n-1)))
	return taken
}

// span is the answers [first, end) as one summand.
type span struct{ first, end int32 }

type planner struct {
	ids   []int
	spans []span
	next  int32 // of the summands, the one that is added next: they come in order
	steps []step
	sums  int32
	torn  bool // a span is no node of the tree
}

// node adds the answers [a, b), whose ids lie in [lo, lo+width), into a sum.
func (p *planner) node(a, b, lo, width int, sum int32) {
	p.sums = max(p.sums, sum+1)
	if p.leaf(a, b, stepSet, sum) {
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
		if p.leaf(split, b, stepAdd, sum) {
			return
		}
		p.node(split, b, middle, width, sum+1)
		p.steps = append(p.steps, step{op: stepFold, sum: sum})
	}
}

// leaf adds the answers [a, b) if they are the next summand.
func (p *planner) leaf(a, b int, op stepOp, sum int32) bool {
	whole := b-a == 1
	if p.spans != nil {
		whole = int(p.next) < len(p.spans) && p.spans[p.next] == span{int32(a), int32(b)}
		p.torn = p.torn || !whole && b-a == 1
	}
	if !whole && b-a > 1 {
		return false
	}
	p.steps = append(p.steps, step{op: op, arg: p.next, sum: sum})
	p.next++
	return true
}
