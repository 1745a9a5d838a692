package actorkit

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// NewSystem returns an actor system whose own log goes to log, warnings and
// errors only: at lower levels the library prints whole messages.
func NewSystem(log *zap.Logger) *actor.ActorSystem {
	if log.Core().Enabled(zap.InfoLevel) {
		log = log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	}
	core := log.Core()
	return actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(zapslog.NewHandler(core))
	}))
}
