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

// watcher is the actor that stands in for a caller of WatchJob.
type watcher struct {
	log      *zap.Logger
	rim      actorkit.Rim
	journal  *actor.PID
	cursor   *messages.WatchJob
	on       func(*messages.JobEvent) // must not block
	cancelTk func()
}

// WatcherProps describes an actor that calls on, from its Receive, with each
// event of a job behind a cursor: in order, each once. On must not block. The
// cursor becomes the actor's.
func WatcherProps(log *zap.Logger, rim actorkit.Rim, journal *actor.PID, cursor *messages.WatchJob, on func(*messages.JobEvent)) *actor.Props {
	// cursor outlives a restart
	return actor.PropsFromProducer(func() actor.Actor {
		return &watcher{log: log, rim: rim, journal: journal, cursor: cursor, on: on}
	}, actor.WithReceiverMiddleware(actorkit.Guard))
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

// onJobEvent takes the event that comes next. The Journal leaves no gaps, so
// anything else is a repeat, or follows one that got lost and comes again.
func (w *watcher) onJobEvent(m *messages.JobEvent) {
	incarnation, seq := m.GetJob().GetIncarnation(), m.GetSeq()
	next := w.cursor.GetAfterSeq() + 1
	if incarnation > w.cursor.GetAfterIncarnation() {
		next = 1
	}
	if incarnation < w.cursor.GetAfterIncarnation() || seq != next {
		return
	}
	w.cursor.AfterIncarnation, w.cursor.AfterSeq = incarnation, seq
	if m.GetWhat() != nil { // an empty one stands for one that the Journal has dropped
		w.on(m)
	}
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
