package actorkit

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

const (
	// MaxMessage bounds what goes to another node in one message, in bytes: what is
	// behind a large one waits for it, and of several large ones that are packed
	// together none would arrive.
	MaxMessage = 1 << 20
	// maxPieces bounds the pieces of a message, and with it what a node keeps of
	// those that are not all there.
	maxPieces = 64
	// pieceRoom is what a Piece has beside its data, at most.
	pieceRoom = 96
)

// Split says how messages go to actors of other nodes.
type Split struct {
	Log   *zap.Logger
	Far   func(to *actor.PID) bool // whether an actor is on another node; nil: one of another system is
	Limit int                      // bytes of a message; 0: MaxMessage
}

// Option has an actor send messages to other nodes in pieces that are above the
// limit, and puts together those that it gets. A message of more than 64 pieces,
// or one that is no protobuf message, is not sent: it is as good as lost, which
// senders know, and in the log.
func (s Split) Option() actor.PropsOption {
	if s.Limit == 0 {
		s.Limit = MaxMessage
	}
	return func(props *actor.Props) {
		actor.WithSenderMiddleware(s.send)(props)
		j := &joiner{limit: maxPieces * s.Limit}
		actor.WithReceiverMiddleware(func(next actor.ReceiverFunc) actor.ReceiverFunc { return s.receive(j, next) })(props)
	}
}

func (s Split) isFar(ctx actor.SenderContext, to *actor.PID) bool {
	if s.Far != nil {
		return s.Far(to)
	}
	return to.GetAddress() != ctx.ActorSystem().Address()
}

func (s Split) send(next actor.SenderFunc) actor.SenderFunc {
	return func(ctx actor.SenderContext, to *actor.PID, envelope *actor.MessageEnvelope) {
		if !s.isFar(ctx, to) {
			next(ctx, to, envelope)
			return
		}
		m, ok := envelope.Message.(proto.Message)
		if ok && proto.Size(m) <= s.Limit {
			next(ctx, to, envelope)
			return
		}
		pieces, err := cut(m, ok, s.Limit-pieceRoom)
		if err != nil {
			s.Log.Error("message not sent", zap.String("actor", to.GetId()), zap.String("node", to.GetAddress()),
				zap.String("msg", fmt.Sprintf("%T", envelope.Message)), zap.Error(err))
			return
		}
		for _, p := range pieces {
			next(ctx, to, &actor.MessageEnvelope{Header: envelope.Header, Message: p, Sender: envelope.Sender})
		}
	}
}

// cut cuts a message into pieces of at most so many bytes of it.
func cut(m proto.Message, is bool, room int) ([]*messages.Piece, error) {
	if !is {
		return nil, fmt.Errorf("it is no message between nodes")
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	count := (len(data) + room - 1) / room
	if count > maxPieces {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(data), maxPieces*room)
	}
	digest := xxhash.Sum64(data)
	pieces := make([]*messages.Piece, count)
	for i := range pieces {
		lo := i * room
		pieces[i] = &messages.Piece{
			Type: string(m.ProtoReflect().Descriptor().FullName()), Digest: digest,
			Index: uint32(i), Count: uint32(count), Data: data[lo:min(lo+room, len(data))],
		}
	}
	return pieces, nil
}

func (s Split) receive(j *joiner, next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		p, ok := envelope.Message.(*messages.Piece)
		if !ok {
			next(ctx, envelope)
			return
		}
		whole, err := j.take(ctx.Self().GetId(), p)
		switch {
		case err != nil:
			s.Log.Error("message dropped: its pieces do not make one", zap.String("actor", ctx.Self().GetId()),
				zap.String("msg", p.GetType()), zap.String("from", envelope.Sender.GetId()), zap.Error(err))
		case whole != nil:
			next(ctx, &actor.MessageEnvelope{Header: envelope.Header, Message: whole, Sender: envelope.Sender})
		}
	}
}
