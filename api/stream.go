package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/sse"
)

// follow takes a place among those who follow, and returns a context that ends
// with the request or the server.
func (s *Server) follow(r *http.Request) (context.Context, func(), error) {
	if _, sent := r.Body.(*body); sent { // behind which nobody would see that the client has gone
		return nil, nil, jobjson.Invalid("there is a body: send none with a GET")
	}
	select {
	case s.streams <- struct{}{}:
	default:
		return nil, nil, busy("%d clients follow events and logs already: end some, or try again later", cap(s.streams))
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		<-s.streams
	}, nil
}

// events sends server-sent events, as jobjson has them.
func (s *Server) events(w *response, r *http.Request) error {
	query := r.URL.Query()
	job, after := query.Get("job"), r.Header.Get("Last-Event-ID")
	if after == "" {
		after = query.Get("after")
	}
	if err := jobjson.CheckCursor(job, after); err != nil {
		return err
	}
	if job != "" {
		if err := jobjson.CheckJob(job); err != nil {
			return err
		}
		if _, err := s.company.Job(r.Context(), job); err != nil { // while there still can be a status
			return err
		}
	}
	w.Header().Set("Content-Type", sse.Media)
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, done, err := s.follow(r)
	if err != nil {
		return err
	}
	defer done()
	w.WriteHeader(http.StatusOK)
	out := sse.NewWriter(w, w.flush)
	if out.Failed() {
		return nil // nobody is there
	}
	err = out.While(ctx, s.config.Heartbeat, func() error {
		return s.company.Events(ctx, job, after, func(e Event) error { return jobjson.SendEvent(out, e.Cursor, e.Event) })
	})
	switch {
	case ctx.Err() != nil || out.Failed():
	case err != nil:
		_ = jobjson.SendError(out, err)
	case job != "":
		_ = jobjson.SendEnd(out)
	}
	return nil
}

func (s *Server) logs(w *response, r *http.Request) error {
	id, err := job(r)
	if err != nil {
		return err
	}
	function, follow, err := logQuery(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	ctx := r.Context()
	if follow && r.Method != http.MethodHead {
		if _, err := s.company.Job(ctx, id); err != nil { // while there still can be a status
			return err
		}
		var done func()
		if ctx, done, err = s.follow(r); err != nil {
			return err
		}
		defer done()
		if err := w.flush(); err != nil {
			return nil // nobody is there
		}
		w.status = http.StatusOK
	}
	if err := s.company.Log(ctx, id, function, follow && r.Method != http.MethodHead, flushing{w}); err != nil {
		if s.ctx.Err() != nil {
			w.cut() // so that the client knows that there may be more
		}
		return err
	}
	if !w.began() {
		w.WriteHeader(http.StatusOK)
	}
	return nil
}

func logQuery(r *http.Request) (function int, follow bool, err error) {
	query := r.URL.Query()
	function = -1
	if text := query.Get("function"); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return 0, false, jobjson.Invalid("function %q: give the number of one, from 0", jobjson.Shown(text))
		}
		function = int(n)
	}
	switch text := query.Get("follow"); text {
	case "", "0", "false":
		return function, false, nil
	case "1", "true":
		return function, true, nil
	default:
		return 0, false, jobjson.Invalid("follow %q: give 0 or 1", jobjson.Shown(text))
	}
}

// flushing sends each line as it comes.
type flushing struct{ w *response }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	if err == nil {
		err = f.w.flush()
	}
	if err != nil {
		return n, fault.New("api.logs", fault.Unavailable, "the client takes nothing: %w", err)
	}
	return n, nil
}
