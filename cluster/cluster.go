package cluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/loopback"
	"github.com/troupe-ml/troupe/messages"
)

var (
	// ErrEvicted is behind the error of a node that the leader has given up while
	// it did not answer: others do its work.
	ErrEvicted = errors.New("the leader has given this node up")
	// ErrFenced is behind the error of a node that reaches too few of the others to
	// go on.
	ErrFenced = errors.New("this node reaches fewer than half of the nodes that it knows")
)

// Config is what a node needs to be one of a cluster.
type Config struct {
	Log      *zap.Logger     // required
	Identity *trust.Identity // required; with an Authority where the node leads

	// Listen is host:port of the node listener, over which all but actors' messages
	// goes; port 0: the last one if it is free, else any. Actors' messages go to
	// another port of that host: the next one, or any if the port is 0.
	Listen string
	// Advertise is the name or address by which other nodes reach this one; "": the
	// host of Listen, or where that is every address of this machine, the one from
	// which this node reaches the leader.
	Advertise string
	// Handler answers what other nodes ask over HTTP: the tensor plane, the objects
	// of the store. PeerOf says who asks. Nil: nothing. Paths below /cluster/ are the
	// cluster's own.
	Handler http.Handler
	// Waits is told why a node that joins does not reach the leader yet, at once and
	// again each while; nil: only the log is.
	Waits func(why error)
	// News is told what becomes of other nodes, once each time, from one goroutine at
	// a time; nil: only the log is. It must not block.
	News func(News)

	// What the others are told of this node. It must fit into 512 bytes: Invalid.
	HTTP    string            // URL of its API, "" where it has none
	Roles   []string          // what it does
	Slots   uint32            // functions that it runs at once
	Labels  map[string]string // of --node-label
	Version string            // of troupe
}

// Cluster is this node's part in a cluster. It is safe for concurrent use.
type Cluster struct {
	config Config
	id     *trust.Identity
	log    *zap.Logger
	boot   string

	listener  *listener
	servers   []*http.Server
	transport *transport
	links     *links
	gossip    *memberlist.Memberlist
	delegate  *delegate

	poked  chan struct{}
	reborn chan struct{} // somebody has answered as another life than the gossip knows
	stop   chan struct{}
	tasks  sync.WaitGroup
	ended  sync.Once

	mu       sync.Mutex // guards what follows
	facts    *messages.NodeFacts
	table    *table
	lease    *lease
	looked   time.Time        // when the table was last brought up to date
	known    map[string]place // where nodes were, this one not
	digest   uint64           // of what the gossip said last
	differ   map[string]bool  // addresses of nodes to whom it says something else
	clients  map[string]*client
	remote   *remoting
	changed  chan struct{} // closed at the next change of the table
	done     chan struct{} // closed with err
	err      error
	closed   bool
	watching sync.Mutex // held while watchers are called; guards watchers
	watchers map[int]func([]Member)
	watches  int
}

// place is where a node was.
type place struct {
	address string
	boot    string // of which the gossip says that
	seen    time.Time
}

// Start opens the node listener and finds the others; they do not see this node
// before Announce. A node that does not lead is in touch with the leader when
// Start returns, which tries until ctx ends. Conflict: the others have another
// Protocol, or the address is taken; Unavailable: the leader does not answer, or
// does not reach this node; Invalid.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	c := &Cluster{
		config: config, id: config.Identity, boot: rand.Text(),
		log:   config.Log.With(zap.String("node", config.Identity.Node())),
		poked: make(chan struct{}, 1), reborn: make(chan struct{}, 1), stop: make(chan struct{}),
		lease: newLease(), known: map[string]place{}, clients: map[string]*client{}, differ: map[string]bool{}, watchers: map[int]func([]Member){},
		changed: make(chan struct{}), done: make(chan struct{}),
	}
	life, err := c.id.NextLife()
	if err != nil {
		return nil, err
	}
	leads := c.id.Authority() != nil
	c.table = newTable(c.Self(), leads)
	c.facts = &messages.NodeFacts{
		Boot: c.boot, Life: life, Protocol: Protocol, Version: config.Version, Http: config.HTTP, Roles: config.Roles, Slots: config.Slots,
		Labels: config.Labels, Leader: leads, SharesStore: true, Remoting: "[2001:db8:1234:1234:1234:1234:1234:1234]:65535",
	}
	if n := proto.Size(c.facts) + 2; n > maxFacts {
		return nil, fault.New("cluster.start", fault.Invalid, "roles, labels and addresses of this node take %d bytes, above %d: give fewer or shorter --node-label", n, maxFacts)
	}
	c.facts.Remoting, c.facts.SharesStore = "", leads
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	if !leads {
		if err := c.find(ctx); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	c.tasks.Go(c.run)
	return c, nil
}

