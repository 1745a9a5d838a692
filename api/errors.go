package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/internal/fault"
)

// KindHeader carries the kind of an error, for clients that want to know more
// than its status says.
const KindHeader = "Troupe-Error-Kind"

// ErrorBody is the body of every response that is an error.
type ErrorBody struct {
	Error string `json:"error" doc:"what was wrong, and what to do"`
	Code  int    `json:"code" doc:"the status"`
}

// statusError is an error that has a status of its own.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

// refuse returns an Invalid error with a status of its own.
func refuse(status int, format string, args ...any) error {
	return statusError{status, invalid(format, args...)}
}

// busy returns an error for what may be tried again later.
func busy(format string, args ...any) error {
	return fault.New("api.limit", fault.Unavailable, format, args...)
}

// statusOf returns the status of a response that is that error.
func statusOf(err error) int {
	if own, ok := errors.AsType[statusError](err); ok {
		return own.status
	}
	switch fault.KindOf(err) {
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
// KindHeader.
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

// fail answers with an error, or, where the answer has begun, cuts it off so
// that nobody takes it for whole.
func (s *Server) fail(w *response, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		w.cut() // nobody is there to read
		return
	}
	status := statusOf(err)
	if status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable {
		s.log.Error("request failed", zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err))
	}
	if w.began() {
		w.cut()
		return
	}
	header := w.Header()
	header.Del("Location")
	header.Del("Content-Length")
	header.Set(KindHeader, fault.KindOf(err).String())
	switch status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="troupe"`)
	}
	text := err.Error()
	if trace := fault.TraceOf(err); trace != "" {
		text += "\n" + trace
	}
	w.json(status, ErrorBody{Error: text, Code: status})
}

// json answers with a value.
func (w *response) json(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types are JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
