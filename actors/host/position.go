package host

import (
	"slices"
	"sync"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/dataset"
)

// permutationsKept is how many orders are kept: one for each of a few jobs that
// run side by side. The functions of an epoch share one.
const permutationsKept = 4

// positions returns the rows that an assignment names, in training order.
// Invalid: none, ranges that are no ranges, or another data set's.
func (e *Executor) positions(inv *messages.Invoke, samples int64) ([]int64, error) {
	const op = "host.execute"
	plan := inv.GetPlan()
	if plan.GetOrderSize() != uint64(samples) {
		return nil, fault.New(op, fault.Invalid, "the plan is for %d samples, data set %q has %d", plan.GetOrderSize(), plan.GetDataset(), samples)
	}
	var total uint64
	for _, r := range inv.GetRanges() {
		if r.GetLo() >= r.GetHi() || r.GetHi() > uint64(samples) {
			return nil, fault.New(op, fault.Invalid, "range [%d, %d) is empty or not within %d samples", r.GetLo(), r.GetHi(), samples)
		}
		total += r.GetHi() - r.GetLo()
		if total > uint64(samples) {
			return nil, fault.New(op, fault.Invalid, "the ranges name more than the %d samples there are", samples)
		}
	}
	if total == 0 {
		return nil, fault.New(op, fault.Invalid, "the assignment is empty")
	}
	at := func(i uint64) int64 { return int64(i) }
	if plan.GetShuffle() {
		order := e.permutations.get(plan.GetOrderSeed(), int(samples))
		at = func(i uint64) int64 { return int64(order[i]) }
	}
	positions := make([]int64, 0, total)
	for _, r := range inv.GetRanges() {
		for i := r.GetLo(); i < r.GetHi(); i++ {
			positions = append(positions, at(i))
		}
	}
	return positions, nil
}

// permutations remembers the orders used last. Whoever needs the same one at
// the same time waits for it. The zero value is ready.
type permutations struct {
	mu     sync.Mutex     // guards recent
	recent []*permutation // the one used last comes first
}

type permutation struct {
	seed  uint64
	size  int
	order func() []int // computed once; read-only
}

func (p *permutations) get(seed uint64, size int) []int {
	p.mu.Lock()
	i := slices.IndexFunc(p.recent, func(k *permutation) bool { return k.seed == seed && k.size == size })
	var found *permutation
	if i >= 0 {
		found = p.recent[i]
		p.recent = slices.Delete(p.recent, i, i+1)
	} else {
		found = &permutation{seed: seed, size: size}
		found.order = sync.OnceValue(func() []int { return dataset.Permutation(seed, size) })
	}
	p.recent = slices.Insert(p.recent, 0, found)
	if len(p.recent) > permutationsKept {
		p.recent = slices.Delete(p.recent, permutationsKept, len(p.recent))
	}
	p.mu.Unlock()
	return found.order()
}
