package actors

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/messages"
)

// watchAgain is how often a watcher tells the Journal where it is, which brings
// what got lost.
const watchAgain = time.Second

// watcher is the actor that stands in for a caller of WatchJob: it receives the
// job's events and puts each one, in order and once, into a queue.
type watcher struct {
	log      *zap.Logger
	rim      actorkit.Rim
	journal  *actor.PID
	cursor   *messages.WatchJob
	events   *eventQueue
	cancelTk func()
}

type watchTick struct{}

// Receive dispatches.
func (w *watcher) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, *watchTick:
		ctx.Request(w.journal, &messages.WatchJob{
			JobId: w.cursor.GetJobId(), AfterIncarnation: w.cursor.GetAfterIncarnation(), AfterSeq: w.cursor.GetAfterSeq(),
		})
		w.cancelTk = w.rim.SendAfter(watchAgain, ctx.Self(), &watchTick{})
	case *messages.JobEvent:
		w.onJobEvent(m)
	case *actor.Stopping:
		w.cancelTk()
	default:
		actorkit.Unhandled(w.log, ctx)
	}
}

func (w *watcher) onJobEvent(m *messages.JobEvent) {
	incarnation, seq := m.GetJob().GetIncarnation(), m.GetSeq()
	if incarnation < w.cursor.GetAfterIncarnation() || incarnation == w.cursor.GetAfterIncarnation() && seq <= w.cursor.GetAfterSeq() {
		return // a repeat
	}
	w.cursor.AfterIncarnation, w.cursor.AfterSeq = incarnation, seq
	w.events.put(m)
}

// eventQueue hands events from an actor, which must not wait, to a caller that
// may be slow.
type eventQueue struct {
	ready chan struct{} // holds a token while there may be events

	mu     sync.Mutex // guards events
	events []*messages.JobEvent
}

func newEventQueue() *eventQueue { return &eventQueue{ready: make(chan struct{}, 1)} }

func (q *eventQueue) put(e *messages.JobEvent) {
	q.mu.Lock()
	q.events = append(q.events, e)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns all events put since the last call.
func (q *eventQueue) take() []*messages.JobEvent {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.events
	q.events = nil
	return taken
}
