package api

import (
	"context"
	"net/http"

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