// open makes all that listens.
func (c *Cluster) open(ctx context.Context) error {
	inner, err := listen(c.config.Listen, c.id.Port())
	if err != nil {
		return err
	}
	port := inner.Addr().(*net.TCPAddr).Port
	address, err := resolve(ctx, c.advertised(inner), port)
	if err == nil {
		err = c.id.SetPort(port)
	}
	if err != nil {
		return errors.Join(err, inner.Close())
	}
	c.links = newLinks(c.id, c)
	c.transport = newTransport(c.id, c.links, c, address, c.log)
	c.delegate = &delegate{facts: c.meta, poke: c.poke, log: c.log, nodes: map[string]view{}}
	c.gossip, err = newGossip(c.Self(), c.id.GossipKey(), c.transport, c.delegate, c.log)
	if err != nil {
		c.links.close()
		return errors.Join(err, inner.Close())
	}
	d := doors{gossipProtocol: c.transport.accept, httpProtocol: c.serve(c.handler(), inner.Addr())}
	if a := c.id.Authority(); a != nil {
		d[trust.JoinProtocol] = c.serve(a.Joins(sparing(c.log), Protocol, c.config.Version), inner.Addr())
	}
	c.listener = newListener(inner, c.id.ListenTLS(gossipProtocol, httpProtocol), d, c.log)
	c.tasks.Go(c.listener.serve)
	return nil
}

// serve has a handler answer on connections that the listener lets in by the
// door that is returned.
func (c *Cluster) serve(h http.Handler, at net.Addr) func(*tls.Conn) {
	q, server := newQueue(at), newHTTPServer(h)
	server.ErrorLog = zap.NewStdLog(c.log)
	c.servers = append(c.servers, server)
	c.tasks.Go(func() { _ = server.Serve(q) }) // until it is closed
	return func(conn *tls.Conn) { q.give(secured{conn}) }
}

// advertised is the host by which others reach this node.
func (c *Cluster) advertised(l net.Listener) string {
	if c.config.Advertise != "" {
		return c.config.Advertise
	}
	at := l.Addr().(*net.TCPAddr)
	if !at.IP.IsUnspecified() {
		return at.IP.String()
	}
	candidates := loopback.Others() // the last resort: a network that leads nowhere else has no route
	for _, towards := range c.towards() {
		if conn, err := net.Dial("udp", towards); err == nil { // which sends nothing
			defer conn.Close()
			candidates = append([]net.IP{conn.LocalAddr().(*net.UDPAddr).IP}, candidates...)
			break
		}
	}
	for _, ip := range candidates {
		if at.IP.To4() == nil || ip.To4() != nil { // who listens on 0.0.0.0 is not reached over IPv6
			return ip.String()
		}
	}
	return "127.0.0.1"
}

// towards are addresses that tell by which of its own this machine is reached.
func (c *Cluster) towards() []string {
	leader, api := c.id.Leader()
	var out []string
	for _, address := range []string{leader, api, "192.0.2.1:9", "[2001:db8::1]:9"} { // the last are nobody's: what they take is a route
		if address != "" {
			out = append(out, address)
		}
	}
	return out
}

