package train

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/loopback"
)

const (
	maxBody      = 1 << 20          // bytes of a request
	bodyPatience = 10 * time.Second // for the whole of it
)

// GetHandler returns the HTTP interface of the job: start, update, stop, health,
// history, events, stacks; and for its functions that HTTP endpoints run assignment, data,
// model, optimizer, next (remote.Exchange). A call that the job does not expect,
// whatever its order and body, gets a status from 400 to 499 and changes nothing; a
// call that only repeats what was asked (update, stop) is answered as the first.
// Errors are {"error": text, "code": status}.
//
// Functions show the token of their attempt, unless they come over loopback. Nobody
// else is asked for one: whoever reaches the other endpoints may use them, so mount
// them where only those do, such as on loopback. Web pages of other sites are kept
// out.
func (j *TrainJob) GetHandler() http.Handler {
	h := &handler{job: j, mux: http.NewServeMux(), pages: http.NewCrossOriginProtection()}
	for _, e := range endpoints() {
		h.mux.HandleFunc(e.method+" "+e.path, func(w http.ResponseWriter, r *http.Request) {
			if err := h.admit(r); err != nil {
				h.fail(w, r, err)
				return
			}
			if err := e.answer(j, w, r); err != nil {
				h.fail(w, r, err)
			}
		})
	}
	for _, path := range remote.Paths() {
		h.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if err := j.serveExchange(w, r); err != nil {
				h.fail(w, r, err)
			}
		})
	}
	return h
}

// endpoint is what a path does.
type endpoint struct {
	method, path string
	answer       func(j *TrainJob, w http.ResponseWriter, r *http.Request) error
}

func endpoints() []endpoint {
	return []endpoint{
		{http.MethodPost, "/start", (*TrainJob).serveStart},
		{http.MethodPost, "/update", (*TrainJob).serveUpdate},
		{http.MethodDelete, "/stop", (*TrainJob).serveStop},
		{http.MethodGet, "/health", (*TrainJob).serveHealth},
		{http.MethodGet, "/history", (*TrainJob).serveHistory},
		{http.MethodGet, "/events", (*TrainJob).serveEvents},
		{http.MethodGet, "/stacks", (*TrainJob).serveStacks},
	}
}

// handler is the endpoints of a job behind what all requests go through.
type handler struct {
	job   *TrainJob
	mux   *http.ServeMux
	pages *http.CrossOriginProtection
}

// errForeign is behind the error about a request that a web page makes.
var errForeign = errors.New("a web page of another site asks")

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause != http.ErrAbortHandler {
			h.job.log.Error("a handler panicked", zap.String("path", r.URL.Path), zap.Any("cause", cause), zap.ByteString("stack", debug.Stack()))
		}
		panic(http.ErrAbortHandler) // cut off: nobody may take the answer for whole
	}()
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if path.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath() { // the mux would lead it elsewhere
		h.fail(w, r, fault.New("train.serve", fault.NotFound, "path %q: it has empty or relative parts", jobjson.Shown(r.URL.Path)))
		return
	}
	if _, pattern := h.mux.Handler(r); pattern == "" {
		h.fail(w, r, h.unmatched(w, r))
		return
	}
	h.mux.ServeHTTP(w, r)
}

// admit refuses what web pages ask: those of other sites, and those that have made
// a name of theirs point to this machine.
func (h *handler) admit(r *http.Request) error {
	if err := h.pages.Check(r); err != nil {
		return httpfault.WithStatus(http.StatusForbidden, fault.New("train.serve", fault.Invalid, "%w: no web page may do that", errForeign))
	}
	if overLoopback(r) && !loopback.Is(r.Host) {
		return httpfault.WithStatus(http.StatusForbidden, fault.New("train.serve", fault.Invalid, "%w: this job is for this machine: reach it as 127.0.0.1 or localhost", errForeign))
	}
	return nil
}

// overLoopback reports whether a request came to an address that only this machine
// reaches.
func overLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ String() string })
	return ok && loopback.Is(local.String())
}

// unmatched says why nobody answers a request.
func (h *handler) unmatched(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	paths := remote.Paths()
	for _, e := range endpoints() {
		paths = append(paths, e.path)
		if e.path == r.URL.Path {
			allowed = append(allowed, e.method)
		}
	}
	if len(allowed) == 0 {
		return fault.New("train.serve", fault.NotFound, "there is no %q: there are %s", jobjson.Shown(r.URL.Path), strings.Join(slices.Compact(paths), ", "))
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return jobjson.Refuse(http.StatusMethodNotAllowed, "%s is not for %s: use %s", jobjson.Shown(r.Method), r.URL.Path, strings.Join(allowed, " or "))
}

// fail answers with an error.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, r.Context().Err()) {
		panic(http.ErrAbortHandler) // nobody is there to read
	}
	status := httpfault.StatusOf(err)
	if status == http.StatusInternalServerError {
		h.job.log.Error("request failed", zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err))
	}
	w.Header().Set(httpfault.Header, fault.KindOf(err).String())
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	writeJSON(w, status, httpfault.NewErrorBody(status, err))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types are JSON
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone is told nothing
}

// readBody reads the body of a request, within bounds of size and time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	late := time.AfterFunc(bodyPatience, func() { _ = control.SetReadDeadline(time.Unix(1, 0)) }) // long ago
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if !late.Stop() && err != nil {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		return nil, jobjson.BodyError(err)
	}
	return body, nil
}

// warn puts warnings about what was accepted into headers.
func warn(w http.ResponseWriter, warnings []string) {
	for _, text := range warnings {
		w.Header().Add(jobjson.WarningHeader, strconv.QuoteToASCII(text))
	}
}
