package tensor

import (
	"math"

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
