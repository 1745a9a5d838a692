package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/sse"
)

// Events implements api.Jobs. It goes on where it was when the connection or the
// server is lost, and gives up once the server was out of reach for
// Config.Patience: Unavailable.
func (c *Client) Events(ctx context.Context, job, after string, on func(api.Event) error) error {
	s := &stream{client: c, job: job, after: after, on: on}
	return c.follow(ctx, s.once)
}

// stream is a stream of events, over several connections.
type stream struct {
	client *Client
	job    string
	after  string // the last event seen
	on     func(api.Event) error
}

// once is a connection.
func (s *stream) once(ctx context.Context, heard func()) (again, progress bool, err error) {
	k := get("events")
	k.header = http.Header{"Accept": {sse.Media}}
	if s.job != "" {
		k.query = url.Values{"job": {s.job}}
	}
	if s.after != "" {
		k.header.Set("Last-Event-ID", s.after)
	}
	response, err := s.client.try(ctx, k, nil)
	if err != nil {
		return fault.KindOf(err) == fault.Unavailable, false, err
	}
	defer response.Body.Close()
	ended := errors.New("it has ended")
	var failed error // for good
	err = sse.Read(response.Body, func(e sse.Event) error {
		heard()
		over, err := s.take(e)
		if failed = err; err != nil {
			return err
		}
		progress = progress || e.Name != ""
		if over {
			return ended
		}
		return nil
	})
	if failed != nil || errors.Is(err, ended) {
		return false, true, failed
	}
	return true, progress, fault.New("client.events", fault.Unavailable, "events from %s: the connection is lost: %w", s.client.base, err)
}

// take passes an event on, and reports whether it is the last.
func (s *stream) take(e sse.Event) (ended bool, err error) {
	switch e.Name {
	case "":
		return false, nil // a heartbeat
	case jobjson.End:
		return true, nil
	case jobjson.Error:
		var said httpfault.ErrorBody
		if err := json.Unmarshal(e.Data, &said); err != nil {
			return true, fault.New("client.events", fault.Unknown, "events: %s", e.Data)
		}
		return true, fault.New("client.events", httpfault.KindOf(said.Code, ""), "%s", said.Error)
	case jobjson.Reset:
		s.after = e.ID
		return false, s.on(api.Event{Cursor: e.ID, Reset: true})
	}
	event, err := jobjson.DecodeEvent(e.Data)
	if err != nil {
		return true, err
	}
	if err := s.on(api.Event{Cursor: e.ID, Event: event}); err != nil {
		return true, err
	}
	s.after = e.ID
	return false, nil
}
