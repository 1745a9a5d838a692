package tensor

import "math"

// orderedFloats is how many values trimmed-mean and median hold at once, 8 MiB
// of them: so their windows become smaller as answers become more.
const orderedFloats = 1 << 20

// orderedWindow returns the bytes of a window of which n answers fit: a
// multiple of every element's size. (A float takes 2 bytes at least.)
func orderedWindow(n int) int64 {
	return max(8, min(windowBytes, int64(2*orderedFloats/n))&^7)
}

// ordered reduces each float element by itself to something between its values
// in all answers, once these are in order; see Strategy.middle. So a few
// answers, however far off, cannot pull the model away.
type ordered struct {
	strategy Strategy
	columns  []float64 // of each element of a window its values in all answers
	one      []float64 // a window's floats: of one answer, then of the result
	n        int       // answers
}

func newOrdered(s Strategy, n, floats int) *ordered {
	return &ordered{strategy: s, n: n, columns: make([]float64, n*floats), one: make([]float64, floats)}
}

// combine implements combiner.
func (c *ordered) combine(m *Merge, win window) ([]float64, error) {
	floats := win.floats()
	for k := range c.n {
		_, raw, err := m.read(win, k)
		if err != nil {
			return nil, err
		}
		m.takeMaxima(win, win, raw, k == 0)
		for _, seg := range win.segments {
			if seg.dtype.IsFloat() {
				decode(c.one[seg.at:seg.at+seg.n], raw[seg.lo:seg.hi], seg.dtype)
			}
		}
		for i, x := range c.one[:floats] {
			c.columns[i*c.n+k] = x
		}
	}
	for i := range c.one[:floats] {
		column := c.columns[i*c.n : (i+1)*c.n]
		x := c.strategy.middle(column)
		if low, high := column[0], column[c.n-1]; math.IsNaN(low) || math.IsInf(low, 0) || math.IsInf(high, 0) {
			x = math.NaN() // an answer that must not be in a merge: its being cut off is no excuse
		}
		c.one[i] = x
	}
	for _, seg := range win.segments {
		if seg.dtype.IsFloat() {
			if bad := unfit(c.one[seg.at:seg.at+seg.n], seg.dtype); bad >= 0 {
				return nil, m.blame(win, seg, bad)
			}
		}
	}
	return c.one, nil
}
