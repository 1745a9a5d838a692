package actorkit

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// MaxMessage bounds what goes to another node in one message, in bytes: what is
// behind a large one waits for it, and of several large ones that are packed
// together none would arrive.
const MaxMessage = 1 << 20

// Bounded has an actor send nothing to another node that is above MaxMessage, or is
// no protobuf message: it is as good as lost, which senders know, and in the log.
func Bounded(log *zap.Logger) actor.PropsOption {
	return actor.WithSenderMiddleware(func(next actor.SenderFunc) actor.SenderFunc {
		return func(ctx actor.SenderContext, to *actor.PID, envelope *actor.MessageEnvelope) {
			if to.GetAddress() != ctx.ActorSystem().Address() {
				m, ok := envelope.Message.(proto.Message)
				if size := proto.Size(m); !ok || size > MaxMessage {
					log.Error("message not sent", zap.String("actor", to.GetId()), zap.String("node", to.GetAddress()),
						zap.String("msg", fmt.Sprintf("%T", envelope.Message)), zap.Int("bytes", size))
					return
				}
			}
			next(ctx, to, envelope)
		}
	})
}
