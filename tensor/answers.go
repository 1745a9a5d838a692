package tensor

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/troupe-ml/troupe/internal/fault"
)

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

// arrange takes the answers and sums of a plan, in the order of their ids, and
// reads their headers.
func (m *Merge) arrange(p Plan) error {
	m.summands = make([]summand, len(p.Answers), len(p.Answers)+len(p.Sums))
	for i, a := range p.Answers {
		m.summands[i] = summand{Source: a.Source, span: span{int32(a.Function), int32(a.Function)}}
	}
	m.answers = slices.Clone(p.Answers)
	for _, s := range p.Sums {
		if len(s.Answers) == 0 {
			return fault.New(mergeOp, fault.Invalid, "a sum of no answers")
		}
		m.summands = append(m.summands, summand{Source: s.Source, span: span{int32(s.Answers[0].Function), int32(s.Answers[len(s.Answers)-1].Function)}, isSum: true})
		m.answers = append(m.answers, s.Answers...)
	}
	slices.SortFunc(m.answers, func(a, b Answer) int { return cmp.Compare(a.Function, b.Function) })
	slices.SortFunc(m.summands, func(a, b summand) int { return cmp.Compare(a.first, b.first) })
	if err := checkAnswers(p.Functions, m.answers); err != nil {
		return err
	}
	at := func(function int32) int32 {
		i, _ := slices.BinarySearchFunc(m.answers, int(function), func(a Answer, id int) int { return cmp.Compare(a.Function, id) })
		return int32(i)
	}
	for i, s := range m.summands { // from ids to indices
		m.summands[i].span = span{at(s.first), at(s.end) + 1}
	}
	if p.Encoding == Int8 {
		if err := m.decode(p.Reference); err != nil {
			return err
		}
	}
	return m.readLayouts()
}

// decode puts what encoded answers stand for in their place. Sums are of that already.
func (m *Merge) decode(reference Source) error {
	if reference.R == nil {
		return fault.New(mergeOp, fault.Invalid, "encoded answers cannot be merged without the model that they began from")
	}
	codec, err := NewCodec(reference)
	if err != nil {
		return fault.New(mergeOp, fault.KindOf(err), "%w", err)
	}
	for i := range m.summands {
		s := &m.summands[i]
		if s.isSum {
			continue
		}
		if s.Source, err = codec.Open(s.Source); err != nil {
			return m.rejected(i, err)
		}
	}
	return nil
}

// readLayouts reads the header of the first summand and compares those of the
// others with it: byte by byte, and only where that differs by meaning.
func (m *Merge) readLayouts() error {
	var header [2][]byte // of an answer, and of a sum
	var heads [2]*Layout
	for i := range m.summands {
		s, kind := &m.summands[i], 0
		if s.isSum {
			kind = 1
		}
		if heads[kind] != nil {
			same, err := heads[kind].heads(s.Source, header[kind])
			if err != nil {
				return m.rejected(i, err)
			}
			if same {
				s.start = heads[kind].DataStart
				continue
			}
		}
		l, err := ReadLayout(s.R, s.Size)
		if err != nil {
			return m.rejected(i, err)
		}
		s.start = l.DataStart
		if heads[kind] == nil {
			heads[kind], header[kind] = l, make([]byte, len(l.header))
		}
		if s.isSum {
			if l, err = l.unsummed(); err != nil {
				return m.rejected(i, err)
			}
		}
		if m.layout == nil {
			m.layout = l
		}
		if reason := difference(m.layout, l); reason != "" {
			return fault.New(mergeOp, fault.Rejected, "%s: %s", m.nameOf(i), reason)
		}
	}
	var err error
	if heads[1] != nil {
		m.sums, err = m.layout.summed()
	}
	return err
}

// rejected wraps an error of the file of summand i: a broken file is a rejected
// answer, a failing reader is not.
func (m *Merge) rejected(i int, err error) error {
	return fault.New(mergeOp, rejectedKind(err), "%s: %w", m.nameOf(i), err)
}

// nameOf names a summand.
func (m *Merge) nameOf(i int) string {
	s := m.summands[i]
	first := m.answers[s.first].Function
	if s.isSum {
		return fmt.Sprintf("the sum of functions %d to %d", first, m.answers[s.end-1].Function)
	}
	return fmt.Sprintf("function %d", first)
}
