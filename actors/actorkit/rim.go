package actorkit

import (
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Rim is where an actor touches the world: time and slow work. The real one is
// NewRim; simulations have one with a virtual clock and no goroutines.
type Rim interface {
	// Now returns the current time.
	Now() time.Time
	// SendAfter sends msg to an actor once d has passed, unless cancelled
	// first. A timer that fires late is normal: msg says what it was set for.
	SendAfter(d time.Duration, to *actor.PID, msg any) (cancel func())
	// Go runs work off the actor, which must not touch the actor's fields or
	// context in it, and sends what it returns to the actor. Work that panics
	// sends a *WorkPanicked.
	Go(to *actor.PID, work func() any)
}

// WorkPanicked is what Rim.Go sends for work that panicked.
type WorkPanicked struct {
	Err error // of kind Unknown: a bug of ours
}

// NewRim returns the Rim of a running actor system. Close waits for its work.
func NewRim(system *actor.ActorSystem) *SystemRim {
	return &SystemRim{system: system, timers: map[*pending]struct{}{}}
}

// SystemRim is the real Rim. It is safe for concurrent use.
type SystemRim struct {
	system *actor.ActorSystem
	work   sync.WaitGroup

	mu     sync.Mutex // guards timers, closed
	timers map[*pending]struct{}
	closed bool
}

// pending is a timer that has neither fired nor been cancelled. Its address
// names it, because a short timer may fire before it is known here.
type pending struct{ timer *time.Timer }

var _ Rim = (*SystemRim)(nil)

// Now implements Rim.
func (r *SystemRim) Now() time.Time { return time.Now() }

// SendAfter implements Rim. A message that is due is sent at once: a timer of no
// length would cost a goroutine.
func (r *SystemRim) SendAfter(d time.Duration, to *actor.PID, msg any) (cancel func()) {
	if d <= 0 {
		r.sendNow(to, msg)
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return func() {}
	}
	p := &pending{}
	r.timers[p] = struct{}{}
	p.timer = time.AfterFunc(d, func() {
		if r.forget(p) {
			r.system.Root.Send(to, msg)
		}
	})
	return func() {
		p.timer.Stop()
		r.forget(p)
	}
}

func (r *SystemRim) sendNow(to *actor.PID, msg any) {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if !closed {
		r.system.Root.Send(to, msg)
	}
}

// Go implements Rim.
func (r *SystemRim) Go(to *actor.PID, work func() any) {
	r.work.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				r.system.Root.Send(to, &WorkPanicked{Err: fault.New("actorkit.go", fault.Unknown, "work panicked: %v", p)})
			}
		}()
		Roomy(func() { r.system.Root.Send(to, work()) })
	})
}

// Close stops every timer and returns once all work has ended.
func (r *SystemRim) Close() {
	r.mu.Lock()
	r.closed = true
	for p := range r.timers {
		p.timer.Stop()
	}
	clear(r.timers)
	r.mu.Unlock()
	r.work.Wait()
}

// forget drops a timer and reports whether it was still wanted.
func (r *SystemRim) forget(p *pending) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, wanted := r.timers[p]
	delete(r.timers, p)
	return wanted
}

// Panicked turns the panic value of an actor into an error.
func Panicked(reason any) error {
	if err, ok := reason.(error); ok {
		return err
	}
	return fault.New("actorkit.supervise", fault.Unknown, "actor panicked: %s", fmt.Sprint(reason))
}
