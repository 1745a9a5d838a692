package tensor

import "math"

// mean is the mean weighted by Answer.Weight: the sum of w*x over the sum of w,
// along a fixed binary tree over the function ids [0, n) (see step), from which
// missing ids are simply absent. Memory is O(log n) sums of a window.
type mean struct {
	steps   []step
	weights []float64
	total   float64     // of the weights, added along the tree
	sums    [][]float64 // of a window's floats
}

func newMean(n int, answers []Answer, floats int) *mean {
	ids := make([]int, len(answers))
	for i, a := range answers {
		ids[i] = a.Function
	}
	c := &mean{weights: scaledWeights(answers)}
	var depth int
	c.steps, depth = plan(n, ids)
	c.total = c.addWeights(depth)
	all := make([]float64, depth*floats)
	c.sums = make([][]float64, depth)
	for i := range c.sums {
		c.sums[i] = all[i*floats : (i+1)*floats]
	}
	return c
}

// scaledWeights returns the weights times the power of two that brings their
// sum to at most 1/2: exact, it cancels in the mean, and no sum overflows.
func scaledWeights(answers []Answer) []float64 {
	largest := 0.0
	for _, a := range answers {
		largest = max(largest, a.Weight)
	}
	_, exp := math.Frexp(largest) // every weight < 2^exp
	_, more := math.Frexp(float64(len(answers)))
	weights := make([]float64, len(answers))
	for i, a := range answers {
		weights[i] = math.Ldexp(a.Weight, -exp-more-1)
	}
	return weights
}

func (c *mean) addWeights(depth int) float64 {
	sums := make([]float64, depth)
	for _, s := range c.steps {
		switch s.op {
		case stepSet:
			sums[s.sum] = c.weights[s.arg]
		case stepAdd:
			sums[s.sum] += c.weights[s.arg]
		case stepFold:
			sums[s.sum] += sums[s.sum+1]
		}
	}
	return sums[0]
}

// combine implements combiner. Weights are positive, so what is not finite
// stays so.
func (c *mean) combine(m *Merge, win window) ([]float64, error) {
	floats := win.floats()
	for i, s := range c.steps {
		if s.op == stepFold {
			addTo(c.sums[s.sum][:floats], c.sums[s.sum+1])
			continue
		}
		raw, err := m.read(win, s.arg)
		if err != nil {
			return nil, err
		}
		m.takeMaxima(win, raw, i == 0)
		c.add(win, s, raw)
	}
	sum := c.sums[0]
	for _, seg := range win.segments {
		if seg.dtype.IsFloat() {
			if bad := divide(sum[seg.at:seg.at+seg.n], c.total, seg.dtype); bad >= 0 {
				return nil, m.blame(win, seg, bad)
			}
		}
	}
	return sum, nil
}

// add brings one answer's window into the sums.
func (c *mean) add(win window, s step, raw []byte) {
	sum, weight := c.sums[s.sum], c.weights[s.arg]
	for _, seg := range win.segments {
		switch src := raw[seg.lo:seg.hi]; {
		case !seg.dtype.IsFloat():
		case s.op == stepSet:
			setScaled(sum[seg.at:seg.at+seg.n], src, seg.dtype, weight)
		default:
			addScaled(sum[seg.at:seg.at+seg.n], src, seg.dtype, weight)
		}
	}
}
