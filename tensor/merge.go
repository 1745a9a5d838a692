package tensor

import (
	"io"
	"math"

	"github.com/troupe-ml/troupe/internal/fault"
)

const mergeOp = "tensor.merge"

// Answer is what one function of a round gave back.
type Answer struct {
	Function int     // id in [0, n)
	Weight   float64 // samples it consumed, > 0
	Source   Source
}

// Plan says how the answers of a round become one model. Readers have to be
// readable until the merge is written.
type Plan struct {
	Functions int // N; ids are in [0, N)
	Answers   []Answer
	Sums      []Sum // answers that are added up already; only for a mean
	Strategy  Strategy
	// Clip is the most that the L2 norm of an answer's change may be, over its
	// parameters; what has changed more is scaled down. 0: no limit.
	Clip float64
	// Reference is the model that the answers began from, whose metadata the merge
	// keeps, and with them the names of its buffers. Without a reader the merge has
	// no metadata, and neither Clip nor Nesterov nor an Encoding is possible.
	Reference Source
	// Encoding is how the answers lie in their files; see Codec. They are merged as
	// what they decode to.
	Encoding Encoding
	// Momentum is what Nesterov wrote beside the reference; no reader: none yet.
	Momentum Source
}

// Average writes the mean of a round's answers, weighted by their Weight.
func Average(w io.Writer, n int, answers []Answer) error {
	m, err := NewMerge(Plan{Functions: n, Answers: answers})
	if err != nil {
		return err
	}
	return m.Write(w, nil)
}

// Merge is the merge of a round's answers, as a safetensors file: of each float
// what the strategy makes of them, of each integer and bool the maximum; names,
// order, dtypes and shapes are those of the answers.
//
//   - Mean: along a fixed tree, see mean.
//   - Nesterov: that mean, and for parameters a step on from it, see nesterov.
//   - TrimmedMean, Median: each element by itself, unweighted, see ordered.
//
// All computing is in float64 and rounded once: the result depends on the set
// of answers only, not on their order. Any number of copies of one answer gives
// its f16, bf16 and f32 values bit for bit (where nothing steps on from the
// mean), subnormals included.
//
// With Clip each answer is first made shorter by itself and rounded to its
// types, as if the function had answered that; see clipper.
//
// Memory is a few windows of 128 KiB and the strategy's sums, whatever the
// model, plus the header of one answer. Readers are read from the calling
// goroutine.
type Merge struct {
	answers  []Answer  // by function id, those of sums too
	summands []summand // what is read, in that order
	layout   *Layout   // of an answer
	sums     *Layout   // of the sums; nil: there are none
	result   *Layout
	window   int64 // bytes that a window has at most
	combine  combiner
	clip     *clipper  // nil: none
	outer    *nesterov // nil: none

	raw  []byte // a window of one answer
	wide []byte // a window of a sum
	over window // of a sum, over a window of an answer
	out  []byte // a window of the result
}

// summand is an answer, or a sum of several.
type summand struct {
	Source
	span        // of the answers
	start int64 // DataStart
	isSum bool
}

// combiner is what strategies differ in.
type combiner interface {
	// combine returns one window's floats, by segment.at, before rounding, all of
	// them finite; the maxima of integers and bools it leaves in m.out. A float
	// that is not finite, in whichever answer, is Rejected (see Merge.blame).
	combine(m *Merge, win window) ([]float64, error)
}

// openPlan reads the headers of a plan's answers and of its reference.
func openPlan(p Plan) (*Merge, *Layout, error) {
	m := &Merge{window: windowBytes}
	if err := m.arrange(p); err != nil {
		return nil, nil, err
	}
	reference, err := m.readReference(p)
	return m, reference, err
}

// NewMerge reads the headers of the answers. Rejected, naming the function and
// tensor: no answers at all, a weight that is not positive and finite, answers
// that differ in their specs or break the format. Invalid: N < 1, an id outside
// [0, N) or given twice, a reference that is missing or that the answers differ
// from, or a momentum that is not of this model. Corrupt: metadata that name no buffers.
func NewMerge(p Plan) (*Merge, error) {
	if p.Strategy.Unweighted {
		p = p.unweighted()
	}
	m, reference, err := openPlan(p)
	if err != nil {
		return nil, err
	}
	if m.result, err = reference.Rewritten(); err != nil {
		return nil, err
	}
	inOrder := p.Strategy.Kind == TrimmedMean || p.Strategy.Kind == Median
	if inOrder {
		m.window = orderedWindow(len(m.answers))
	}
	floats := m.makeRoom()
	switch {
	case inOrder && len(p.Sums) > 0:
		return nil, fault.New(mergeOp, fault.Invalid, "a merge that orders values takes no sums")
	case inOrder:
		m.combine = newOrdered(p.Strategy, len(m.answers), floats)
	default:
		if m.combine, err = newMean(p.Functions, m.answers, ScaledWeights(weightsOf(m.answers)), m.summands, floats); err != nil {
			return nil, err
		}
	}
	return m, m.useReference(p, reference, floats)
}

// makeRoom makes the windows, and returns the most floats that one holds.
func (m *Merge) makeRoom() int {
	size, floats := m.layout.extent(m.window)
	m.raw, m.out = make([]byte, size), make([]byte, size)
	if m.sums != nil {
		m.wide = make([]byte, size+8*floats)
	}
	return floats
}

