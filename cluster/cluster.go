package cluster

import (
	"context"
	"net/http"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
)

// Config is what a node needs to be one of a cluster.
type Config struct {
	Log      *zap.Logger     // required
	Identity *trust.Identity // required

	// Listen is host:port of the node listener, over which all but actors' messages
	// goes; port 0: one that is free, the last one if it is. The host is also that
	// of the listener for actors' messages.
	Listen string
	// Advertise is the name or address by which other nodes reach this one; "": that
	// of Listen, or the first address of this machine.
	Advertise string
	// Handler answers what other nodes ask over HTTP: the tensor plane, the objects
	// of the store. PeerOf says who asks. Nil: nothing. Paths below /cluster/ are the
	// cluster's own.
	Handler http.Handler

	// What the others are told of this node. Together at most about 350 bytes: Invalid.
	HTTP        string            // URL of its API, "" where it has none
	Roles       []string          // what it does
	Slots       uint32            // functions that it runs at once
	Labels      map[string]string // of --node-label
	Version     string            // of troupe
	SharesStore bool              // it works on the leader's bucket itself
}

// Cluster is this node's part in a cluster. It is safe for concurrent use.
type Cluster struct {
	done chan struct{}
}

// Start opens the node listener and finds the others; they do not see this node
// before Announce. A node that is not the leader is in touch with it when Start
// returns. Conflict: the others have another Protocol, or the address is taken;
// Unavailable: the leader does not answer, or does not reach this node; Invalid.
func Start(ctx context.Context, c Config) (*Cluster, error) {
	return nil, fault.New("cluster.start", fault.Unavailable, "this build knows of one node only")
}

// Self is the id of this node.
func (c *Cluster) Self() string { return "" }

// Address is host:port of this node's listener, as other nodes reach it.
func (c *Cluster) Address() string { return "" }

// Remote lets the actors of a system be reached by those of other nodes. It is
// called once, before any actor is spawned: the address of a PID is known only
// then. Unavailable: no port is free.
func (c *Cluster) Remote(system *actor.ActorSystem) error { return nil }

// Announce shows this node to the others, who may send to its actors from then
// on: call it once they are spawned.
func (c *Cluster) Announce() {}

// Members lists the nodes that have announced themselves, this one included,
// by id. The caller owns the list.
func (c *Cluster) Members() []Member { return nil }

// Watch calls f with the list of Members, once now and again after each change of
// more than LastSeen, from one goroutine, until stop is called; f is not called
// after that returned. F must not block, nor call stop.
func (c *Cluster) Watch(f func([]Member)) (stop func()) { return func() {} }

// Leader is the id of the node that leads, "" while none is known.
func (c *Cluster) Leader() string { return "" }

// PID names an actor of a node, which may be this one. It is nil while Members
// does not list the node, or it is not Alive: nothing is to be sent there. Ask
// again before each message; a PID of an earlier life of the node is of no use.
func (c *Cluster) PID(node, name string) *actor.PID { return nil }

// Client returns what reaches the Handler of another node, and the URL that paths
// are appended to: HTTP/1.1 over TLS of both sides, to that very node. Its
// connections are shared with other callers and close with the cluster. NotFound
// while Members does not list the node.
func (c *Cluster) Client(node string) (client *http.Client, baseURL string, err error) {
	return nil, "", nil
}

// PeerOf is the id of the node that has sent a request to a Handler, as its
// certificate says.
func PeerOf(r *http.Request) string { return "" }

// Done is closed when this node may not go on: Err says why. Its work must end,
// then Close is due; it may join again with a Cluster of its own.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err is nil until Done: then behind it is ErrEvicted or ErrFenced.
func (c *Cluster) Err() error { return nil }

// Close says goodbye to the others and returns when nothing is left.
func (c *Cluster) Close() error { return nil }
