package python

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// How long a worker's end is waited for, so that a cut call returns in time.
const (
	stackTime = 300 * time.Millisecond // to write its stack
	quietTime = 40 * time.Millisecond  // without a byte, and the stack is complete
	endTime   = 400 * time.Millisecond // to be gone after SIGKILL
)

func workerRoles() []string { return []string{"worker", "log", "life"} }

// worker is a process that runs invocations, one at a time.
type worker struct {
	proc     *child.Process
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
	w := &worker{settings: s, control: a.conns["worker"], life: a.conns["life"], release: func() {}}
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
import runpy
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)`

// environ is how settings reach a process that was not forked.
func (s settings) environ() []string {
	cpus := make([]string, len(s.CPUs))
	for i, cpu := range s.CPUs {
		cpus[i] = strconv.Itoa(cpu)
	}
	return []string{
		"TROUPE_SLOT=" + strconv.Itoa(s.Slot), "TROUPE_CPUS=" + strings.Join(cpus, ","),
		"TROUPE_THREADS=" + strconv.Itoa(s.Threads), "TROUPE_MEMORY=" + strconv.FormatInt(s.Memory, 10),
	}
}

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
		r.hub.forget(a)
		proc.Kill()
		<-proc.Gone
		last := early.Last()
		early.Close()
		return nil, fault.New("python.worker", fault.Unavailable, "start a worker for function %q: "+format+": %s", append(append([]any{p.title()}, args...), last)...)
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

// stack has the worker write where each of its threads is, to its log.
func (w *worker) stack() {
	before := w.output.Drain()
	if !w.proc.Alive() || unix.Kill(w.proc.PID, unix.SIGUSR1) != nil {
		return
	}
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	limit := time.NewTimer(stackTime)
	defer limit.Stop()
	for last := before; ; {
		select {
		case <-tick.C:
		case <-limit.C:
			return
		case <-w.proc.Gone:
			return
		}
		now := w.output.Drain()
		if now == last && now > before {
			return
		}
		last = now
	}
}

// end kills the worker with all that it started, and takes its last words. It
// returns when the process is gone, at most endTime later.
func (w *worker) end() {
	w.once.Do(func() {
		w.proc.Kill()
		timer := time.NewTimer(endTime)
		defer timer.Stop()
		select {
		case <-w.proc.Gone:
		case <-timer.C:
		}
		w.output.Close()
		if w.early != nil {
			w.early.Close()
		}
		_ = w.control.Close()
		_ = w.life.Close()
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
