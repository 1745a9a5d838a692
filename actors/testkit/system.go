package testkit

import (
	"context"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
)

// newSystem returns an actor system that starts no goroutine: the library's
// own dead letter log would start one that looks at the real clock. What it
// answers to the senders of dead letters is done here in its place.
func newSystem(s *Sim) *actor.ActorSystem {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(&testLog{sim: s})
	}))
	system.EventStream = eventstream.NewEventStream()
	system.EventStream.Subscribe(s.onDeadLetter)
	system.Root.WithSenderMiddleware(s.intercept).WithSpawnMiddleware(s.adoptRoot)
	return system
}

// onDeadLetter answers a request to an actor that is gone, and a Watch of one,
// as the library does.
func (s *Sim) onDeadLetter(event any) {
	dead, ok := event.(*actor.DeadLetterEvent)
	if !ok {
		return
	}
	if dead.Sender != nil {
		s.push(entry{kind: carry, from: fromSystem, to: dead.Sender, payload: &actor.DeadLetterResponse{}})
	}
	if watch, ok := dead.Message.(*actor.Watch); ok {
		if watcher, ok := s.system.ProcessRegistry.Get(watch.Watcher); ok {
			watcher.SendSystemMessage(watch.Watcher, &actor.Terminated{Who: dead.PID, Why: actor.TerminatedReason_NotFound})
		}
	}
}

// testLog writes the warnings and errors of the actor system to the test's log.
type testLog struct {
	sim   *Sim
	attrs []slog.Attr
}

var _ slog.Handler = (*testLog)(nil)

func (l *testLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *testLog) Handle(_ context.Context, r slog.Record) error {
	attrs := append([]slog.Attr(nil), l.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	l.sim.t.Logf("%v: %s %v", l.sim.elapsed, r.Message, attrs)
	return nil
}

func (l *testLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &testLog{sim: l.sim, attrs: append(append([]slog.Attr(nil), l.attrs...), attrs...)}
}

func (l *testLog) WithGroup(string) slog.Handler { return l }
