package python

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Runtime runs PyTorch programs. It is safe for concurrent use.
type Runtime struct {
	config  Config
	gpus    int // of this machine, to be used
	cores   *cores
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	at      child.Running
	running sync.WaitGroup // calls and timers
	tasks   sync.WaitGroup // goroutines that end with their process

	// Set by the first Register.
	dir     string // of this runtime alone
	sdk     string // the Python packages
	unlock  func()
	hub     *hub
	spawner *child.Spawner

	mu       sync.Mutex // guards what follows
	programs map[string]*program
	all      []*program // those that were replaced too
	closed   bool

	finding sync.Mutex // guards found
	found   string     // the interpreter
}

var _ functions.Runtime = (*Runtime)(nil)

// errClosed ends what runs when the runtime closes.
var errClosed = errors.New("the runtime of Python functions is closed")

// New returns a runtime without programs. It starts nothing: the interpreter is
// looked for when the first function runs. Errors: Invalid.
func New(c Config) (*Runtime, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Runtime{config: c, programs: map[string]*program{}}
	if r.gpus, err = countGPUs(c.GPUs, r.getenv); err != nil {
		return nil, err
	}
	r.cores = newCores(c)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

func (r *Runtime) getenv(name string) string {
	if r.config.Getenv != nil {
		return r.config.Getenv(name)
	}
	return os.Getenv(name)
}

// lookup reads the environment that a process of p will have.
func (r *Runtime) lookup(p Program, name string) string {
	if v, ok := p.Env[name]; ok {
		return v
	}
	return os.Getenv(name)
}

// interpreter finds Python once.
func (r *Runtime) interpreter() (string, error) {
	r.finding.Lock()
	defer r.finding.Unlock()
	if r.found != "" {
		return r.found, nil
	}
	path, err := Find(r.config.Python, r.getenv)
	if err == nil {
		r.found = path
	}
	return path, err
}

// FindPython looks for the interpreter, which the first function would do
// otherwise, so that a job that nobody here can run does not begin. Unavailable
// says how to install one.
func (r *Runtime) FindPython() error {
	_, err := r.interpreter()
	return err
}

// Register makes a program known, in the place of one of the same name and
// another version, whose invocations go on to their end. Errors: Invalid,
// Unavailable (no place for the files of this runtime).
func (r *Runtime) Register(p Program) error {
	if err := p.check(); err != nil {
		return err
	}
	old, err := r.register(p)
	if old != nil {
		old.replace()
	}
	return err
}

func (r *Runtime) register(p Program) (old *program, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fault.New("python.register", fault.Unavailable, "%w", errClosed)
	}
	if r.hub == nil {
		if err := r.open(); err != nil {
			return nil, err
		}
	}
	old = r.programs[p.Name]
	if old != nil && old.Version == p.Version && old.Path == p.Path {
		return nil, nil
	}
	r.programs[p.Name] = &program{Program: p, rt: r, idle: map[int]*worker{}, said: map[warning]bool{}}
	r.all = append(r.all, r.programs[p.Name])
	return old, nil
}

// Has implements functions.Runtime.
func (r *Runtime) Has(function string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.programs[function] != nil
}

// Run implements functions.Runtime. When ctx ends for the time its function
// has had, which is when context.Cause says DeadlineExceeded, the log first gets
// the Python stack of that moment.
func (r *Runtime) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	p, err := r.enter(inv)
	if err != nil {
		return functions.Answer{}, err
	}
	defer r.running.Done()
	if err := functions.Check("python.run", inv); err != nil {
		return functions.Answer{}, err
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(errClosed) })()
	answer, err := (&attempt{rt: r, program: p, ctx: inner, inv: inv}).run()
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		err = fault.New("python.run", fault.Unavailable, "function %q was cancelled: %w", p.title(), ctx.Err())
	case inner.Err() != nil:
		err = fault.New("python.run", fault.Unavailable, "%w", errClosed)
	}
	return functions.Answer{}, err
}

// enter begins a call.
func (r *Runtime) enter(inv functions.Invocation) (*program, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.programs[inv.Function]
	switch {
	case r.closed:
		return nil, fault.New("python.run", fault.Unavailable, "%w", errClosed)
	case p == nil:
		return nil, fault.New("python.run", fault.NotFound, "no Python function %q here", inv.Function)
	}
	r.running.Add(1)
	return p, nil
}

// after calls f when something has been idle for too long, unless the runtime
// is closed by then.
func (r *Runtime) after(f func()) (stop func()) {
	if r.config.IdleTimeout < 0 {
		return func() {}
	}
	return r.config.After(r.config.IdleTimeout, func() {
		r.mu.Lock()
		closed := r.closed
		if !closed {
			r.running.Add(1)
		}
		r.mu.Unlock()
		if !closed {
			defer r.running.Done()
			f()
		}
	})
}

// closeTime is how long Close waits for processes that were killed.
const closeTime = 10 * time.Second

// Close implements functions.Runtime: it cuts what runs, kills every process,
// and returns when they are gone. Unavailable: one cannot be killed (it waits
// for a disk, say).
func (r *Runtime) Close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if !first {
		return nil
	}
	r.cancel()
	r.running.Wait()
	if r.hub == nil {
		return nil
	}
	for _, p := range r.all {
		p.replace()
	}
	r.hub.close()
	if !r.spawner.CloseAfter(&r.tasks, closeTime) {
		return fault.New("python.close", fault.Unavailable, "a Python process was killed and has not ended in %v", closeTime)
	}
	killStragglers(r.dir)
	err := os.RemoveAll(r.dir)
	r.unlock()
	return err
}
