package actorkit

import (
	"context"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// NewSystem returns an actor system whose own log goes to log, warnings and
// errors only: at lower levels the library prints whole messages. None of it is
// more than a warning: what breaks between nodes is for us to make good.
func NewSystem(log *zap.Logger) *actor.ActorSystem {
	if log.Core().Enabled(zap.InfoLevel) {
		log = log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	}
	core := log.Core()
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(sober{zapslog.NewHandler(core)})
	}))
}

// sober is a handler to which nothing is an error.
type sober struct{ slog.Handler }

// Handle implements slog.Handler.
func (s sober) Handle(ctx context.Context, r slog.Record) error {
	r.Level = min(r.Level, slog.LevelWarn)
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s sober) WithAttrs(attrs []slog.Attr) slog.Handler { return sober{s.Handler.WithAttrs(attrs)} }

// WithGroup implements slog.Handler.
func (s sober) WithGroup(name string) slog.Handler { return sober{s.Handler.WithGroup(name)} }
