package remote

import (
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// Failure is what a function that failed answers, with a status of 400 or more,
// and what the exchange answers to what it refuses.
type Failure struct {
	Error string `json:"error"`
	Code  int    `json:"code"` // the HTTP status again
	// Kind is the name of a fault.Kind. An answer without one is not an
	// endpoint's: it counts as no answer.
	Kind  string `json:"kind,omitempty"`
	Trace string `json:"trace,omitempty"` // of the user's code
}

// FailureOf returns an error as an endpoint sends it.
func FailureOf(err error) Failure {
	kind := fault.KindOf(err)
	return Failure{Error: err.Error(), Code: httpfault.Status(kind), Kind: kind.String(), Trace: fault.TraceOf(err)}
}

// Err is the error that an endpoint sent; ok is false when it is none.
func (f Failure) Err() (err error, ok bool) {
	for _, kind := range fault.Kinds() {
		if f.Error != "" && kind.String() == f.Kind {
			e := fault.New("remote.run", kind, "%s", f.Error)
			e.Trace = f.Trace
			return e, true
		}
	}
	return nil, false
}
