package python

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

// importTime is what a start may take before it is given up. Importing torch takes 2 s, on a
// slow disk a minute; a program may do more at import.
const importTime = 5 * time.Minute

// zygote is a process that has imported torch and a program, and forks workers.
// It runs nothing itself. Workers outlive it.
type zygote struct {
	rt     *Runtime
	proc   *child.Process
	stacks string // see Runtime.stackFile
	owner  Line   // of its output
	conn   *net.UnixConn
	life   *net.UnixConn // carries nothing; its process group dies when it closes
	output *child.Lines

	forkable bool
	reason   string // why not

	write sync.Mutex // held to send a frame

	mu    sync.Mutex // guards what follows
	forks map[string]*fork
	kids  map[int]*child.Exit
	heard uint64 // messages that came
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

// startZygote starts a zygote of p and waits until it has imported the program.
// launched gets it as soon as it has a process. UserCode: the program raised;
// Unavailable: anything else that went wrong.
func (r *Runtime) startZygote(ctx context.Context, p Program, owner Line, launched func(*zygote)) (*zygote, error) {
	ctx, cancel := context.WithTimeout(ctx, importTime)
	defer cancel()
	a := r.hub.expect("zygote", "life")
	owner.Index = -1
	proc, output, err := r.launch("troupe.zygote", p, a.token, owner, settings{Slot: -1, Threads: 1})
	if err != nil {
		r.hub.forget(a)
		return nil, err
	}
	z := &zygote{rt: r, proc: proc, stacks: r.stackFile(a.token), owner: owner, output: output, forks: map[string]*fork{}, kids: map[int]*child.Exit{}}
	launched(z)
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
		z.conn, z.life = a.conns["zygote"], a.conns["life"]
	case <-z.proc.Gone:
		return fault.New("python.zygote", fault.Unavailable, "Python of function %q %s before it was ready%s", p.title(), z.proc.Ending(), z.output.LastWords())
	case <-ctx.Done():
		return fault.New("python.zygote", fault.Unavailable, "Python of function %q was not ready in time: %w", p.title(), context.Cause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { _ = z.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var m fromZygote
	err := child.ReadFrame(z.conn, &m)
	switch {
	case err != nil && ctx.Err() != nil:
		if outOfTime(ctx) {
			z.show(p)
		}
		return fault.New("python.zygote", fault.Unavailable, "function %q was not imported in %v: its log says where it was", p.title(), importTime)
	case err != nil:
		return fault.New("python.zygote", fault.Unavailable, "Python of function %q %s while it imported the program%s", p.title(), z.proc.Ended(err), z.output.LastWords())
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
		z.heard++
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

// show puts where the zygote is into its log.
func (z *zygote) show(p Program) {
	z.output.Drain()
	z.rt.say(z.owner, z.rt.stackOf(z.proc, z.stacks, p.Path))
}

// end kills the zygote. Workers go on.
func (z *zygote) end() {
	z.proc.Kill()
	<-z.proc.Gone
	if z.conn != nil {
		_ = z.conn.Close()
		_ = z.life.Close()
	}
	_ = os.Remove(z.stacks)
	z.output.Close()
}
