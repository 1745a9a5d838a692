package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// busy returns an error for what may be tried again later.
func busy(format string, args ...any) error {
	return fault.New("api.limit", fault.Unavailable, format, args...)
}

// fail answers with an error, or, where the answer has begun, cuts it off so
// that nobody takes it for whole.
func (s *Server) fail(w *response, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		w.cut() // nobody is there to read
		return
	}
	status := httpfault.StatusOf(err)
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
