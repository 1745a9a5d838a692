package api

import (
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/sse"
)

func (s *Server) logs(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	asked, err := logQuery(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if asked.follow && r.Method != http.MethodHead {
		return s.followLog(w, r, id, asked)
	}
	if err := s.company.Log(r.Context(), id, asked.function, false, &logWriter{w: w}); err != nil {
		return err
	}
	if !w.began() {
		w.WriteHeader(http.StatusOK)
	}
	return nil
}

// followLog sends a log as it grows. A heartbeat is an empty line, for those who
// ask for it: no line of a function is empty.
func (s *Server) followLog(w *response, r *http.Request, id string, asked logRequest) error {
	if _, err := s.company.Job(r.Context(), id); err != nil { // while there still can be a status
		return err
	}
	ctx, done, err := s.follow(r)
	if err != nil {
		return err
	}
	defer done()
	w.status = http.StatusOK
	if err := w.flush(); err != nil {
		return nil // nobody is there
	}
	out := &logWriter{w: w}
	beat := func() {}
	if asked.heartbeat {
		beat = func() { _, _ = out.Write([]byte("\n")) }
	}
	err = sse.Beating(ctx, s.config.Heartbeat, beat, func() error { return s.company.Log(ctx, id, asked.function, true, out) })
	if err != nil && s.ctx.Err() != nil {
		w.cut() // so that the client knows that there may be more
	}
	return err
}

// logRequest is what somebody wants to see of a log.
type logRequest struct {
	function          int // -1: all
	follow, heartbeat bool
}

func logQuery(r *http.Request) (asked logRequest, err error) {
	query := r.URL.Query()
	asked.function = -1
	if text := query.Get("function"); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return asked, jobjson.Invalid("function %q: give the number of one, from 0", jobjson.Shown(text))
		}
		asked.function = int(n)
	}
	if asked.follow, err = yes(query, "follow"); err != nil {
		return asked, err
	}
	asked.heartbeat, err = yes(query, "heartbeat")
	return asked, err
}

func yes(query url.Values, name string) (bool, error) {
	switch text := query.Get(name); text {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	default:
		return false, jobjson.Invalid("%s %q: give 0 or 1", name, jobjson.Shown(text))
	}
}

// logWriter sends each line as it comes. It is safe for concurrent use.
type logWriter struct {
	mu sync.Mutex // guards w
	w  *response
}

var _ io.Writer = (*logWriter)(nil)

// Write implements io.Writer.
func (l *logWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.w.Write(b)
	if err == nil {
		err = l.w.flush()
	}
	if err != nil {
		return n, fault.New("api.logs", fault.Unavailable, "the client takes nothing: %w", err)
	}
	return n, nil
}
