package python

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// What a start may take before it is given up. Importing torch takes 2 s, on a
// slow disk a minute; a program may do more at import.
const (
	importTime = 5 * time.Minute
	forkTime   = 30 * time.Second
)

// zygote is a process that has imported torch and a program, and forks workers.
// It runs nothing itself. Workers outlive it.
type zygote struct {
	rt     *Runtime
	proc   *child.Process
	conn   *net.UnixConn
	output *child.Lines

	forkable bool
	reason   string // why not

	write sync.Mutex // held to send a frame

	mu    sync.Mutex // guards what follows
	forks map[string]*fork
	kids  map[int]*child.Exit
}

// fork is a worker that was asked for.
type fork struct {
	exit   *child.Exit
	pid    int  // 0 = not forked yet
	orphan bool // nobody waits for it
}

// fromZygote is what a zygote says: one of these.
type fromZygote struct {
	Ready    bool     `json:"ready"`
	Forkable bool     `json:"forkable"`
	Reason   string   `json:"reason"`
	Error    *failure `json:"error"`
	Forked   *struct {
		Token string `json:"token"`
		PID   int    `json:"pid"`
	} `json:"forked"`
	Exited *struct {
		PID    int `json:"pid"`
		Status int `json:"status"`
	} `json:"exited"`
}

// settings are what a worker is started with.
type settings struct {
	Slot    int   `json:"slot"`
	CPUs    []int `json:"cpus"` // nil = not pinned
	Threads int   `json:"threads"`
	Memory  int64 `json:"memory"` // bytes, 0 = no limit
}

type toZygote struct {
	Fork forkRequest `json:"fork"`
}

type forkRequest struct {
	Token string `json:"token"`
	settings
}

// startZygote starts a zygote of p and waits until it has imported the program.
// UserCode: the program raised; Unavailable: anything else that went wrong.
func (r *Runtime) startZygote(ctx context.Context, p Program, owner Line) (*zygote, error) {
	ctx, cancel := context.WithTimeout(ctx, importTime)
	defer cancel()
	a := r.hub.expect("zygote")
	owner.Index = -1
	proc, output, err := r.launch("troupe.zygote", p, a.token, owner, settings{Slot: -1, Threads: 1})
	if err != nil {
		r.hub.forget(a)
		return nil, err
	}
	z := &zygote{rt: r, proc: proc, output: output, forks: map[string]*fork{}, kids: map[int]*child.Exit{}}
	if err := z.await(ctx, a, p); err != nil {
		r.hub.forget(a)
		z.end()
		return nil, err
	}
	if z.forkable {
		r.tasks.Go(z.listen)
	}
	return z, nil
}

