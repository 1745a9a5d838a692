package testkit

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Epoch is the time at which every simulation begins.
var Epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// rim is the Rim of simulated actors.
type rim struct{ sim *Sim }

var _ actorkit.Rim = rim{}

// Now implements actorkit.Rim.
func (r rim) Now() time.Time { return r.sim.Now() }

// SendAfter implements actorkit.Rim.
func (r rim) SendAfter(d time.Duration, to *actor.PID, msg any) (cancel func()) {
	s := r.sim
	t := s.after(d, entry{kind: carry, from: fromRim, to: to, payload: msg})
	return func() {
		if t.index >= 0 {
			heap.Remove(&s.timers, t.index)
		}
	}
}

// Go implements actorkit.Rim.
func (r rim) Go(to *actor.PID, do func() any) {
	e := entry{kind: work, from: fromRim, to: to, payload: do}
	if r.sim.Work != nil && !r.sim.closing {
		if takes := r.sim.Work(to); takes > 0 {
			r.sim.after(takes, e)
			return
		}
	}
	r.sim.toss(e)
}

// perform runs slow work and sends what it returns.
func (s *Sim) perform(e entry) {
	result := run(e.payload.(func() any))
	e.kind, e.payload = carry, result
	if slow, ok := result.(interface{ Took() time.Duration }); ok && slow.Took() > 0 {
		s.after(slow.Took(), e)
		return
	}
	s.toss(e)
}

func run(do func() any) (result any) {
	defer func() {
		if p := recover(); p != nil {
			result = &actorkit.WorkPanicked{Err: fault.New("testkit.go", fault.Unknown, "work panicked: %s", fmt.Sprint(p))}
		}
	}()
	return do()
}

// after puts an entry into the pool once d has passed.
func (s *Sim) after(d time.Duration, e entry) *timer {
	s.set++
	t := &timer{at: s.elapsed + max(d, 0), seq: s.set, entry: e}
	if s.closing {
		t.index = -1
		return t
	}
	heap.Push(&s.timers, t)
	return t
}

// release puts what is due into the pool.
func (s *Sim) release() {
	for len(s.timers) > 0 && s.timers[0].at <= s.elapsed {
		e := heap.Pop(&s.timers).(*timer).entry
		if e.ordered {
			e.ordered = false
			s.push(e)
			continue
		}
		s.toss(e)
	}
}

// moveTo moves the clock forward.
func (s *Sim) moveTo(at time.Duration) {
	if at > s.elapsed {
		s.elapsed, s.instant = at, 0
	}
}

// timer is an entry that waits for its time.
type timer struct {
	at    time.Duration
	seq   uint64 // breaks ties: first set, first fired
	index int    // in timers; -1 once it has fired or was cancelled
	entry entry
}

// timers is a heap.
type timers []*timer

func (h timers) Len() int { return len(h) }

func (h timers) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timers) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
