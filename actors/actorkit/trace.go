package actorkit

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
)

// Trace is receiver middleware that logs each message at debug level: who gets
// what from whom. It costs nothing that matters while debug is off, because
// then it is not there: Options leaves it out.
func Trace(log *zap.Logger) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
			log.Debug("message", zap.String("actor", ctx.Self().GetId()),
				zap.String("msg", fmt.Sprintf("%T", envelope.Message)), zap.String("from", envelope.Sender.GetId()))
			next(ctx, envelope)
		}
	}
}

// Options returns what every actor of a company has: a stack with room, and
// Trace, when log wants it.
func Options(log *zap.Logger) []actor.PropsOption {
	options := []actor.PropsOption{actor.WithDispatcher(dispatcher{})}
	if log.Core().Enabled(zap.DebugLevel) {
		options = append(options, actor.WithReceiverMiddleware(Trace(log)))
	}
	return options
}