// await waits until the zygote has said what it is.
func (z *zygote) await(ctx context.Context, a *arrival, p Program) error {
	select {
	case <-a.all:
		z.conn = a.conns["zygote"]
	case <-z.proc.Gone:
		return fault.New("python.zygote", fault.Unavailable, "Python of function %q %s before it was ready: %s", p.title(), z.proc.Ending(), z.output.Last())
	case <-ctx.Done():
		return fault.New("python.zygote", fault.Unavailable, "Python of function %q was not ready in time: %w", p.title(), context.Cause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { _ = z.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var m fromZygote
	err := child.ReadFrame(z.conn, &m)
	switch {
	case err != nil && ctx.Err() != nil:
		return fault.New("python.zygote", fault.Unavailable, "function %q was not imported in time: %w", p.title(), context.Cause(ctx))
	case err != nil:
		return fault.New("python.zygote", fault.Unavailable, "Python of function %q %s while it imported the program: %s", p.title(), z.proc.Ended(err), z.output.Last())
	case m.Error != nil:
		if m.Error.Kind == "" {
			m.Error.Kind = "user"
		}
		return m.Error.fault(p.title())
	case !m.Ready:
		return fault.New("python.zygote", fault.Unavailable, "Python of function %q sent neither that it is ready nor why not", p.title())
	}
	z.forkable, z.reason = m.Forkable, m.Reason
	return nil
}

// listen takes what the zygote says of its children, until it is gone.
func (z *zygote) listen() {
	for {
		var m fromZygote
		if err := child.ReadFrame(z.conn, &m); err != nil {
			z.proc.Kill() // one that does not speak is of no use; its workers go on
			return
		}
		z.mu.Lock()
		if m.Forked != nil {
			if f := z.forks[m.Forked.Token]; f != nil {
				delete(z.forks, m.Forked.Token)
				z.kids[m.Forked.PID], f.pid = f.exit, m.Forked.PID
				z.killLocked(f)
			}
		}
		if m.Exited != nil {
			if e := z.kids[m.Exited.PID]; e != nil {
				delete(z.kids, m.Exited.PID)
				e.Tell(syscall.WaitStatus(m.Exited.Status))
			}
		}
		z.mu.Unlock()
	}
}

// errZygoteDied says that another zygote may do better.
var errZygoteDied = errors.New("the process that forks workers ended")

// fork returns a new worker. An error that wraps errZygoteDied is the zygote's.
func (z *zygote) fork(ctx context.Context, name string, s settings, owner Line) (*worker, error) {
	timer := time.NewTimer(forkTime)
	defer timer.Stop()
	a := z.rt.hub.expect(workerRoles()...)
	f := &fork{exit: child.NewExit()}
	z.mu.Lock()
	z.forks[a.token] = f
	z.mu.Unlock()
	failed := func(format string, args ...any) (*worker, error) {
		z.abandon(a, f)
		return nil, fault.New("python.fork", fault.Unavailable, "start a worker for function %q: "+format, append([]any{name}, args...)...)
	}
	if err := z.send(toZygote{forkRequest{a.token, s}}); err != nil {
		return failed("%w: %w", errZygoteDied, err)
	}
	select {
	case <-a.all:
	case <-f.exit.Told:
		return failed("it %s before it was ready", child.Describe(f.exit.Status))
	case <-z.proc.Gone:
		return failed("%w", errZygoteDied)
	case <-timer.C:
		z.proc.Kill()
		return failed("no answer in %v", forkTime)
	case <-ctx.Done():
		return failed("%w", context.Cause(ctx))
	}
	w, err := z.rt.adopt(a, s, owner, func(done func()) (*child.Process, error) { return child.WatchForked(a.pid, f.exit, done) })
	if err != nil {
		return failed("%w", err)
	}
	return w, nil
}

func (z *zygote) send(m toZygote) error {
	z.write.Lock()
	defer z.write.Unlock()
	_ = z.conn.SetWriteDeadline(time.Now().Add(forkTime))
	return child.WriteFrame(z.conn, m)
}

// abandon has nobody wait for a worker that was asked for, and ends it.
func (z *zygote) abandon(a *arrival, f *fork) {
	z.rt.hub.forget(a) // it finds its connections closed, if it gets that far
	z.mu.Lock()
	defer z.mu.Unlock()
	f.orphan = true
	z.killLocked(f)
}

// killLocked kills an orphan. While the zygote has not told its end, its number
// is its own.
func (z *zygote) killLocked(f *fork) {
	if f.orphan && f.pid > 0 && z.kids[f.pid] == f.exit {
		_ = syscall.Kill(f.pid, syscall.SIGKILL)
	}
}

// end kills the zygote. Workers go on.
func (z *zygote) end() {
	z.proc.Kill()
	<-z.proc.Gone
	if z.conn != nil {
		_ = z.conn.Close()
	}
	z.output.Close()
}

// environ is the environment of a process of p.
func (r *Runtime) environ(p Program, token string, s settings) []string {
	threads := strconv.Itoa(s.Threads)
	env := os.Environ()
	for k, v := range p.Env {
		env = append(env, k+"="+v)
	}
	env = append(env, // of two with one name the last counts
		"PYTHONPATH="+r.sdk+suffix(r.lookup(p, "PYTHONPATH")),
		"TROUPE_SOCKET="+r.hub.path, "TROUPE_TOKEN="+token,
		"OMP_NUM_THREADS="+threads, "MKL_NUM_THREADS="+threads, "OPENBLAS_NUM_THREADS="+threads, "NUMEXPR_NUM_THREADS="+threads,
	)
	for k, v := range map[string]string{
		"PYTHONHASHSEED":   "0", // the order of a set of strings, else drawn by each process
		"PYTHONUNBUFFERED": "1",
	} {
		if r.lookup(p, k) == "" {
			env = append(env, k+"="+v)
		}
	}
	return env
}

func suffix(path string) string {
	if path == "" {
		return ""
	}
	return ":" + path
}
