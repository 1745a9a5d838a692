package tensor

import (
	"io"
	"slices"
	"strings"
)

// Sum is what some answers of a round add up to: all those of one node of the
// tree over function ids, so that a merge which takes it makes the additions that
// it would have made with the answers themselves, and has the same bits.
type Sum struct {
	Answers []Answer // by function id, with the weights of the merge; their sources are not read
	Source  Source   // what Addition.Write wrote
}

// sumKey is the key of a sum's metadata under which the types are that the
// answers have, parted by commas.
const sumKey = "troupe.sum-of"

// summed returns the layout of a sum of files that look like this one: floats are
// F64, and of the rest it is the maximum.
func (l *Layout) summed() (*Layout, error) {
	specs := l.Specs()
	types := make([]string, len(specs))
	for i := range specs {
		types[i] = specs[i].DType.String()
		if specs[i].DType.IsFloat() {
			specs[i].DType = F64
		}
	}
	return newLayout(specs, map[string]string{sumKey: strings.Join(types, ",")})
}

// unsummed returns the layout of the files that a sum is of. Corrupt: it is none.
func (l *Layout) unsummed() (*Layout, error) {
	text, ok := l.Metadata[sumKey]
	types := strings.Split(text, ",")
	if !ok || len(l.Entries) > 0 && len(types) != len(l.Entries) {
		return nil, corrupt("a file without %q is no sum of answers", sumKey)
	}
	specs := l.Specs()
	for i := range specs {
		d, err := ParseDType(types[i])
		if err != nil || d.IsFloat() && specs[i].DType != F64 || !d.IsFloat() && specs[i].DType != d {
			return nil, corrupt("tensor %q: %s is no sum of %q", specs[i].Name, specs[i].DType, types[i])
		}
		specs[i].DType = d
	}
	return NewLayout(specs)
}

// over returns the window of a sum that covers a window of an answer, whose
// segments may have room in a slice.
func (l *Layout) over(win window, room []segment) window {
	out := window{segments: room[:0]}
	for i, seg := range win.segments {
		e := l.Entries[seg.entry]
		size := e.DType.Size()
		if i == 0 {
			out.offset = e.Offset - l.DataStart + seg.start*size
		}
		seg.dtype, seg.lo = e.DType, int(out.bytes)
		seg.hi = seg.lo + seg.n*int(size)
		out.bytes = int64(seg.hi)
		out.segments = append(out.segments, seg)
	}
	return out
}

// SumBytes returns the size of a sum of files that look like one.
func SumBytes(like Source) (int64, error) {
	l, err := ReadLayout(like.R, like.Size)
	if err == nil {
		l, err = l.summed()
	}
	if err != nil {
		return 0, err
	}
	return l.Size(), nil
}

// Addition makes a Sum.
type Addition struct {
	merge *Merge
	mean  *mean
}

// NewSum reads the headers of the answers of a plan, whose weights are those of
// ScaledWeights for all answers of the round. They are clipped as the plan says;
// its strategy means nothing. Errors are those of NewMerge.
func NewSum(p Plan) (*Addition, error) {
	m, reference, err := openPlan(p)
	if err != nil {
		return nil, err
	}
	if m.sums, err = m.layout.summed(); err != nil {
		return nil, err
	}
	m.result = m.sums
	floats := m.makeRoom()
	a := &Addition{merge: m}
	if a.mean, err = newMean(p.Functions, m.answers, weightsOf(m.answers), m.summands, floats); err != nil {
		return nil, err
	}
	p.Strategy = Strategy{}
	return a, m.useReference(p, reference, floats)
}

// Size returns the bytes of the sum.
func (a *Addition) Size() int64 { return a.merge.result.Size() }

// Write writes the sum. Errors are those of Merge.Write.
func (a *Addition) Write(w io.Writer) error {
	m := a.merge
	if m.clip != nil {
		if err := m.clip.measure(m); err != nil {
			return err
		}
	}
	if err := m.result.WriteHeader(w); err != nil {
		return err
	}
	return m.layout.windowsOf(m.window, func(win window) error {
		sums, err := a.mean.add(m, win)
		if err != nil {
			return err
		}
		m.over = m.sums.over(win, m.over.segments)
		for i, to := range m.over.segments {
			seg := win.segments[i]
			if !seg.dtype.IsFloat() {
				copy(m.wide[to.lo:to.hi], m.out[seg.lo:seg.hi])
				continue
			}
			if bad := unfit(sums[seg.at:seg.at+seg.n], F64); bad >= 0 {
				return m.blame(win, seg, bad)
			}
			encode(m.wide[to.lo:to.hi], sums[seg.at:seg.at+seg.n], F64)
		}
		if _, err := w.Write(m.wide[:m.over.bytes]); err != nil {
			return writeFailed("the sum", err)
		}
		return nil
	})
}

// unweighted returns the plan with every answer counting the same.
func (p Plan) unweighted() Plan {
	same := func(answers []Answer) []Answer {
		answers = slices.Clone(answers)
		for i := range answers {
			answers[i].Weight = 1
		}
		return answers
	}
	p.Answers, p.Sums = same(p.Answers), slices.Clone(p.Sums)
	for i := range p.Sums {
		p.Sums[i].Answers = same(p.Sums[i].Answers)
	}
	return p
}
