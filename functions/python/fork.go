package python

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	startTime = 30 * time.Second // of a worker, from the order to fork it
	// forkTime is how long a zygote that has been told to fork may say nothing. It
	// does nothing else, and forks take milliseconds.
	forkTime = 5 * time.Second
)

// fork is a worker that was asked for.
type fork struct {
	exit   *child.Exit
	pid    int    // 0 = not forked yet
	orphan bool   // nobody waits for it
	heard  uint64 // what the zygote had said when it was last looked at
}

type toZygote struct {
	Fork forkRequest `json:"fork"`
}

type forkRequest struct {
	Token string `json:"token"`
	settings
}

// errZygoteDied says that another zygote may do better.
var errZygoteDied = errors.New("the process that forks workers ended")

// fork returns a new worker. An error that wraps errZygoteDied is the zygote's.
func (z *zygote) fork(ctx context.Context, name string, s settings, owner Line) (*worker, error) {
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	silence := time.NewTicker(forkTime)
	defer silence.Stop()
	a := z.rt.hub.expect(workerRoles()...)
	f := &fork{exit: child.NewExit()}
	z.mu.Lock()
	z.forks[a.token], f.heard = f, z.heard
	z.mu.Unlock()
	failed := func(format string, args ...any) (*worker, error) {
		z.abandon(a, f)
		return nil, fault.New("python.fork", fault.Unavailable, "start a worker for function %q: "+format, append([]any{name}, args...)...)
	}
	if err := z.send(toZygote{forkRequest{a.token, s}}); err != nil {
		return failed("%w: %w", errZygoteDied, err)
	}
	for arrived := false; !arrived; {
		select {
		case <-a.all:
			arrived = true
		case <-f.exit.Told:
			return failed("it %s before it was ready", child.Describe(f.exit.Status))
		case <-z.proc.Gone:
			return failed("%w", errZygoteDied)
		case <-silence.C:
			if z.silent(f) {
				return failed("%w: it said nothing for %v", errZygoteDied, forkTime)
			}
		case <-limit.C:
			return failed("it was not ready in %v", startTime)
		case <-ctx.Done():
			if outOfTime(ctx) && z.silent(f) { // lest the next attempt waits for it, too
				z.proc.Kill()
			}
			return failed("%w", context.Cause(ctx))
		}
	}
	w, err := z.rt.adopt(a, s, owner, func(done func()) (*child.Process, error) { return child.WatchForked(a.pid, f.exit, done) })
	if err != nil {
		return failed("%w", err)
	}
	return w, nil
}

// silent reports whether the zygote owes a fork and has said nothing since it
// was last looked at. One that forks others is only busy.
func (z *zygote) silent(f *fork) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	silent := f.pid == 0 && z.heard == f.heard
	f.heard = z.heard
	return silent
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
