package python

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Program is a user's code, under the name that invocations call it by.
type Program struct {
	Name    string            // what Invocation.Function says
	Title   string            // what people are told it is called; "" = Name
	Path    string            // a file, or a folder with main.py, of this machine
	Version string            // tells one code under this name from another; any text
	Env     map[string]string // added to the environment of its processes
}

func (p Program) check() error {
	if p.Name == "" {
		return fault.New("python.register", fault.Invalid, "the program %s has no name: give it one", p.Path)
	}
	info, err := os.Stat(p.Path)
	if err == nil && info.IsDir() {
		if _, err = os.Stat(filepath.Join(p.Path, "main.py")); err != nil {
			_, err = os.Stat(filepath.Join(p.Path, "program.py"))
		}
	}
	if err != nil {
		return fault.New("python.register", fault.Invalid, "the code of function %q: %w: name a .py file, or a folder with main.py", p.title(), err)
	}
	return nil
}

func (p Program) title() string {
	if p.Title == "" {
		return p.Name
	}
	return p.Title
}

// program is a registered program with its processes: at most one zygote, and
// workers by slot.
type program struct {
	Program
	rt *Runtime

	mu       sync.Mutex // guards what follows
	zygote   *zygote    // the last, possibly dead; nil = none
	starting *start     // of a zygote, shared by all who need it; nil = none
	fresh    bool       // it cannot be forked
	reason   string     // why not, where the program is why
	idle     map[int]*worker
	live     int // workers there are, idle ones and those on their way included
	replaced bool
	said     map[warning]bool
}

// start is a zygote on its way.
type start struct {
	done   chan struct{}
	zygote *zygote
	err    error

	importing *zygote // once it has a process; guarded by program.mu
	shown     bool    // where it is, in the log; guarded by program.mu
}

// take returns a worker for a slot: a warm one, or a new one.
func (p *program) take(ctx context.Context, s settings, owner Line) (*worker, error) {
	if w := p.takeIdle(s); w != nil {
		w.own(owner)
		return w, nil
	}
	p.mu.Lock()
	p.live++
	p.mu.Unlock()
	s.CPUs = p.rt.cores.take(s.Slot, s.Threads)
	w, err := p.start(ctx, s, owner)
	if err != nil {
		p.rt.cores.give()
		p.lose()
		return nil, err
	}
	w.release = p.rt.cores.give
	return w, nil
}

// takeIdle returns the slot's warm worker if it is as wanted, and ends it if
// it is not.
func (p *program) takeIdle(s settings) *worker {
	p.mu.Lock()
	w := p.idle[s.Slot]
	delete(p.idle, s.Slot)
	p.mu.Unlock()
	if w == nil {
		return nil
	}
	w.stopIdle()
	if w.proc.Alive() && w.settings.Threads == s.Threads {
		return w
	}
	p.drop(w)
	return nil
}

// refresh ends the slot's warm worker.
func (p *program) refresh(slot int) {
	p.mu.Lock()
	w := p.idle[slot]
	delete(p.idle, slot)
	p.mu.Unlock()
	if w != nil {
		w.stopIdle()
		p.drop(w)
	}
}

// give takes a worker back that is well, to be used again.
func (p *program) give(w *worker) {
	p.mu.Lock()
	keep := !p.replaced && p.idle[w.settings.Slot] == nil && w.proc.Alive()
	if keep {
		p.idle[w.settings.Slot] = w
		w.stopIdle = p.rt.after(func() { p.expire(w) })
	}
	p.mu.Unlock()
	if !keep {
		p.drop(w)
	}
}

// drop ends a worker that nobody else has.
func (p *program) drop(w *worker) {
	w.end()
	p.lose()
}

// lose counts a worker that is no more. The last takes the zygote with it,
// after a while.
func (p *program) lose() {
	p.mu.Lock()
	p.live--
	last, replaced := p.live == 0, p.replaced
	p.mu.Unlock()
	switch {
	case last && replaced:
		p.rest()
	case last:
		p.rt.after(p.rest)
	}
}

