package jobprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/sse"
	"github.com/troupe-ml/troupe/messages"
)

const (
	startFor = 2 * time.Minute       // to take the task: it may wait for an owner that is gone, and read a program
	tellFor  = 5 * time.Second       // for anything else but a sign of life
	comeBack = 50 * time.Millisecond // before a stream of events that broke is read on
	maxReply = 16 << 20              // bytes of an answer
)

// client speaks to the HTTP interface of a job that runs alone.
type client struct {
	http *http.Client
	url  string // of the job, without a slash at the end
	id   string
}

// newClient returns one of a job at a URL. It goes there, whatever the
// environment says about proxies.
func newClient(id, url string) *client {
	return &client{http: &http.Client{Transport: &http.Transport{}}, url: url, id: id}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// start gives the job its task and its first size.
func (c *client) start(ctx context.Context, task *messages.TrainTask, size Size) error {
	first := jobjson.Update{Parallelism: &size.Parallelism, Slots: &size.Slots}
	_, err := c.ask(ctx, startFor, http.MethodPost, "/start", jobjson.NewStart(c.id, task, first))
	return err
}

func (c *client) resize(ctx context.Context, size Size) error {
	update := jobjson.Update{Slots: &size.Slots}
	if size.Parallelism > 0 {
		update.Parallelism = &size.Parallelism
	}
	_, err := c.ask(ctx, tellFor, http.MethodPost, "/update", update)
	return err
}

func (c *client) stop(ctx context.Context, reason string) error {
	_, err := c.ask(ctx, tellFor, http.MethodDelete, "/stop?reason="+url.QueryEscape(reason), nil)
	return err
}

// check returns how many slots functions hold.
func (c *client) check(ctx context.Context) (busy uint32, err error) {
	answer, err := c.ask(ctx, CheckFor, http.MethodGet, "/health", nil)
	if err != nil {
		return 0, err
	}
	var health jobjson.Health
	if err := json.Unmarshal(answer, &health); err != nil {
		return 0, fault.New("jobprocess.ask", fault.Unavailable, "GET /health of the job's process: %w", err)
	}
	return health.Busy, nil
}

// stacks returns where the functions of the job are.
func (c *client) stacks(ctx context.Context) (string, error) {
	text, err := c.ask(ctx, tellFor, http.MethodGet, "/stacks", nil)
	return string(text), err
}

// ask makes a request and returns the body of its answer. Errors are of the kind
// that the answer names; Unavailable: there was none.
func (c *client) ask(ctx context.Context, patience time.Duration, method, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fault.New("jobprocess.ask", fault.Invalid, "%s: %w", path, err)
		}
		sent = bytes.NewReader(text)
	}
	response, err := c.send(ctx, method, path, sent, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if err != nil {
		return nil, unreachable(method, path, err)
	}
	return answer, nil
}

// send makes a request and returns its answer, which is no error.
func (c *client) send(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return nil, fault.New("jobprocess.ask", fault.Invalid, "%s: %w", path, err)
	}
	if header != nil {
		request.Header = header
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, unreachable(method, path, err)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	defer response.Body.Close()
	var said httpfault.ErrorBody
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxReply)) // what came of it is shown
	if json.Unmarshal(text, &said) != nil || said.Error == "" {
		said.Error = fmt.Sprintf("%s: %s", response.Status, strings.TrimSpace(jobjson.Shown(string(text))))
	}
	return nil, fault.New("jobprocess.ask", httpfault.KindOf(response.StatusCode, response.Header.Get(httpfault.Header)), "%s", said.Error)
}

func unreachable(method, path string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the address, which says nothing to anybody
	}
	return fault.New("jobprocess.ask", fault.Unavailable, "%s %s of the job's process: %w", method, path, err)
}

var errEnd = errors.New("the job has ended")

// follow calls on with the events of the job from an incarnation on, also over a
// connection that breaks, until the job has ended, or its process has: what that
// sent before is read, as long as ctx lasts.
func (c *client) follow(ctx context.Context, gone <-chan struct{}, from uint64, on func([]*messages.JobEvent)) {
	cursor := fmt.Sprintf("%s:%d:%d", c.id, from-1, uint64(math.MaxUint64))
	for {
		err := c.stream(ctx, cursor, func(e sse.Event) error {
			if e.Name == jobjson.End {
				return errEnd
			}
			if e.ID == "" || e.Name == jobjson.Reset {
				return nil // a gap shows by the next event
			}
			event, err := jobjson.DecodeEvent(e.Data)
			if err != nil {
				return err
			}
			cursor = e.ID
			on([]*messages.JobEvent{event})
			return nil
		})
		if errors.Is(err, errEnd) {
			return
		}
		select {
		case <-gone:
			return
		case <-ctx.Done():
			return
		case <-time.After(comeBack):
		}
	}
}

func (c *client) stream(ctx context.Context, cursor string, on func(sse.Event) error) error {
	response, err := c.send(ctx, http.MethodGet, "/events", nil, http.Header{"Last-Event-Id": {cursor}})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return sse.Read(response.Body, on)
}
