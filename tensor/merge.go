package tensor

import (
	"cmp"
	"io"
	"math"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
)

const mergeOp = "tensor.merge"

// Answer is what one function of a round gave back.
type Answer struct {
	Function int     // id in [0, n)
	Weight   float64 // samples it consumed, > 0; all 1 for an unweighted mean
	Source   Source
}

// Average writes the merge of a round's answers; see Merge.
func Average(w io.Writer, n int, answers []Answer) error {
	m, err := NewMerge(n, answers)
	if err != nil {
		return err
	}
	_, err = m.WriteTo(w)
	return err
}

// Merge is the merge of a round's answers, as a safetensors file: of each float
// the mean weighted by Weight, of each integer and bool the maximum; names,
// order, dtypes and shapes are those of the answers.
//
// The mean is computed in float64 along a fixed binary tree over the function
// ids [0, n) (see step), from which missing ids are simply absent, and rounded
// once: the result depends on the set of answers only, not on their order. Any
// number of copies of one answer gives its f16, bf16 and f32 values bit for
// bit, -0 and subnormals included, whatever the weights.
//
// Memory is a window of 128 KiB and its sums, O(log n), whatever the model,
// plus the header of one answer. Readers are read from the calling goroutine.
type Merge struct {
	answers []Answer // by function id
	starts  []int64  // DataStart of each answer
	weights []float64
	total   float64 // of the weights, added along the tree
	layout  *Layout // of the first answer
	result  *Layout
	steps   []step

	sums [][]float64 // of a window's floats
	raw  []byte      // a window of one answer
	out  []byte      // a window of the result
}

var _ io.WriterTo = (*Merge)(nil)

// NewMerge reads the headers of the answers, which have to be readable until
// the merge is written. Rejected, naming the function and tensor: no answers at
// all, a weight that is not positive and finite, answers that differ in their
// specs or break the format. Invalid: n < 1, an id outside [0, n) or given twice.
func NewMerge(n int, answers []Answer) (*Merge, error) {
	answers = slices.Clone(answers)
	slices.SortFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Function, b.Function) })
	if err := checkAnswers(n, answers); err != nil {
		return nil, err
	}
	m := &Merge{answers: answers, weights: scaledWeights(answers)}
	err := m.readLayouts()
	if err != nil {
		return nil, err
	}
	if m.result, err = NewLayout(m.layout.Specs()); err != nil {
		return nil, err
	}
	ids := make([]int, len(answers))
	for i, a := range answers {
		ids[i] = a.Function
	}
	var depth int
	m.steps, depth = plan(n, ids)
	m.total = m.addWeights(depth)
	size, floats := m.layout.extent()
	m.raw, m.out = make([]byte, size), make([]byte, size)
	all := make([]float64, depth*floats)
	m.sums = make([][]float64, depth)
	for i := range m.sums {
		m.sums[i] = all[i*floats : (i+1)*floats]
	}
	return m, nil
}

// Size returns how many bytes WriteTo writes.
func (m *Merge) Size() int64 { return m.result.Size() }

// WriteTo writes the file. Rejected, naming the function and tensor: a NaN or an
// infinity. On an error w may hold a part of the file.
func (m *Merge) WriteTo(w io.Writer) (int64, error) {
	if err := m.result.WriteHeader(w); err != nil {
		return 0, err
	}
	written := m.result.DataStart
	err := m.layout.windows(func(win window) error {
		if err := m.merge(win); err != nil {
			return err
		}
		if _, err := w.Write(m.out[:win.bytes]); err != nil {
			return writeFailed("the merge", err)
		}
		written += win.bytes
		return nil
	})
	return written, err
}