// meta is what the gossip carries of this node.
func (c *Cluster) meta() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := proto.Marshal(c.facts)
	if err != nil || len(b) > maxFacts {
		return nil // its size was checked
	}
	return b
}

// poke has the loop look.
func (c *Cluster) poke() {
	select {
	case c.poked <- struct{}{}:
	default:
	}
}

// Self is the id of this node.
func (c *Cluster) Self() string { return c.id.Node() }

// Address is host:port of this node's listener, as other nodes reach it.
func (c *Cluster) Address() string { return c.transport.address.String() }

// ShareStore has the others be told, by Announce, that this node works on the
// leader's bucket itself; one that leads does.
func (c *Cluster) ShareStore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.facts.SharesStore = true
}

// Announce shows this node to the others, who may send to its actors from then
// on: call it once they are spawned.
func (c *Cluster) Announce() {
	c.mu.Lock()
	c.facts.Announced = true
	c.mu.Unlock()
	_ = c.gossip.UpdateNode(writeTime) // who has not heard within that time will
	c.look(time.Now())
}

// Members lists the nodes that have announced themselves, this one included,
// by id. The caller owns the list.
func (c *Cluster) Members() []Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.table.list()
}

// Leader is the id of the node that leads, "" while none is known.
func (c *Cluster) Leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaderLocked().Node
}

func (c *Cluster) leaderLocked() Member {
	for _, m := range c.table.members {
		if m.Leader {
			return m
		}
	}
	return Member{}
}

func (c *Cluster) leaderAddress() string {
	if c.id.Authority() != nil {
		return c.Address()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaderLocked().Address
}

// Watch calls f with the list of Members, once now and again after each change of
// more than LastSeen, from one goroutine at a time, until stop is called; f is not
// called after that returned. F must not block, nor call stop.
func (c *Cluster) Watch(f func([]Member)) (stop func()) {
	c.watching.Lock()
	defer c.watching.Unlock()
	c.watches++
	n := c.watches
	c.watchers[n] = f
	f(c.Members())
	return func() {
		c.watching.Lock()
		defer c.watching.Unlock()
		delete(c.watchers, n)
	}
}

// Done is closed when this node may not go on: Err says why. Its work must end,
// then Close is due; it may join again with a Cluster of its own.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err is nil until Done: then behind it is ErrEvicted or ErrFenced.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// failLocked ends this node's part.
func (c *Cluster) failLocked(why error) {
	if c.err != nil || c.closed {
		return
	}
	next := "joins again"
	if c.table.leads {
		next = "is to be started again"
	}
	c.err = fault.New("cluster.run", fault.Unavailable, "%w: it ends its work, and %s", why, next)
	c.log.Warn("this node is out", zap.Error(why))
	close(c.done)
}

// Close says goodbye to the others and returns when nothing is left. The actors
// must have ended.
func (c *Cluster) Close() error {
	var err error
	c.ended.Do(func() {
		c.mu.Lock()
		c.closed = true
		var addresses []string
		for _, p := range c.known {
			addresses = append(addresses, p.address)
		}
		announced, remoting := c.facts.GetAnnounced(), c.remote
		var used []string
		if remoting != nil {
			used = slices.Collect(maps.Keys(remoting.used))
		}
		c.mu.Unlock()
		close(c.stop)
		if bye, marshals := proto.Marshal(&messages.Goodbye{Boot: c.boot}); marshals == nil && announced {
			for _, address := range addresses {
				c.links.send(address, frame(goodbyeFrame, bye))
			}
		}
		_ = c.gossip.Leave(writeTime / 10) // who does not hear it finds out
		if remoting != nil {
			remoting.close(used)
		}
		c.links.close()
		err = c.gossip.Shutdown()
		for _, server := range c.servers {
			err = errors.Join(err, server.Close())
		}
		c.listener.close()
		c.tasks.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		for node := range c.clients {
			c.dropClientLocked(node)
		}
	})
	return err
}
