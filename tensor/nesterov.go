package tensor

import (
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

// nesterov is an outer optimizer: it takes what a round changed as a gradient,
// g = ref - avg, and steps parameters from avg on, with Nesterov's momentum:
//
//	m' = mu*m + g
//	new = avg + (lr-1)*(avg-ref) - lr*mu*m'
//
// which is ref - lr*(g + mu*m'), written so that (lr, mu) = (1, 0) gives the
// average itself. Buffers stay averages: stepping a variance beyond what was
// measured can make it negative.
//
// The momentum is a state dict of the parameters alone, in their order: F64 of
// an F64 parameter and F32 of any other, since f16 and bf16 would lose what a
// small change adds to it.
type nesterov struct {
	ref      *reference
	lr, mu   float64
	layout   *Layout // of the momentum
	old      Source  // no reader: all zero
	oldStart int64   // its DataStart
	done     int64   // bytes of the momentum that are written, without the header
	raw      []byte  // a window of it
	values   []float64
	w        io.Writer
}

func newNesterov(ref *reference, s Strategy, old Source) (*nesterov, error) {
	n := &nesterov{ref: ref, lr: s.LR, mu: s.Momentum, old: old, values: make([]float64, len(ref.values)), raw: make([]byte, 8*len(ref.values))}
	var err error
	if n.layout, err = ref.layout.wide(ref.parameters); err != nil || old.R == nil {
		return n, err
	}
	have, err := n.layout.like(old)
	if err != nil {
		return nil, fault.New(mergeOp, fault.KindOf(err), "momentum: %w", err)
	}
	if reason := difference(n.layout, have); reason != "" {
		return nil, fault.New(mergeOp, fault.Invalid, "the momentum is not of the reference model: %s", reason)
	}
	n.oldStart = have.DataStart
	return n, nil
}

func (n *nesterov) begin(w io.Writer) error {
	n.w, n.done = w, 0
	return n.layout.WriteHeader(w)
}

// step replaces a window's averages of parameters by the new model, and writes
// their momentum. In the momentum's file they lie one after the other.
func (n *nesterov) step(win window, avg []float64) error {
	ref, err := n.ref.window(win)
	if err != nil {
		return err
	}
	var size int64
	n.ref.steps(win, func(seg segment) { size += int64(seg.n) * wide(seg.dtype).Size() })
	raw := n.raw[:size]
	if n.old.R != nil {
		if err := readFull(n.old.R, raw, n.oldStart+n.done); err != nil {
			return fault.New(mergeOp, fault.KindOf(err), "momentum: %w", err)
		}
	}
	n.ref.steps(win, func(seg segment) {
		d := wide(seg.dtype)
		part := raw[:int64(seg.n)*d.Size()]
		raw = raw[len(part):]
		m := n.values[:seg.n]
		clear(m)
		if n.old.R != nil {
			decode(m, part, d)
		}
		n.stepSegment(avg[seg.at:seg.at+seg.n], ref[seg.at:seg.at+seg.n], m)
		if bad := unfit(m, d); bad >= 0 && err == nil {
			err = n.unfit(seg, bad, "momentum", d)
		}
		if bad := unfit(avg[seg.at:seg.at+seg.n], seg.dtype); bad >= 0 && err == nil {
			err = n.unfit(seg, bad, "new value", seg.dtype)
		}
		encode(part, m, d)
	})
	if err != nil {
		return err
	}
	n.done += size
	if _, err := n.w.Write(n.raw[:size]); err != nil {
		return writeFailed("the momentum", err)
	}
	return nil
}

// stepSegment replaces avg by the new values and m by the new momentum.
func (n *nesterov) stepSegment(avg, ref, m []float64) {
	ref, m = ref[:len(avg)], m[:len(avg)]
	for i, a := range avg {
		m[i] = float64(n.mu*m[i]) + (ref[i] - a)
		avg[i] = a + float64((n.lr-1)*(a-ref[i])) - float64(n.lr*n.mu*m[i])
	}
}

func (n *nesterov) unfit(seg segment, i int, what string, d DType) error {
	return fault.New(mergeOp, fault.Rejected, "tensor %q: the %s at index %d does not fit %s: the outer optimizer diverges, lower its learning rate or momentum",
		n.ref.layout.Entries[seg.entry].Name, what, seg.start+int64(i), d)
}
