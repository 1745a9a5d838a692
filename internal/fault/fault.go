// Package fault gives every error of Troupe a kind, so that each boundary
// (supervisor, HTTP, command line, wire) can decide with one switch what to do
// about it instead of reading its text.
package fault

import (
	"errors"
	"fmt"
)

// Kind says what can be done about an error.
type Kind uint8

// The kinds. Each boundary answers every one of them; a test walks Kinds.
const (
	Unknown     Kind = iota // unclassified: a bug of ours
	Invalid                 // the request is wrong, repeating cannot help
	NotFound                // no such thing
	Conflict                // the state of things forbids it
	Unavailable             // no capacity or no answer: try again later
	Corrupt                 // bytes fail their checksum or format
	UserCode                // the user's function raised
	Rejected                // an answer that may not enter a merge
)

// Kinds lists every kind, in order.
func Kinds() []Kind {
	return []Kind{Unknown, Invalid, NotFound, Conflict, Unavailable, Corrupt, UserCode, Rejected}
}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Unknown:
		return "unknown"
	case Invalid:
		return "invalid"
	case NotFound:
		return "not found"
	case Conflict:
		return "conflict"
	case Unavailable:
		return "unavailable"
	case Corrupt:
		return "corrupt"
	case UserCode:
		return "user code"
	case Rejected:
		return "rejected"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Error is an error with a kind and the operation that met it.
type Error struct {
	Op   string // package and verb, as in "train.resize"
	Kind Kind
	Err  error // the text, and whatever it wraps
	// Trace is the stack or traceback of the user's code, as text; empty
	// unless Kind is UserCode. It is not part of Error().
	Trace string
}

// New returns an error of the given kind. Format and args are those of
// fmt.Errorf: %w wraps. The text is lower case and names the values.
func New(op string, kind Kind, format string, args ...any) *Error {
	return &Error{Op: op, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Error returns the text without the operation: what a person reads.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what the error wraps.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost *Error in err's chain, and Unknown
// where there is none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Unknown
}

// TraceOf returns the trace of the outermost *Error in err's chain that
// carries one, or "".
func TraceOf(err error) string {
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.Err) {
		if e.Trace != "" {
			return e.Trace
		}
	}
	return ""
}
