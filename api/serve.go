package api

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(plain http.ResponseWriter, r *http.Request) {
	w := newResponse(plain, s.config.Patience)
	began := time.Now()
	pattern := ""
	defer func() {
		aborted := s.recovered(w, r, recover())
		w.extend()
		s.log.Debug("request", zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Int("status", w.status),
			zap.Int64("bytes", w.bytes), zap.Int64("duration_ms", time.Since(began).Milliseconds()))
		if s.metrics != nil {
			s.metrics.Request(strings.TrimSpace(pattern), knownMethod(r.Method), w.status, time.Since(began))
		}
		if aborted {
			panic(http.ErrAbortHandler)
		}
	}()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	limitBody(w, r, s.config.MaxBody, s.config.Patience)
	if !clean(r.URL.EscapedPath()) { // the mux would lead it to something else than was meant
		s.fail(w, r, fault.New("api.route", fault.NotFound, "path %q: it has empty or relative parts", jobjson.Shown(r.URL.Path)))
		return
	}
	var matched string
	if _, matched = s.mux.Handler(r); matched == "" {
		s.fail(w, r, s.unmatched(w, r))
		return
	}
	pattern = matched[strings.IndexByte(matched, ' ')+1:]
	s.mux.ServeHTTP(w, r)
}

// recovered answers for a handler that panicked, and reports whether the
// connection must be cut.
func (s *Server) recovered(w *response, r *http.Request, cause any) (aborted bool) {
	if cause == nil {
		return false
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	s.log.Error("a handler panicked", zap.String("path", r.URL.Path), zap.Any("cause", cause), zap.ByteString("stack", debug.Stack()))
	defer func() { aborted = recover() != nil }()
	s.fail(w, r, fault.New("api.serve", fault.Unknown, "%s %s: a bug of troupe, about which its log has more", r.Method, jobjson.Shown(r.URL.Path)))
	return false
}

// unmatched says why there is no handler for a request.
func (s *Server) unmatched(w *response, r *http.Request) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return fault.New("api.route", fault.NotFound, "there is no %q: GET /openapi.json says what there is", jobjson.Shown(r.URL.Path))
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return jobjson.Refuse(http.StatusMethodNotAllowed, "%s is not for %q: use %s", jobjson.Shown(r.Method), jobjson.Shown(r.URL.Path), strings.Join(allowed, " or "))
}

// newMux returns all routes.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, route := range routes() {
		mux.HandleFunc(route.method+" "+route.path, func(plain http.ResponseWriter, r *http.Request) {
			w := plain.(*response)
			if err := s.answer(w, r, route); err != nil {
				s.fail(w, r, err)
			}
		})
	}
	if s.jobs != nil {
		mux.HandleFunc(jobsPath, s.answerFunction)
	}
	return mux
}

// answer lets a request pass, or not, and has its route answer it.
func (s *Server) answer(w *response, r *http.Request, route route) error {
	if err := s.gate.Check(r, route.role); err != nil {
		switch {
		case errors.Is(err, access.ErrNoToken):
			return httpfault.WithStatus(http.StatusUnauthorized, err)
		case errors.Is(err, access.ErrRole), errors.Is(err, access.ErrForeign):
			return httpfault.WithStatus(http.StatusForbidden, err)
		}
		return err
	}
	if err := route.checkQuery(r); err != nil {
		return err
	}
	return route.handle(s, w, r)
}

// checkQuery refuses parameters that the route does not know.
func (r route) checkQuery(request *http.Request) error {
	sent, err := url.ParseQuery(request.URL.RawQuery)
	if err != nil {
		return jobjson.Invalid("query: %w", err)
	}
	known := []string{}
	for _, p := range r.query {
		known = append(known, p.name)
	}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		switch {
		case slices.Contains(known, name):
		case len(known) == 0:
			return jobjson.Invalid("query: %s %s has no parameters, and not %q", r.method, r.path, jobjson.Shown(name))
		default:
			return jobjson.Invalid("query: there is no parameter %q: %s", jobjson.Shown(name), config.DidYouMean(jobjson.Shown(name), known))
		}
	}
	return nil
}

// clean reports whether a path is one that no server would rewrite.
func clean(p string) bool {
	return strings.HasPrefix(p, "/") && path.Clean(p) == p
}

// knownMethod keeps what clients make up out of the metrics.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
		return method
	}
	return "other"
}
