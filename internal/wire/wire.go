// Package wire carries errors in messages: fault.Error to messages.Failure and
// back, kind, text and trace kept.
package wire

import (
	"errors"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// Failure returns err as a message, and nil for nil.
func Failure(err error) *messages.Failure {
	if err == nil {
		return nil
	}
	f := &messages.Failure{
		Kind:  kindToWire(fault.KindOf(err)),
		Text:  err.Error(),
		Trace: fault.TraceOf(err),
	}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		f.Op = e.Op
	}
	return f
}

// Error returns the error that a message carries, and nil for nil.
func Error(f *messages.Failure) error {
	if f == nil {
		return nil
	}
	e := fault.New(f.GetOp(), kindFromWire(f.GetKind()), "%s", f.GetText())
	e.Trace = f.GetTrace()
	return e
}

func kindToWire(k fault.Kind) messages.FailureKind {
	switch k {
	case fault.Invalid:
		return messages.FailureKind_FAILURE_KIND_INVALID
	case fault.NotFound:
		return messages.FailureKind_FAILURE_KIND_NOT_FOUND
	case fault.Conflict:
		return messages.FailureKind_FAILURE_KIND_CONFLICT
	case fault.Unavailable:
		return messages.FailureKind_FAILURE_KIND_UNAVAILABLE
	case fault.Corrupt:
		return messages.FailureKind_FAILURE_KIND_CORRUPT
	case fault.UserCode:
		return messages.FailureKind_FAILURE_KIND_USER_CODE
	case fault.Rejected:
		return messages.FailureKind_FAILURE_KIND_REJECTED
	case fault.Unknown:
	}
	return messages.FailureKind_FAILURE_KIND_UNSPECIFIED
}

func kindFromWire(k messages.FailureKind) fault.Kind {
	for _, kind := range fault.Kinds() {
		if kindToWire(kind) == k {
			return kind
		}
	}
	return fault.Unknown // a kind of a later version
}
