package journal

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/messages"
)

// The limits of what is kept, for tests of decisions.
const (
	EventsKept = eventsKept
	EventsHeld = eventsHeld
	EndedKept  = endedKept
	Patience   = patience
)

// State is what a journal keeps.
type State struct{ *state }

// NewState returns an empty one.
func NewState() State { return State{newState()} }

// Add takes an event.
func (s State) Add(e *messages.JobEvent) (answered uint64, shown []*messages.JobEvent, skipped uint64) {
	return s.add(e)
}

// Watch adds a watcher and reports whether it is new.
func (s State) Watch(id string, watcher *actor.PID) bool { return s.watch(id, watcher) }

// Unwatch drops a watcher.
func (s State) Unwatch(watcher *actor.PID) { s.unwatch(watcher) }

// After returns the events beyond a cursor.
func (s State) After(m *messages.WatchJob) []*messages.JobEvent { return s.after(m) }

// Check says which invariant is broken.
func (s State) Check() error { return s.check() }

// Jobs returns how many jobs something is kept of, and how many of them have ended.
func (s State) Jobs() (all, ended int) { return len(s.jobs), len(s.ended) }

// Kept returns how many events of a job are kept.
func (s State) Kept(id string) int { return len(s.jobs[id].events) }
