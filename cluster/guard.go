package cluster

import (
	"context"
	"net"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/troupe-ml/troupe/cluster/trust"
)

const (
	receiveMethod = "/remote.Remoting/Receive" // the only one that nodes use
	ourMessages   = "troupe.messages."
)

// guard stands before the actor library, which believes whatever comes: it would
// stop any actor that a peer names, and die of a message that it does not know.
type guard struct {
	log     *zap.Logger
	address string // of this node's actors
}

// unary refuses the library's administrative calls.
func (g *guard) unary(ctx context.Context, _ any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	g.log.Warn("call refused", zap.String("peer", nodeOf(ctx)), zap.String("method", info.FullMethod))
	return nil, status.Errorf(codes.PermissionDenied, "%s is not for nodes", info.FullMethod)
}

// stream lets messages through that an actor may get from another node.
func (g *guard) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	node := nodeOf(s.Context())
	if info.FullMethod != receiveMethod {
		g.log.Warn("call refused", zap.String("peer", node), zap.String("method", info.FullMethod))
		return status.Errorf(codes.PermissionDenied, "%s is not for nodes", info.FullMethod)
	}
	defer func() {
		if r := recover(); r != nil {
			g.log.Error("stream cut: a message has made the actor library panic", zap.String("peer", node), zap.Any("panic", r))
			err = status.Errorf(codes.Internal, "panic: %v", r)
		}
	}()
	return next(srv, &filtered{ServerStream: s, guard: g, node: node})
}

// filtered is a stream without what is not for actors.
type filtered struct {
	grpc.ServerStream
	guard *guard
	node  string
}

func (f *filtered) RecvMsg(into any) error {
	if err := f.ServerStream.RecvMsg(into); err != nil {
		return err
	}
	message, ok := into.(*remote.RemoteMessage)
	if !ok {
		return status.Error(codes.InvalidArgument, "that is no message between nodes")
	}
	if batch := message.GetMessageBatch(); batch != nil {
		kept := batch.Envelopes[:0]
		for _, e := range batch.Envelopes {
			if why := f.guard.refuses(batch, e); why != "" {
				f.guard.log.Warn("message dropped", zap.String("peer", f.node), zap.String("reason", why))
				continue
			}
			kept = append(kept, e)
		}
		batch.Envelopes = kept
	}
	return nil
}

// refuses says why an envelope is not for an actor of this node, or "".
func (g *guard) refuses(b *remote.MessageBatch, e *remote.MessageEnvelope) string {
	switch {
	case e == nil, e.TypeId < 0, int(e.TypeId) >= len(b.TypeNames), e.Target < 0, int(e.Target) >= len(b.Targets),
		e.Sender < 0, int(e.Sender) > len(b.Senders), e.SerializerId != 0:
		return "its numbers point nowhere"
	case b.Targets[e.Target].GetAddress() != g.address:
		return "it is for another node, or an earlier life of this one"
	}
	name := b.TypeNames[e.TypeId]
	if !permitted(name) {
		return "no node may send a " + name
	}
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		return "this version knows no " + name
	}
	m := kind.New().Interface()
	if err := proto.Unmarshal(e.MessageData, m); err != nil {
		return "it is a damaged " + name
	}
	switch m := m.(type) {
	case *actor.Watch:
		return nobody(m.GetWatcher())
	case *actor.Unwatch:
		return nobody(m.GetWatcher())
	case *actor.Terminated:
		return nobody(m.GetWho())
	}
	return ""
}

// nobody says that an actor that must be named is not.
func nobody(pid *actor.PID) string {
	if pid.GetAddress() == "" || pid.GetId() == "" {
		return "it names no actor"
	}
	return ""
}

// permitted reports whether a message of that type may come from another node:
// ours, and what the library needs to watch. Stop and PoisonPill are not among
// them, nor what spawns.
func permitted(name string) bool {
	switch name {
	case "actor.Watch", "actor.Unwatch", "actor.Terminated", "actor.DeadLetterResponse":
		return true
	}
	return strings.HasPrefix(name, ourMessages)
}

// nodeOf is the node that calls.
func nodeOf(ctx context.Context) string {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return ""
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		return trust.PeerOf(info.State)
	}
	return ""
}

// loud are credentials that say in the log whom they refuse.
type loud struct {
	credentials.TransportCredentials
	log *zap.Logger
}

// ServerHandshake implements credentials.TransportCredentials.
func (l loud) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	watch(conn)
	secured, info, err := l.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		l.log.Warn("connection refused", zap.Stringer("remote", conn.RemoteAddr()), zap.Error(err))
	}
	return secured, info, err
}

// Clone implements credentials.TransportCredentials.
func (l loud) Clone() credentials.TransportCredentials {
	return loud{l.TransportCredentials.Clone(), l.log}
}
