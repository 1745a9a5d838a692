package actorkit

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
)

// Guard is receiver middleware for every Props. A panic while an actor stops or
// restarts would resurrect it or keep its watchers waiting for ever, so here it
// ends in the log.
func Guard(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		switch envelope.Message.(type) {
		case *actor.Stopping, *actor.Stopped, *actor.Restarting:
			defer func() {
				if r := recover(); r != nil {
					ctx.Logger().Error("teardown panicked", "actor", ctx.Self().GetId(), "error", fmt.Sprint(r))
				}
			}()
		}
		next(ctx, envelope)
	}
}

// Unhandled is the default case of every Receive: lifecycle messages are fine,
// and so is the answer that a request to an actor gets which is gone; anything
// else is a message sent to the wrong actor, which is a bug.
func Unhandled(log *zap.Logger, ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting, *actor.Terminated,
		*actor.DeadLetterResponse:
	default:
		log.DPanic("message not handled", zap.String("actor", ctx.Self().GetId()), zap.String("msg", fmt.Sprintf("%T", m)))
	}
}
