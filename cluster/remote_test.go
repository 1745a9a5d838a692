package cluster_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/messages"
)

// mad is a node that has a certificate and sends what it likes to the actors of
// another one.
type mad struct {
	at     string // of those actors
	client remote.RemotingClient
}

func newMad(t *testing.T, at string, config *tls.Config) mad {
	t.Helper()
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return mad{at: at, client: remote.NewRemotingClient(conn)}
}

// send opens a stream and sends a batch over it. It returns what the other end
// says to that: nil while it keeps the stream.
func (m mad) send(t *testing.T, batch *remote.MessageBatch) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := m.client.Receive(ctx)
	require.NoError(t, err)
	greeting := &remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{ConnectRequest: &remote.ConnectRequest{
		ConnectionType: &remote.ConnectRequest_ServerConnection{ServerConnection: &remote.ServerConnection{SystemId: "mad", Address: "127.0.0.1:1"}},
	}}}
	require.NoError(t, stream.Send(greeting))
	if _, err := stream.Recv(); err != nil {
		return err
	}
	require.NoError(t, stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: batch}}))
	require.NoError(t, stream.CloseSend())
	_, err = stream.Recv()
	if err == io.EOF {
		return nil
	}
	return err
}

// one is a batch of one message to the echo.
func (m mad) one(t *testing.T, kind string, message proto.Message) *remote.MessageBatch {
	t.Helper()
	data, err := proto.Marshal(message)
	require.NoError(t, err)
	return &remote.MessageBatch{
		TypeNames: []string{kind}, Targets: []*actor.PID{{Address: m.at, Id: "echo"}}, Envelopes: []*remote.MessageEnvelope{{MessageData: data}},
	}
}

func TestActorsAreReachedByNodesAlone(t *testing.T) {
	l, nodes := company(t, 1)
	at := find(l.members(t, l.first.Self), l.first.Self).Remoting
	boot := nodes[0].members(t, nodes[0].first.Self)
	for name, config := range map[string]*tls.Config{
		"plain text":     nil,
		"no certificate": {InsecureSkipVerify: true, NextProtos: []string{"h2"}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", at)
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
			if config != nil {
				conn = tls.Client(conn, config)
			}
			_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
			requireCut(t, conn)
		})
	}
	require.Equal(t, "hi "+l.first.Self, nodes[0].call(t, l.first.Self))
	require.Equal(t, boot[0].Boot, nodes[0].members(t, nodes[0].first.Self)[0].Boot)
}

func TestGarbageForActorsIsDropped(t *testing.T) {
	l, nodes := company(t, 1)
	a, err := trust.OpenAuthority(l.config.Dir)
	require.NoError(t, err)
	token, err := a.CreateToken("mad")
	require.NoError(t, err)
	id, err := trust.Join(t.Context(), trust.Newcomer{
		Dir: filepath.Join(l.config.Dir, "mad"), Machine: "mad", Token: token, API: l.first.API, Protocol: cluster.Protocol, Version: "test",
	})
	require.NoError(t, err)
	defer id.Close()
	at := find(l.members(t, l.first.Self), l.first.Self).Remoting
	m := newMad(t, at, id.ClientTLS(""))

	_, err = m.client.ListProcesses(t.Context(), &remote.ListProcessesRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	_, err = m.client.GetProcessDiagnostics(t.Context(), &remote.GetProcessDiagnosticsRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err))

	good := &messages.Beat{}
	change := func(f func(*remote.MessageBatch)) *remote.MessageBatch {
		b := m.one(t, "troupe.messages.Beat", good)
		f(b)
		return b
	}
	for name, batch := range map[string]*remote.MessageBatch{
		"stop":                   m.one(t, "actor.Stop", &actor.Stop{}),
		"poison":                 m.one(t, "actor.PoisonPill", &actor.PoisonPill{}),
		"spawn":                  m.one(t, "remote.ActorPidRequest", &remote.ActorPidRequest{Name: "x", Kind: "y"}),
		"unknown to all":         m.one(t, "nobody.Knows", good),
		"unknown to this one":    m.one(t, "troupe.messages.FromTheFuture", good),
		"no name":                m.one(t, "", good),
		"watched by nobody":      m.one(t, "actor.Watch", &actor.Watch{}),
		"nobody ends":            m.one(t, "actor.Terminated", &actor.Terminated{}),
		"a kind that is not":     change(func(b *remote.MessageBatch) { b.Envelopes[0].TypeId = 7 }),
		"a kind below zero":      change(func(b *remote.MessageBatch) { b.Envelopes[0].TypeId = -1 }),
		"a target that is not":   change(func(b *remote.MessageBatch) { b.Envelopes[0].Target = 7 }),
		"a sender that is not":   change(func(b *remote.MessageBatch) { b.Envelopes[0].Sender = 7 }),
		"another serializer":     change(func(b *remote.MessageBatch) { b.Envelopes[0].SerializerId = 7 }),
		"damaged":                change(func(b *remote.MessageBatch) { b.Envelopes[0].MessageData = []byte{0xff} }),
		"for another node":       change(func(b *remote.MessageBatch) { b.Targets[0].Address = "127.0.0.1:1" }),
		"for nobody":             change(func(b *remote.MessageBatch) { b.Targets[0].Id = "nobody" }),
		"nothing":                {},
		"an actor of the system": change(func(b *remote.MessageBatch) { b.Targets[0].Id = "EndpointSupervisor" }),
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, m.send(t, batch), "it is dropped, and the stream goes on") })
	}
	require.Equal(t, "hi "+l.first.Self, nodes[0].call(t, l.first.Self), "the actor lives")
	require.Len(t, l.members(t, l.first.Self), 2)
}
