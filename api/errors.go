package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// statusError is an error that has a status of its own.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

// refuse returns an Invalid error with a status of its own.
func refuse(status int, format string, args ...any) error {
	return statusError{status, jobjson.Invalid(format, args...)}
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
	return httpfault.Status(fault.KindOf(err))
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
	header.Set(httpfault.Header, fault.KindOf(err).String())
	switch status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Bearer realm="troupe"`)
	}
	w.json(status, httpfault.NewErrorBody(status, err))
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
