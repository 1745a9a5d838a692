package python

import (
	"context"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// endTime is how long a worker that was killed is waited for, so that a cut call
// returns in time.
const endTime = 400 * time.Millisecond

func workerRoles() []string { return []string{"worker", "log", "life"} }

// worker is a process that runs invocations, one at a time.
type worker struct {
	proc     *child.Process
	stacks   string // see Runtime.stackFile
	settings settings
	control  *net.UnixConn
	life     *net.UnixConn // carries nothing; the worker dies when it closes
	output   *child.Lines
	early    *child.Lines // what a process of its own prints before it connects; nil when forked
	release  func()       // gives back the cores
	once     sync.Once

	stopIdle func() // of who has it idle
}

// adopt makes a worker of what has arrived.
func (r *Runtime) adopt(a *arrival, s settings, owner Line, watch func(done func()) (*child.Process, error)) (*worker, error) {
	w := &worker{stacks: r.stackFile(a.token), settings: s, control: a.conns["worker"], life: a.conns["life"], release: func() {}}
	r.tasks.Add(1)
	output, err := child.ReadLines(a.conns["log"], owner, r.config.Log, r.tasks.Done)
	if err != nil {
		r.tasks.Done()
		return nil, fault.New("python.worker", fault.Unavailable, "read what a worker prints: %w", err)
	}
	w.output = output
	r.tasks.Add(1)
	if w.proc, err = watch(r.tasks.Done); err != nil {
		r.tasks.Done()
		output.Close()
		return nil, err
	}
	r.tasks.Go(func() { // what it started may still hold the other end
		<-w.proc.Gone
		_ = w.control.SetDeadline(time.Unix(1, 0))
	})
	return w, nil
}

// launch starts a Python process of ours: module is run with the program as its
// argument.
func (r *Runtime) launch(module string, p Program, token string, owner Line, s settings) (*child.Process, *child.Lines, error) {
	failed := func(err error) (*child.Process, *child.Lines, error) {
		return nil, nil, fault.New("python.launch", fault.Unavailable, "start Python for function %q: %w", p.title(), err)
	}
	interpreter, err := r.interpreter()
	if err != nil {
		return nil, nil, err
	}
	printed, print, err := os.Pipe()
	if err != nil {
		return failed(err)
	}
	defer func() { _ = print.Close() }()
	// The current folder is where the user's files are looked for, but not modules.
	cmd := exec.Command(interpreter, "-c", runModule, module, p.Path)
	cmd.Env = r.environ(p, token, s)
	if module == "troupe.worker" {
		cmd.Env = append(cmd.Env, s.environ()...)
	}
	cmd.Stdout, cmd.Stderr = print, print
	r.tasks.Add(2)
	output, err := child.ReadLines(printed, owner, r.config.Log, r.tasks.Done)
	if err == nil {
		err = r.spawner.Start(cmd)
	} else {
		r.tasks.Done()
	}
	if err != nil {
		r.tasks.Done()
		_ = printed.Close()
		return failed(err)
	}
	return child.WatchChild(cmd, r.tasks.Done), output, nil
}

const runModule = `import sys
sys.path[:] = [p for p in sys.path if p]
del sys.argv[0]
import faulthandler, os, signal
faulthandler.register(signal.SIGUSR1, open(os.path.dirname(os.environ["TROUPE_SOCKET"]) + "/stack-" + os.environ["TROUPE_TOKEN"], "ab", 0))
import runpy
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)`

// startFresh starts a worker that is no fork.
func (r *Runtime) startFresh(ctx context.Context, p Program, s settings, owner Line) (*worker, error) {
	ctx, cancel := context.WithTimeout(ctx, importTime)
	defer cancel()
	a := r.hub.expect(workerRoles()...)
	proc, early, err := r.launch("troupe.worker", p, a.token, owner, s)
	if err != nil {
		r.hub.forget(a)
		return nil, err
	}
	failed := func(format string, args ...any) (*worker, error) {
		var stack []string
		if outOfTime(ctx) {
			stack = r.stackOf(proc, r.stackFile(a.token), p.Path)
		}
		r.hub.forget(a)
		proc.Kill()
		<-proc.Gone
		_ = os.Remove(r.stackFile(a.token))
		last := early.LastWords()
		early.Close()
		r.say(owner, stack)
		return nil, fault.New("python.worker", fault.Unavailable, "start a worker for function %q: "+format+"%s", append(append([]any{p.title()}, args...), last)...)
	}
	select {
	case <-a.all:
	case <-proc.Gone:
		return failed("it %s before it was ready", proc.Ending())
	case <-ctx.Done():
		return failed("%w", context.Cause(ctx))
	}
	w, err := r.adopt(a, s, owner, func(done func()) (*child.Process, error) { done(); return proc, nil })
	if err != nil {
		return failed("%w", err)
	}
	w.early = early
	return w, nil
}

// end kills the worker with all that it started, and takes its last words. It
// returns when the process is gone, at most endTime later.
func (w *worker) end() {
	w.once.Do(func() {
		w.proc.End(endTime)
		w.output.Close()
		if w.early != nil {
			w.early.Close()
		}
		_ = w.control.Close()
		_ = w.life.Close()
		_ = os.Remove(w.stacks)
		w.release()
	})
}

// own has what the worker prints from now on be of another invocation.
func (w *worker) own(line Line) {
	w.output.Drain()
	w.output.Owner.Store(&line)
	if w.early != nil {
		w.early.Drain()
		w.early.Owner.Store(&line)
	}
}
