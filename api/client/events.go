package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/sse"
)

// silence is after which a server that sends no heartbeat is gone: five of them.
const silence = 75 * time.Second

// Events implements api.Jobs. It goes on where it was when the connection or the
// server is lost, and gives up once the server was out of reach for
// Config.Patience: Unavailable.
func (c *Client) Events(ctx context.Context, job, after string, on func(api.Event) error) error {
	s := &stream{client: c, job: job, after: after, on: on}
	pause := firstPause
	var lost time.Time // since when there was nothing
	for {
		again, progress, err := s.once(ctx)
		if !again || ctx.Err() != nil {
			return err
		}
		now := time.Now()
		if progress {
			lost, pause = time.Time{}, firstPause
		}
		if lost.IsZero() {
			lost = now
			c.lost(c.Server(), c.patience)
		}
		if now.Sub(lost) > c.patience {
			return err
		}
		if !sleep(ctx, pause/2+mathrand.N(pause)) {
			return err
		}
		pause = min(2*pause, longPause)
	}
}

// stream is a stream of events, over several connections.
type stream struct {
	client *Client
	job    string
	after  string // the last event seen
	on     func(api.Event) error
}

// once follows one connection. It reports whether another one may give more,
// and whether this one gave something.
func (s *stream) once(ctx context.Context) (again, progress bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	ended := errors.New("it has ended")
	var failed error // for good
	err = sse.Read(response.Body, func(e sse.Event) error {
		quiet.Reset(silence)
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

// Log implements api.Jobs. A log that is followed goes on where it was when the
// connection or the server is lost, as Events does.
func (c *Client) Log(ctx context.Context, id string, function int, follow bool, w io.Writer) error {
	k := get("tasks", id, "logs")
	k.query = url.Values{}
	if function >= 0 {
		k.query.Set("function", strconv.Itoa(function))
	}
	if follow {
		k.query.Set("follow", "1")
	}
	out := &resumed{w: w}
	pause := firstPause
	var lost time.Time
	for {
		before := out.total
		again, err := c.logOnce(ctx, k, out)
		if !again || !follow || ctx.Err() != nil {
			return err
		}
		now := time.Now()
		if out.total > before {
			lost, pause = time.Time{}, firstPause
		}
		if lost.IsZero() {
			lost = now
			c.lost(c.Server(), c.patience)
		}
		if now.Sub(lost) > c.patience || !sleep(ctx, pause/2+mathrand.N(pause)) {
			return err
		}
		pause = min(2*pause, longPause)
	}
}

// logOnce copies what one connection gives, and reports whether another one may
// give more.
func (c *Client) logOnce(ctx context.Context, k call, out *resumed) (again bool, err error) {
	response, err := c.try(ctx, k, nil)
	if err != nil {
		return fault.KindOf(err) == fault.Unavailable, err
	}
	defer response.Body.Close()
	out.skip = out.total // it begins at the beginning
	_, err = io.Copy(out, response.Body)
	if err == nil || out.err != nil {
		return false, errors.Join(err, out.err)
	}
	return true, c.broken(k, err)
}

// resumed writes what was not written yet.
type resumed struct {
	w     io.Writer
	total int64 // written
	skip  int64 // of what comes, to be left out
	err   error // of w
}

func (r *resumed) Write(b []byte) (int, error) {
	n := len(b)
	left := min(int64(n), r.skip)
	r.skip -= left
	wrote, err := r.w.Write(b[left:])
	r.total += int64(wrote)
	if err != nil {
		r.err = err
		return int(left) + wrote, err
	}
	return n, nil
}
