package host

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// Runner runs attempts. The real one is Local; simulations have one that works
// on virtual time.
type Runner interface {
	// Starts reports whether the function of an attempt may take long to start,
	// and says when it has: then Began is called, once or not at all. It does no
	// I/O.
	Starts(inv *messages.Invoke) bool
	// Elsewhere reports whether that function runs where its slot is not, at an
	// endpoint: then what it does says nothing about the slot. It does no I/O.
	Elsewhere(inv *messages.Invoke) bool
	// Start begins an attempt on a slot and returns at once; no two run on a
	// slot at the same time. Done is called exactly once, and began before that,
	// from any goroutine, even before Start has returned: with an answer, which is
	// given away, or an error. The attempt is left unchanged. Cancel asks the attempt to end
	// soon, because its function has had its time (context.DeadlineExceeded) or
	// for another reason (context.Canceled); done is called nevertheless. It
	// may be called again, and late.
	Start(inv *messages.Invoke, slot int, began func(), done func(*messages.Invoked, error)) (cancel context.CancelCauseFunc)
}

// Local is the Runner of this machine: each attempt is executed on a goroutine
// of its own.
type Local struct {
	execute func(context.Context, *messages.Invoke, int, func()) (*messages.Invoked, error)
	starts  func(*messages.Invoke) bool
	far     func(*messages.Invoke) bool
	close   func() // what execute keeps open
	work    sync.WaitGroup
	running atomic.Int64
}

var _ Runner = (*Local)(nil)

// NewLocal returns the runner of what an Executor executes.
func NewLocal(e *Executor) *Local {
	return &Local{execute: e.Execute, starts: e.starts, far: e.elsewhere, close: e.splits.close}
}

// Starts implements Runner.
func (l *Local) Starts(inv *messages.Invoke) bool { return l.starts(inv) }

// Elsewhere implements Runner.
func (l *Local) Elsewhere(inv *messages.Invoke) bool { return l.far(inv) }

// Start implements Runner.
func (l *Local) Start(inv *messages.Invoke, slot int, began func(), done func(*messages.Invoked, error)) (cancel context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	l.running.Add(1)
	l.work.Go(func() {
		defer l.running.Add(-1)
		defer cancel(nil)
		returned := false
		defer func() {
			if !returned { // runtime.Goexit, which nothing can recover
				done(nil, fault.New("host.execute", fault.UserCode,
					"function %q ended its goroutine, as runtime.Goexit and t.FailNow do: return an error instead", inv.GetPlan().GetFunctionName()))
			}
		}()
		actorkit.Roomy(func() {
			answer, err := l.guarded(ctx, inv, slot, began)
			returned = true
			done(answer, err)
		})
	})
	return cancel
}

// Await returns once all attempts have returned, and closes the data that they
// shared; nothing may be started any more. It gives up when ctx ends:
// Unavailable, with the number of functions that do not return. They hold their
// goroutines for good.
func (l *Local) Await(ctx context.Context) error {
	defer l.close()
	returned := make(chan struct{})
	go func() {
		l.work.Wait()
		close(returned)
	}()
	select {
	case <-returned:
		return nil
	case <-ctx.Done():
		return fault.New("host.await", fault.Unavailable, "%d functions do not return though they were cancelled", l.running.Load())
	}
}

// guarded turns a panic, a bug of ours or of a runtime, into an error.
func (l *Local) guarded(ctx context.Context, inv *messages.Invoke, slot int, began func()) (answer *messages.Invoked, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, err = nil, fault.New("host.execute", fault.Unknown, "running function %q panicked: %v", inv.GetPlan().GetFunctionName(), p)
		}
	}()
	return l.execute(ctx, inv, slot, began)
}
