package cluster

import (
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// maxFacts is what memberlist carries of a node, in bytes.
const maxFacts = memberlist.MetaMaxSize

// newGossip starts the gossip of a node that nobody knows of yet.
func newGossip(node string, key []byte, t *transport, d *delegate, to *zap.Logger) (*memberlist.Memberlist, error) {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Transport, c.SecretKey = node, t, key
	c.AdvertiseAddr, c.AdvertisePort = t.address.IP.String(), t.address.Port
	c.BindAddr, c.BindPort = c.AdvertiseAddr, c.AdvertisePort
	// Found dead in two to three seconds; one that is stopped for one survives.
	c.ProbeInterval, c.ProbeTimeout, c.SuspicionMult = 500*time.Millisecond, 250*time.Millisecond, 3
	c.SuspicionMaxTimeoutMult = 2
	c.GossipInterval, c.PushPullInterval, c.TCPTimeout = 125*time.Millisecond, 15*time.Second, writeTime
	c.GossipToTheDeadTime = 10 * time.Second
	c.UDPBufferSize, c.EnableCompression = maxFrame/4, false // there is no UDP: links carry more
	c.DeadNodeReclaimTime = time.Millisecond                 // a node comes back at any address; until it is dead it cannot
	c.DelegateProtocolVersion, c.DelegateProtocolMin, c.DelegateProtocolMax = Protocol, Protocol, Protocol
	c.Delegate, c.Events, c.Conflict, c.Alive = d, d, d, d
	c.Logger = log.New(gossipLog{to}, "", 0)
	list, err := memberlist.Create(c)
	if err != nil {
		return nil, fault.New("cluster.gossip", fault.Unknown, "start the gossip: %w", err)
	}
	return list, nil
}

// delegate is what memberlist calls, under locks of its own: nothing here waits.
// It keeps which nodes the gossip takes for alive: memberlist's own list is not
// safe to read beside what arrives.
type delegate struct {
	facts func() []byte
	poke  func()
	log   *zap.Logger

	mu    sync.Mutex // guards nodes
	nodes map[string]view
}

var (
	_ memberlist.Delegate         = (*delegate)(nil)
	_ memberlist.EventDelegate    = (*delegate)(nil)
	_ memberlist.ConflictDelegate = (*delegate)(nil)
	_ memberlist.AliveDelegate    = (*delegate)(nil)
)

func (d *delegate) NodeMeta(int) []byte             { return d.facts() }
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}
func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.keep(n) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.keep(n) }

func (d *delegate) NotifyLeave(n *memberlist.Node) {
	d.mu.Lock()
	delete(d.nodes, n.Name)
	d.mu.Unlock()
	d.poke()
}

func (d *delegate) keep(n *memberlist.Node) {
	d.mu.Lock()
	d.nodes[n.Name] = view{node: n.Name, address: n.Address(), facts: readFacts(n.Meta)}
	d.mu.Unlock()
	d.poke()
}

// views are what the gossip says of all nodes that it takes for alive.
func (d *delegate) views() []view {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.nodes))
}

func (d *delegate) NotifyConflict(a, b *memberlist.Node) {
	d.log.Error("two nodes have one id: is a folder of certificates copied? start one of them with another --tls-dir",
		zap.String("peer", a.Name), zap.String("address", a.Address()), zap.String("other", b.Address()))
}

// NotifyAlive refuses what is no node of ours.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	f := readFacts(n.Meta)
	if f == nil {
		return errors.New("facts of a node are damaged")
	}
	if f.GetProtocol() != Protocol {
		return fmt.Errorf("node %s is troupe %s, which speaks protocol %d, not %d", n.Name, f.GetVersion(), f.GetProtocol(), Protocol)
	}
	return nil
}

// readFacts returns nil for what is none.
func readFacts(meta []byte) *messages.NodeFacts {
	f := &messages.NodeFacts{}
	if proto.Unmarshal(meta, f) != nil || f.GetBoot() == "" {
		return nil
	}
	return f
}

// gossipLog is where memberlist writes.
type gossipLog struct{ to *zap.Logger }

var _ io.Writer = gossipLog{}

func (g gossipLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	level, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimPrefix(rest, "memberlist: ")
	switch level {
	case "[ERR]", "[ERROR]":
		g.to.Warn("gossip", zap.String("says", rest)) // whom it is about is dead, or no node
	case "[WARN]":
		g.to.Info("gossip", zap.String("says", rest))
	default:
		g.to.Debug("gossip", zap.String("says", rest))
	}
	return len(line), nil
}
