package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	maxMessage = 16 << 20 // bytes of what is packed into one message between nodes
	// listingTime is how long an answer waits for the table to list whom it is
	// for: that node may have heard of us first.
	listingTime = 2 * time.Second
	portTries   = 5
)

// remoting is the actor library's, with our locks on its doors.
type remoting struct {
	system *actor.ActorSystem
	lib    *remote.Remote
	used   map[string]bool // addresses that the library may have an endpoint for
}

// Remote lets the actors of a system be reached by those of other nodes. It is
// called once, before any actor is spawned: the address of a PID is known only
// then. Conflict: the port after that of --node-listen is taken; Unavailable: the
// leader does not reach it.
func (c *Cluster) Remote(system *actor.ActorSystem) error {
	if err := c.startRemote(system); err != nil || c.id.Authority() != nil {
		return err
	}
	return c.reached()
}

func (c *Cluster) startRemote(system *actor.ActorSystem) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remote != nil || c.closed {
		return fault.New("cluster.remote", fault.Conflict, "actors can be reached already, or not any more")
	}
	host, _, err := net.SplitHostPort(c.config.Listen)
	if err != nil {
		return err // it was listened on
	}
	for range portTries {
		var port int
		if port, err = c.remotePort(host); err != nil {
			return err
		}
		address := joined(c.transport.address.IP, port)
		lib := remote.NewRemote(system, c.remoteConfig(system, host, port, address))
		if err = start(lib); err == nil {
			c.remote = &remoting{system: system, lib: lib, used: map[string]bool{}}
			c.facts.Remoting = address
			return nil
		}
	}
	return err
}

// remotePort is the one after an explicit --node-listen, so that people can open
// both; else one that is free now.
func (c *Cluster) remotePort(host string) (int, error) {
	port := 0
	if _, given, err := net.SplitHostPort(c.config.Listen); err == nil && given != "0" {
		port = c.transport.address.Port + 1
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return 0, fault.New("cluster.remote", fault.Conflict, "listen for actors on port %d, the one after --node-listen: %w", port, err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// start turns the library's panic, when it cannot listen, into an error.
func start(lib *remote.Remote) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fault.New("cluster.remote", fault.Unavailable, "listen for actors: %v", r)
		}
	}()
	lib.Start()
	return nil
}

func (c *Cluster) remoteConfig(system *actor.ActorSystem, host string, port int, address string) *remote.Config {
	g := &guard{log: sparing(c.log), address: address}
	config := remote.Configure(bracketed(host), port,
		remote.WithAdvertisedHost(address),
		remote.WithServerOptions(
			grpc.Creds(loud{credentials.NewTLS(c.id.ServerTLS()), sparing(c.log)}),
			grpc.UnaryInterceptor(g.unary), grpc.StreamInterceptor(g.stream),
			grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage),
			grpc.MaxConcurrentStreams(64), grpc.ConnectionTimeout(handshakeTime),
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true})),
		remote.WithDialOptions(
			grpc.WithTransportCredentials(credentials.NewTLS(c.id.ClientTLS(""))),
			grpc.WithContextDialer(c.dialRemoting), grpc.WithIdleTimeout(linkIdle), // what the library leaves behind falls asleep
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second})),
		remote.WithEndpointWriterBatchSize(8), remote.WithEndpointWriterQueueSize(1024), remote.WithEndpointManagerQueueSize(1024))
	config.MaxRetryCount = 1 // who sends asks again; the library keeps all else waiting meanwhile
	return config
}

// bracketed is a host as the library wants it, which writes a colon and the port
// behind it.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// dialRemoting connects to the actors of a node that is a member. What the
// library sends to another address is an answer to a node that is gone, or one
// that is not listed yet.
func (c *Cluster) dialRemoting(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	if !c.listed(ctx, address) {
		return nil, fmt.Errorf("no node that is there has its actors at %s", address)
	}
	return dialTCP(ctx, address)
}

// listed waits for an address to be that of a member.
func (c *Cluster) listed(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, listingTime)
	defer cancel()
	for {
		c.mu.Lock()
		is, changed := slices.ContainsFunc(c.table.list(), func(m Member) bool { return m.Remoting == address && m.Alive }), c.changed
		if is && c.remote != nil {
			c.remote.used[address] = true
		}
		c.mu.Unlock()
		if is {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// PID names an actor of a node, which may be this one. It is nil while Members
// does not list the node, or it is not Alive: nothing is to be sent there. Ask
// again before each message; a PID of an earlier life of the node is of no use.
func (c *Cluster) PID(node, name string) *actor.PID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remote == nil {
		return nil
	}
	if node == c.Self() {
		return c.remote.system.NewLocalPID(name)
	}
	m, is := c.table.members[node]
	if !is || !m.Alive || m.Remoting == "" {
		return nil
	}
	return actor.NewPID(m.Remoting, name)
}

// Nodes lists the nodes that PID finds actors of, by name.
func (c *Cluster) Nodes() []string {
	var out []string
	for _, m := range c.Members() {
		if m.Node == c.Self() || m.Alive && m.Remoting != "" {
			out = append(out, m.Node)
		}
	}
	return out
}

// gone has those who watch actors of a node hear that they are gone.
func (r *remoting) gone(address string) {
	r.system.EventStream.Publish(&remote.EndpointTerminatedEvent{Address: address})
}

// close cuts the actors off from those at the addresses that were used. The
// library's own end waits for seconds, and is not safe beside what still arrives;
// this leaves nothing that runs.
func (r *remoting) close(used []string) {
	for _, address := range used {
		r.gone(address)
	}
	r.lib.Shutdown(false)
}