// checkAnswers looks at everything but the files; answers ascend by id.
func checkAnswers(n int, answers []Answer) error {
	if n < 1 {
		return fault.New(mergeOp, fault.Invalid, "%d functions cannot be merged", n)
	}
	if len(answers) == 0 {
		return fault.New(mergeOp, fault.Rejected, "none of %d functions gave an answer", n)
	}
	for i, a := range answers {
		switch {
		case a.Function < 0 || a.Function >= n:
			return fault.New(mergeOp, fault.Invalid, "function %d not in [0, %d)", a.Function, n)
		case i > 0 && answers[i-1].Function == a.Function:
			return fault.New(mergeOp, fault.Invalid, "function %d answers twice", a.Function)
		case !(a.Weight > 0) || math.IsInf(a.Weight, 1):
			return fault.New(mergeOp, fault.Rejected, "function %d: weight %v is not a positive number of samples", a.Function, a.Weight)
		}
	}
	return nil
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

func (m *Merge) addWeights(depth int) float64 {
	sums := make([]float64, depth)
	for _, s := range m.steps {
		switch s.op {
		case stepSet:
			sums[s.sum] = m.weights[s.arg]
		case stepAdd:
			sums[s.sum] += m.weights[s.arg]
		case stepFold:
			sums[s.sum] += sums[s.sum+1]
		}
	}
	return sums[0]
}

// readLayouts reads the header of the first answer and compares those of the
// others with it: byte by byte, and only where that differs by meaning.
func (m *Merge) readLayouts() error {
	m.starts = make([]int64, len(m.answers))
	var header []byte
	for i, a := range m.answers {
		if i > 0 {
			same, err := m.layout.heads(a.Source, header)
			if err != nil {
				return m.rejected(i, err)
			}
			if same {
				m.starts[i] = m.layout.DataStart
				continue
			}
		}
		l, err := ReadLayout(a.Source.R, a.Source.Size)
		if err != nil {
			return m.rejected(i, err)
		}
		if i == 0 {
			m.layout, header = l, make([]byte, len(l.header))
		}
		if reason := difference(m.layout, l); reason != "" {
			return fault.New(mergeOp, fault.Rejected, "function %d: %s", a.Function, reason)
		}
		m.starts[i] = l.DataStart
	}
	return nil
}

// rejected wraps an error of the file of answer i: a broken file is a rejected
// answer, a failing reader is not.
func (m *Merge) rejected(i int, err error) error {
	return fault.New(mergeOp, rejectedKind(err), "function %d: %w", m.answers[i].Function, err)
}

// merge leaves one window of the result in m.out.
func (m *Merge) merge(win window) error {
	for i, s := range m.steps {
		if s.op == stepFold {
			m.fold(win, s.sum)
			continue
		}
		raw, err := win.read(m.raw, m.answers[s.arg].Source.R, m.starts[s.arg])
		if err != nil {
			return m.rejected(s.arg, err)
		}
		m.add(win, s, raw, i == 0)
	}
	for _, seg := range win.segments {
		if !seg.dtype.IsFloat() {
			continue
		}
		mean := m.sums[0][seg.at : seg.at+seg.n]
		if bad := divide(mean, m.total, seg.dtype); bad >= 0 {
			return m.blame(win, seg, bad)
		}
		encode(m.out[seg.lo:seg.hi], mean, seg.dtype)
	}
	return nil
}

// add brings one answer's window into the sums, and into the maxima in m.out.
func (m *Merge) add(win window, s step, raw []byte, first bool) {
	sum, weight := m.sums[s.sum], m.weights[s.arg]
	for _, seg := range win.segments {
		src := raw[seg.lo:seg.hi]
		switch {
		case !seg.dtype.IsFloat() && first:
			copy(m.out[seg.lo:seg.hi], src)
		case !seg.dtype.IsFloat():
			maxInto(m.out[seg.lo:seg.hi], src, seg.dtype)
		case s.op == stepSet:
			setScaled(sum[seg.at:seg.at+seg.n], src, seg.dtype, weight)
		default:
			addScaled(sum[seg.at:seg.at+seg.n], src, seg.dtype, weight)
		}
	}
}

func (m *Merge) fold(win window, sum int) {
	floats := 0
	for _, seg := range win.segments {
		if seg.dtype.IsFloat() {
			floats = seg.at + seg.n
		}
	}
	addTo(m.sums[sum][:floats], m.sums[sum+1])
}

// blame finds the answer that made element i of a segment non-finite. Looking
// at results only is enough, and cheaper than looking at every answer: weights
// are positive, so what is not finite stays so.
func (m *Merge) blame(win window, seg segment, i int) error {
	e := m.layout.Entries[seg.entry]
	index := seg.start + int64(i)
	for k, a := range m.answers {
		raw, err := win.read(m.raw, a.Source.R, m.starts[k])
		if err != nil {
			return m.rejected(k, err)
		}
		var x [1]float64
		decode(x[:], raw[seg.lo+i*int(seg.dtype.Size()):], seg.dtype)
		if math.IsNaN(x[0]) || math.IsInf(x[0], 0) {
			return fault.New(mergeOp, fault.Rejected, "function %d: tensor %q: %v at index %d", a.Function, e.Name, x[0], index)
		}
	}
	return fault.New(mergeOp, fault.Rejected, "tensor %q: the mean at index %d does not fit %s", e.Name, index, e.DType)
}
