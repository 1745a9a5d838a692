// Package httpfault is how an error of package fault crosses HTTP: as a status, a
// header with its kind, and a body for people.
package httpfault

import (
	"errors"
	"net/http"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Header carries the kind of an error, for clients that want to know more than
// its status says.
const Header = "Troupe-Error-Kind"

// ErrorBody is the body of every response that is an error.
type ErrorBody struct {
	Error string `json:"error" doc:"what was wrong, and what to do"`
	Code  int    `json:"code" doc:"the status"`
}

// NewErrorBody returns the body of a response with that status, which is err: its
// text, and below it the traceback of a program that raised.
func NewErrorBody(status int, err error) ErrorBody {
	text := err.Error()
	if trace := fault.TraceOf(err); trace != "" {
		text += "\n" + trace
	}
	return ErrorBody{Error: text, Code: status}
}

// StatusError is an error that has a status of its own.
type StatusError struct {
	Status int
	error
}

// WithStatus returns err with a status of its own.
func WithStatus(status int, err error) error { return StatusError{status, err} }

// Unwrap returns the error without its status.
func (e StatusError) Unwrap() error { return e.error }

// StatusOf returns the status of a response that is that error: its own, or that
// of its kind.
func StatusOf(err error) int {
	if own, ok := errors.AsType[StatusError](err); ok {
		return own.Status
	}
	return Status(fault.KindOf(err))
}

// Status returns the status of a response that is an error of that kind.
func Status(kind fault.Kind) int {
	switch kind {
	case fault.Invalid:
		return http.StatusBadRequest
	case fault.NotFound:
		return http.StatusNotFound
	case fault.Conflict:
		return http.StatusConflict
	case fault.Unavailable:
		return http.StatusServiceUnavailable
	case fault.UserCode, fault.Rejected:
		return http.StatusUnprocessableEntity
	case fault.Corrupt, fault.Unknown:
	}
	return http.StatusInternalServerError
}

// KindOf returns the kind of the error that a response is, by its status and
// Header.
func KindOf(status int, kind string) fault.Kind {
	for _, k := range fault.Kinds() {
		if k.String() == kind {
			return k
		}
	}
	switch status {
	case http.StatusNotFound:
		return fault.NotFound
	case http.StatusConflict:
		return fault.Conflict
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return fault.Unavailable
	case http.StatusUnprocessableEntity:
		return fault.UserCode
	}
	if status >= 400 && status < 500 {
		return fault.Invalid
	}
	return fault.Unknown
}