// readReference returns the layout whose metadata count.
func (m *Merge) readReference(p Plan) (*Layout, error) {
	if p.Reference.R == nil {
		if p.Clip > 0 || p.Strategy.Kind == Nesterov {
			return nil, fault.New(mergeOp, fault.Invalid, "a merge that clips or steps on needs the model that the answers began from")
		}
		return NewLayout(m.layout.Specs())
	}
	reference, err := m.layout.like(p.Reference)
	if err != nil {
		return nil, fault.New(mergeOp, fault.KindOf(err), "reference model: %w", err)
	}
	if reason := difference(reference, m.layout); reason != "" {
		return nil, fault.New(mergeOp, fault.Invalid, "the answers are not of the reference model: %s", reason)
	}
	return reference, nil
}

// useReference makes what works with the reference model.
func (m *Merge) useReference(p Plan, layout *Layout, floats int) error {
	parameters, err := layout.parameters()
	if err != nil {
		return fault.New(mergeOp, fault.KindOf(err), "reference model: %w", err)
	}
	ref := newReference(p.Reference, layout, parameters, len(m.raw), floats)
	if p.Clip > 0 {
		m.clip = newClipper(ref, p.Clip, len(m.summands))
	}
	if p.Strategy.Kind == Nesterov {
		m.outer, err = newNesterov(ref, p.Strategy, p.Momentum)
	}
	return err
}

// Size returns the bytes of the merged model.
func (m *Merge) Size() int64 { return m.result.Size() }

// MomentumSize returns the bytes of the new momentum, 0 where the strategy has
// none.
func (m *Merge) MomentumSize() int64 {
	if m.outer == nil {
		return 0
	}
	return m.outer.layout.Size()
}

// Write writes the merged model and, for strategies that have one, the new
// momentum, which else is not touched. Rejected, naming the function and
// tensor: a NaN or an infinity. On an error both may hold a part of their file.
func (m *Merge) Write(model, momentum io.Writer) error {
	if m.clip != nil {
		if err := m.clip.measure(m); err != nil {
			return err
		}
	}
	if err := m.result.WriteHeader(model); err != nil {
		return err
	}
	if m.outer != nil {
		if err := m.outer.begin(momentum); err != nil {
			return err
		}
	}
	return m.layout.windowsOf(m.window, func(win window) error {
		if err := m.merge(win); err != nil {
			return err
		}
		if _, err := model.Write(m.out[:win.bytes]); err != nil {
			return writeFailed("the merge", err)
		}
		return nil
	})
}

// merge leaves one window of the result in m.out.
func (m *Merge) merge(win window) error {
	values, err := m.combine.combine(m, win)
	if err != nil {
		return err
	}
	if m.outer != nil {
		if err := m.outer.step(win, values); err != nil {
			return err
		}
	}
	for _, seg := range win.segments {
		if seg.dtype.IsFloat() {
			encode(m.out[seg.lo:seg.hi], values[seg.at:seg.at+seg.n], seg.dtype)
		}
	}
	return nil
}

// read returns a window of summand i as the merge takes it, and where in it the
// segments are. Both are valid until the next call.
func (m *Merge) read(win window, i int) (window, []byte, error) {
	if s := m.summands[i]; s.isSum {
		m.over = m.sums.over(win, m.over.segments)
		raw, err := m.over.read(m.wide, s.R, s.start)
		if err != nil {
			return window{}, nil, m.rejected(i, err)
		}
		return m.over, raw, nil
	}
	raw, err := m.readAsGiven(win, i)
	if err == nil && m.clip != nil {
		err = m.clip.apply(win, raw, i)
	}
	return win, raw, err
}

// readAsGiven returns a window of an answer.
func (m *Merge) readAsGiven(win window, i int) ([]byte, error) {
	raw, err := win.read(m.raw, m.summands[i].R, m.summands[i].start)
	if err != nil {
		return nil, m.rejected(i, err)
	}
	return raw, nil
}

// takeMaxima brings one summand's integers and bools, which lie in raw as from
// says, into m.out.
func (m *Merge) takeMaxima(win, from window, raw []byte, first bool) {
	for i, seg := range win.segments {
		if seg.dtype.IsFloat() {
			continue
		}
		src := raw[from.segments[i].lo:from.segments[i].hi]
		if first {
			copy(m.out[seg.lo:seg.hi], src)
		} else {
			maxInto(m.out[seg.lo:seg.hi], src, seg.dtype)
		}
	}
}

// blame finds the answer that made element i of a segment non-finite. Looking
// at results only is enough, and cheaper than looking at every answer.
func (m *Merge) blame(win window, seg segment, i int) error {
	e := m.layout.Entries[seg.entry]
	index := seg.start + int64(i)
	for k, s := range m.summands {
		if s.isSum {
			continue // whoever made it has looked
		}
		raw, err := m.readAsGiven(win, k)
		if err != nil {
			return err
		}
		var x [1]float64
		decode(x[:], raw[seg.lo+i*int(seg.dtype.Size()):], seg.dtype)
		if math.IsNaN(x[0]) || math.IsInf(x[0], 0) {
			return fault.New(mergeOp, fault.Rejected, "%s: tensor %q: %v at index %d", m.nameOf(k), e.Name, x[0], index)
		}
	}
	return fault.New(mergeOp, fault.Rejected, "tensor %q: the merge at index %d does not fit %s", e.Name, index, e.DType)
}
