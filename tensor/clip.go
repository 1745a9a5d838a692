package tensor

import "math"

// clipper limits how far an answer may be from the reference model: the change
// of its parameters, taken as one vector, keeps its direction and becomes at
// most limit long (L2), as updates are clipped in federated averaging (McMahan
// et al., "Learning Differentially Private Recurrent Language Models", 2018).
//
// Buffers, integers and bools are neither measured nor changed: a BatchNorm
// variance is a measurement, and its scale says nothing about a step's. An
// answer within the limit keeps its bits. What is changed is rounded to its
// type, which may leave the norm over the limit by such a rounding.
type clipper struct {
	ref     *reference
	limit   float64
	factors []float64 // by summand, in [0, 1]
	values  []float64 // a window's floats of one answer
}

func newClipper(ref *reference, limit float64, answers int) *clipper {
	return &clipper{ref: ref, limit: limit, factors: make([]float64, answers), values: make([]float64, len(ref.values))}
}

// measure finds the factors: it reads every answer once.
func (c *clipper) measure(m *Merge) error {
	squares := make([]float64, len(m.summands))
	err := m.layout.windowsOf(m.window, func(win window) error {
		ref, err := c.ref.window(win)
		if err != nil {
			return err
		}
		for k, s := range m.summands {
			if s.isSum {
				continue // of what was shortened already
			}
			raw, err := m.readAsGiven(win, k)
			if err != nil {
				return err
			}
			c.ref.steps(win, func(seg segment) {
				x := c.values[:seg.n]
				decode(x, raw[seg.lo:seg.hi], seg.dtype)
				squares[k] = addSquares(squares[k], x, ref[seg.at:seg.at+seg.n])
			})
		}
		return nil
	})
	for k, s := range squares {
		c.factors[k] = 1
		if norm := math.Sqrt(s); norm > c.limit { // a NaN is found by the merge
			c.factors[k] = c.limit / norm
		}
	}
	return err
}

// apply makes the window of answer k as long as it may be.
func (c *clipper) apply(win window, raw []byte, k int) error {
	factor := c.factors[k]
	if factor == 1 {
		return nil
	}
	ref, err := c.ref.window(win)
	if err != nil {
		return err
	}
	c.ref.steps(win, func(seg segment) {
		x, r := c.values[:seg.n], ref[seg.at:seg.at+seg.n]
		decode(x, raw[seg.lo:seg.hi], seg.dtype)
		for i := range x {
			x[i] = r[i] + float64(factor*(x[i]-r[i]))
		}
		encode(raw[seg.lo:seg.hi], x, seg.dtype)
	})
	return nil
}

// addSquares returns sum plus the squared differences of two vectors, added in
// their order.
func addSquares(sum float64, x, y []float64) float64 {
	y = y[:len(x)]
	for i := range x {
		d := x[i] - y[i]
		sum += float64(d * d)
	}
	return sum
}
