package actors

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
)

// listingPatience is how long a request waits for a server that has just started
// to have found the jobs of its store.
const listingPatience = 10 * time.Second

// listing is what a server knows of the jobs of its store that it is going to go
// on with: until it has looked for them, nobody can say what runs here. Of a
// company that is none, nil, there is nothing to wait for. It is safe for
// concurrent use.
type listing struct {
	done chan struct{} // closed once all were looked at

	mu     sync.Mutex       // guards unread
	unread map[string]error // jobs that could not be read yet, and why
}

func newListing() *listing { return &listing{done: make(chan struct{})} }

// finish takes in that all jobs were looked at, but those. It may be called again.
func (l *listing) finish(unread map[string]error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unread = unread
	select {
	case <-l.done:
	default:
		close(l.done)
	}
}

// ready says that not all were looked at yet: Unavailable.
func (l *listing) ready() error {
	if l == nil {
		return nil
	}
	select {
	case <-l.done:
		return nil
	default:
		return fault.New("actors.listing", fault.Unavailable, "the server has just started and still looks for the jobs of its store: try again")
	}
}

// wait waits, for a while, until all were looked at. Unavailable.
func (l *listing) wait(ctx context.Context) error {
	if l.ready() == nil {
		return nil
	}
	timer := time.NewTimer(listingPatience)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-ctx.Done():
	case <-timer.C:
	}
	return l.ready()
}

// knows waits, for a while, until a job was looked at. Unavailable.
func (l *listing) knows(ctx context.Context, id string) error {
	if l == nil {
		return nil
	}
	if err := l.wait(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.unread[id]; err != nil {
		return fault.New("actors.listing", fault.Unavailable, "job %s cannot be read yet, to go on with it: %w", id, err)
	}
	return nil
}

// Ready says why the company takes no jobs, nil if it does. Unavailable.
func (c *Company) Ready() error {
	if c.ctx.Err() != nil {
		return fault.New("actors.ready", fault.Unavailable, "the node has ended: %w", context.Cause(c.ctx))
	}
	return c.listing.ready()
}