// expire lets a worker go that was idle for too long.
func (p *program) expire(w *worker) {
	p.mu.Lock()
	mine := p.idle[w.settings.Slot] == w
	if mine {
		delete(p.idle, w.settings.Slot)
	}
	p.mu.Unlock()
	if !mine {
		return
	}
	p.drop(w)
	p.rest()
}

// rest lets the zygote go when there are no workers.
func (p *program) rest() {
	p.mu.Lock()
	var z *zygote
	if p.live == 0 && p.starting == nil {
		z, p.zygote = p.zygote, nil
	}
	p.mu.Unlock()
	if z != nil {
		z.end()
	}
}

// start starts a worker, by fork where that is safe.
func (p *program) start(ctx context.Context, s settings, owner Line) (*worker, error) {
	for tries := 1; ; tries++ {
		z, err := p.ready(ctx, owner)
		if err != nil {
			return nil, err
		}
		if z == nil {
			return p.rt.startFresh(ctx, p.Program, s, owner)
		}
		w, err := z.fork(ctx, p.title(), s, owner)
		if err == nil || !errors.Is(err, errZygoteDied) || tries == 3 {
			return w, err
		}
		z.proc.Kill() // what it does not answer to it is not good for
		select {
		case <-z.proc.Gone:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// ready returns a zygote that lives, and nil when the program cannot be forked.
// What it waits for goes on for others when ctx ends.
func (p *program) ready(ctx context.Context, owner Line) (*zygote, error) {
	p.mu.Lock()
	if p.fresh || p.rt.gpus > 0 {
		p.mu.Unlock()
		return nil, nil
	}
	if p.zygote != nil && p.zygote.proc.Alive() {
		defer p.mu.Unlock()
		return p.zygote, nil
	}
	st := p.starting
	if st == nil {
		st = &start{done: make(chan struct{})}
		p.starting = st
		old := p.zygote
		p.zygote = nil
		p.rt.tasks.Go(func() { p.fork(st, old, owner) })
	}
	p.mu.Unlock()
	select {
	case <-st.done:
		return st.zygote, st.err
	case <-ctx.Done():
		if outOfTime(ctx) {
			p.showImport(st)
		}
		return nil, fault.New("python.zygote", fault.Unavailable, "function %q was still being imported: %w", p.title(), context.Cause(ctx))
	}
}

// showImport puts where the import of the program is into its log, once.
func (p *program) showImport(st *start) {
	p.mu.Lock()
	z, shown := st.importing, st.shown
	st.shown = true
	p.mu.Unlock()
	if z != nil && !shown {
		z.show(p.Program)
	}
}

// fork starts a zygote in the place of an old one, which is dead.
func (p *program) fork(st *start, old *zygote, owner Line) {
	if old != nil {
		old.end()
	}
	z, err := p.rt.startZygote(p.rt.ctx, p.Program, owner, func(z *zygote) {
		p.mu.Lock()
		st.importing = z
		p.mu.Unlock()
	})
	reason := ""
	if z != nil && !z.forkable {
		z.end()
		reason, z = z.reason, nil
	}
	p.mu.Lock()
	p.reason = reason
	st.zygote, st.err = z, err
	p.zygote, p.starting, p.fresh = z, nil, z == nil && err == nil
	unwanted := p.live == 0
	p.mu.Unlock()
	close(st.done)
	if unwanted {
		p.rt.after(p.rest)
	}
}

// replace has nothing of the program started again: what is idle ends, what
// runs ends with its invocation.
func (p *program) replace() {
	p.mu.Lock()
	p.replaced = true
	idle, st := p.idle, p.starting
	p.idle = map[int]*worker{}
	p.mu.Unlock()
	if st != nil && p.rt.ctx.Err() != nil {
		<-st.done
	}
	for _, w := range idle {
		w.stopIdle()
		p.drop(w)
	}
	p.rest()
}
