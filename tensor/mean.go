package tensor

import (
	"math"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
)

// mean is the mean weighted by Answer.Weight: the sum of w*x over the sum of w,
// along a fixed binary tree over the function ids [0, n) (see step), from which
// missing ids are simply absent. Memory is O(log n) sums of a window.
type mean struct {
	steps   []step
	weights []float64   // by summand: what is a sum already counts once
	total   float64     // of the answers' weights, added along the tree
	sums    [][]float64 // of a window's floats
}

// newMean returns the mean of answers, which ascend by id and of which each counts
// as much as weights say. Invalid: a summand is no node of the tree.
func newMean(n int, answers []Answer, weights []float64, summands []summand, floats int) (*mean, error) {
	ids := make([]int, len(answers))
	for i, a := range answers {
		ids[i] = a.Function
	}
	steps, depth, _ := plan(n, ids, nil)
	c := &mean{steps: steps, weights: weights, total: addWeights(steps, weights, depth)}
	if slices.ContainsFunc(summands, func(s summand) bool { return s.isSum }) {
		c.weights = make([]float64, len(summands))
		spans := make([]span, len(summands))
		for i, s := range summands {
			spans[i], c.weights[i] = s.span, weights[s.first]
			if s.isSum {
				c.weights[i] = 1
			}
		}
		var ok bool
		if c.steps, depth, ok = plan(n, ids, spans); !ok {
			return nil, fault.New(mergeOp, fault.Invalid, "a sum is of no node of the tree over %d functions", n)
		}
	}
	all := make([]float64, depth*floats)
	c.sums = make([][]float64, depth)
	for i := range c.sums {
		c.sums[i] = all[i*floats : (i+1)*floats]
	}
	return c, nil
}

// ScaledWeights returns the weights of a merge's answers times the power of two
// that brings their sum to at most 1/2: exact, it cancels in the mean, and no sum
// overflows. NewSum wants them so.
func ScaledWeights(weights []float64) []float64 {
	largest := 0.0
	for _, w := range weights {
		largest = max(largest, w)
	}
	_, exp := math.Frexp(largest) // every weight < 2^exp
	_, more := math.Frexp(float64(len(weights)))
	scaled := make([]float64, len(weights))
	for i, w := range weights {
		scaled[i] = math.Ldexp(w, -exp-more-1)
	}
	return scaled
}

func weightsOf(answers []Answer) []float64 {
	weights := make([]float64, len(answers))
	for i, a := range answers {
		weights[i] = a.Weight
	}
	return weights
}

func addWeights(steps []step, weights []float64, depth int) float64 {
	sums := make([]float64, depth)
	for _, s := range steps {
		switch s.op {
		case stepSet:
			sums[s.sum] = weights[s.arg]
		case stepAdd:
			sums[s.sum] += weights[s.arg]
		case stepFold:
			sums[s.sum] += sums[s.sum+1]
		}
	}
	return sums[0]
}

// combine implements combiner. Weights are positive, so what is not finite
// stays so.
func (c *mean) combine(m *Merge, win window) ([]float64, error) {
	sum, err := c.add(m, win)
	if err != nil {
		return nil, err
	}
	for _, seg := range win.segments {
		if seg.dtype.IsFloat() {
			if bad := divide(sum[seg.at:seg.at+seg.n], c.total, seg.dtype); bad >= 0 {
				return nil, m.blame(win, seg, bad)
			}
		}
	}
	return sum, nil
}

// add returns the sums of w*x of a window, and leaves the maxima in m.out.
func (c *mean) add(m *Merge, win window) ([]float64, error) {
	for i, s := range c.steps {
		if s.op == stepFold {
			addTo(c.sums[s.sum][:win.floats()], c.sums[s.sum+1])
			continue
		}
		from, raw, err := m.read(win, int(s.arg))
		if err != nil {
			return nil, err
		}
		m.takeMaxima(win, from, raw, i == 0)
		c.addOne(from, s, raw)
	}
	return c.sums[0], nil
}

// addOne brings one summand's window into the sums.
func (c *mean) addOne(from window, s step, raw []byte) {
	sum, weight := c.sums[s.sum], c.weights[s.arg]
	for _, seg := range from.segments {
		switch src := raw[seg.lo:seg.hi]; {
		case !seg.dtype.IsFloat():
		case s.op == stepSet:
			setScaled(sum[seg.at:seg.at+seg.n], src, seg.dtype, weight)
		default:
			addScaled(sum[seg.at:seg.at+seg.n], src, seg.dtype, weight)
		}
	}
}
