package tensor

import "github.com/troupe-ml/troupe/internal/fault"

// reference is the model that a round's answers began from, read window by
// window.
type reference struct {
	source     Source
	layout     *Layout
	parameters []bool // by entry: training steps it
	raw        []byte
	values     []float64 // the window's floats, by segment.at
	at         int64     // offset of the window in values; -1: none
}

func newReference(s Source, l *Layout, parameters []bool, size, floats int) *reference {
	r := &reference{source: s, layout: l, parameters: parameters, at: -1}
	if s.R != nil {
		r.raw, r.values = make([]byte, size), make([]float64, floats)
	}
	return r
}

// window returns the floats of a window, read once for calls in a row.
func (r *reference) window(win window) ([]float64, error) {
	floats := win.floats()
	if r.at == win.offset || floats == 0 {
		return r.values[:floats], nil
	}
	raw, err := win.read(r.raw, r.source.R, r.layout.DataStart)
	if err != nil {
		return nil, fault.New(mergeOp, fault.KindOf(err), "reference model: %w", err)
	}
	for _, seg := range win.segments {
		if seg.dtype.IsFloat() {
			decode(r.values[seg.at:seg.at+seg.n], raw[seg.lo:seg.hi], seg.dtype)
		}
	}
	r.at = win.offset
	return r.values[:floats], nil
}

// steps calls visit for each segment of parameters.
func (r *reference) steps(win window, visit func(seg segment)) {
	for _, seg := range win.segments {
		if r.parameters[seg.entry] {
			visit(seg)
		}
	}
}
