package functions

import (
	"math"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Check refuses an invocation that cannot work, whatever the function and without
// reading anything: a runtime calls it before it bothers anybody. Invalid, with
// op.
func Check(op string, inv Invocation) error {
	switch inv.Task {
	case Init:
		return nil
	case Infer:
		if len(inv.Infer) == 0 {
			return fault.New(op, fault.Invalid, "no data to infer from: give a JSON value")
		}
		return nil
	case Train, Val:
	default:
		return fault.New(op, fault.Invalid, "a function has no task %q: it knows init, train, val and infer", inv.Task)
	}
	if inv.BatchSize < 1 {
		return fault.New(op, fault.Invalid, "batch size %d: give at least 1", inv.BatchSize)
	}
	if len(inv.Positions) == 0 {
		return fault.New(op, fault.Invalid, "no positions to %s: give at least one", inv.Task)
	}
	if inv.Task == Train && (math.IsNaN(inv.LR) || math.IsInf(inv.LR, 0)) {
		return fault.New(op, fault.Invalid, "learning rate %v: give a finite number", inv.LR)
	}
	for i, p := range inv.Positions {
		if p < 0 || p >= inv.Data.Samples {
			return fault.New(op, fault.Invalid, "position %d is %d, not in [0, %d), the rows of the split", i, p, inv.Data.Samples)
		}
	}
	return nil
}
