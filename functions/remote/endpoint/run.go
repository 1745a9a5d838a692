package endpoint

import (
	"context"

	"github.com/troupe-ml/troupe/functions/remote"
)

// key is what makes two calls the same one: an attempt of a job, which has a
// token of its own.
type key struct {
	remote.Ref
	job, token string
}

// run is an attempt, on its way or over.
type run struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when answer is there
	answer answer

	callers int // that wait; guarded by Endpoint.mu
}

// answer is an HTTP response.
type answer struct {
	status int
	body   []byte
}

const (
	// keep is how many answers are kept for who asks again, late.
	keep = 64
	// keepBytes is how long one may be that is kept.
	keepBytes = 64 << 10
)

// join returns the run of a key, which it starts if there is none: do runs it, on
// a slot of its own. nil: there is no slot. The caller leaves it.
func (e *Endpoint) join(k key, do func(ctx context.Context, slot int) answer) (*run, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.runs[k]; r != nil {
		r.callers++
		return r, nil
	}
	if e.closed {
		return nil, errClosed
	}
	if len(e.free) == 0 {
		return nil, nil
	}
	r := &run{done: make(chan struct{}), callers: 1}
	r.ctx, r.cancel = context.WithCancel(e.ctx)
	last := len(e.free) - 1
	slot := e.free[last]
	e.free = e.free[:last]
	e.runs[k] = r
	e.running.Go(func() {
		r.answer = do(r.ctx, slot)
		e.over(k, r, slot)
	})
	return r, nil
}

// over gives the slot back, and keeps the answer for a while, unless it is one
// that nobody waited for.
func (e *Endpoint) over(k key, r *run, slot int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.free = append(e.free, slot)
	close(r.done)
	cancelled := r.ctx.Err() != nil
	r.cancel()
	switch {
	case e.runs[k] != r: // nobody waited, and who asked again has another one
	case cancelled || len(r.answer.body) > keepBytes:
		delete(e.runs, k)
	default:
		e.recent = append(e.recent, k)
		if len(e.recent) > keep {
			delete(e.runs, e.recent[0])
			e.recent = e.recent[1:]
		}
	}
}

// leave is called by each who joined. A run that the last one leaves is cancelled:
// nobody is there to take what it makes. Who asks then gets a new one.
func (e *Endpoint) leave(k key, r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.callers--
	select {
	case <-r.done:
		return
	default:
	}
	if r.callers == 0 {
		r.cancel()
		delete(e.runs, k)
	}
}
