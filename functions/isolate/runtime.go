package isolate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Config says what a runtime is made of.
type Config struct {
	// Knows is the runtime whose functions the children run, as Serve opens it
	// there. Here it is only asked what it has. Required; not closed.
	Knows interface{ Has(function string) bool }

	Dir         string        // for temporary files; empty: the usual one
	MemoryLimit int64         // of one child, in bytes; 0: none
	IdleTimeout time.Duration // how long a child with nothing to do stays; 0: 60 s, < 0: for good

	// Log gets each line that functions print. Calls for one child come one at a
	// time; nil: nobody does.
	Log func(child.Line)
}

const defaultIdle = 60 * time.Second

// Runtime runs functions in processes of their own. It is safe for concurrent use.
type Runtime struct {
	config  Config
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // calls and timers
	tasks   sync.WaitGroup // goroutines that end with their process
	spawner func() *child.Spawner
	at      child.Running

	mu      sync.Mutex // guards what follows
	idle    map[int]*worker
	started bool // the spawner
	closed  bool
}

var _ functions.Runtime = (*Runtime)(nil)

// errClosed ends what runs when the runtime closes.
var errClosed = errors.New("the runtime of isolated functions is closed")

// New returns a runtime. It starts nothing yet.
func New(c Config) *Runtime {
	if c.IdleTimeout == 0 {
		c.IdleTimeout = defaultIdle
	}
	if c.Log == nil {
		c.Log = func(child.Line) {}
	}
	r := &Runtime{config: c, idle: map[int]*worker{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.spawner = sync.OnceValue(func() *child.Spawner {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.started = true
		return child.NewSpawner()
	})
	return r
}

// Has implements functions.Runtime.
func (r *Runtime) Has(function string) bool { return r.config.Knows.Has(function) }

// Run implements functions.Runtime. A child that crashes, ends or is killed is
// Unavailable. When ctx ends for the time its function has had, the log gets the
// stacks of the child's goroutines.
func (r *Runtime) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	if err := r.enter(inv); err != nil {
		return functions.Answer{}, err
	}
	defer r.running.Done()
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(errClosed) })()
	answer, err := (&attempt{rt: r, ctx: inner, inv: inv, temps: child.Temps{Dir: r.config.Dir}}).run()
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		err = fault.New("isolate.run", fault.Unavailable, "function %q was cancelled: %w", inv.Function, ctx.Err())
	case inner.Err() != nil:
		err = fault.New("isolate.run", fault.Unavailable, "%w", errClosed)
	}
	return functions.Answer{}, err
}

// enter begins a call.
func (r *Runtime) enter(inv functions.Invocation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return fault.New("isolate.run", fault.Unavailable, "%w", errClosed)
	case !r.Has(inv.Function):
		return fault.New("isolate.run", fault.NotFound, "no function %q here", inv.Function)
	}
	r.running.Add(1)
	return nil
}

// take returns a child for a slot: a warm one, or a new one.
func (r *Runtime) take(ctx context.Context, slot int, owner child.Line) (*worker, error) {
	r.mu.Lock()
	w := r.idle[slot]
	delete(r.idle, slot)
	r.mu.Unlock()
	if w != nil {
		w.stopIdle()
		if w.proc.Alive() {
			w.own(owner)
			return w, nil
		}
		w.end()
	}
	return r.start(ctx, slot, owner)
}

// give takes a child back that is well, to be used again.
func (r *Runtime) give(w *worker) {
	r.mu.Lock()
	keep := !r.closed && r.idle[w.slot] == nil && w.proc.Alive()
	if keep {
		r.idle[w.slot] = w
		w.stopIdle = r.expireLater(w)
	}
	r.mu.Unlock()
	if !keep {
		w.end()
	}
}

// expireLater ends a child once it has been idle for too long.
func (r *Runtime) expireLater(w *worker) (stop func()) {
	if r.config.IdleTimeout < 0 {
		return func() {}
	}
	timer := time.AfterFunc(r.config.IdleTimeout, func() {
		r.mu.Lock()
		mine := !r.closed && r.idle[w.slot] == w
		if mine {
			delete(r.idle, w.slot)
			r.running.Add(1)
		}
		r.mu.Unlock()
		if mine {
			defer r.running.Done()
			w.end()
		}
	})
	return func() { timer.Stop() }
}

// closeTime is how long Close waits for processes that were killed.
const closeTime = 10 * time.Second

// Close implements functions.Runtime: it cuts what runs, kills every child, and
// returns when they are gone. Unavailable: one cannot be killed (it waits for a
// disk, say).
func (r *Runtime) Close() error {
	r.mu.Lock()
	first, idle := !r.closed, r.idle
	r.closed, r.idle = true, map[int]*worker{}
	r.mu.Unlock()
	if !first {
		return nil
	}
	r.cancel()
	r.running.Wait()
	for _, w := range idle {
		w.stopIdle()
		w.end()
	}
	r.mu.Lock()
	started := r.started
	r.mu.Unlock()
	if !started {
		return nil
	}
	if !r.spawner().CloseAfter(&r.tasks, closeTime) {
		return fault.New("isolate.close", fault.Unavailable, "a process for functions was killed and has not ended in %v", closeTime)
	}
	return nil
}
