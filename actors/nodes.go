package actors

import (
	"context"
	"net/http"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store"
)

// Nodes is what a company has to do with the other nodes of its cluster. All but
// Store, Labels and Version are required.
type Nodes struct {
	Directory Directory
	// Remote has the actors that are spawned from then on be reached by those of
	// other nodes.
	Remote func(*actor.ActorSystem) error
	// Open is given what other nodes may read here, the node's own plane and its
	// store, and returns a plane that opens refs of other nodes, too. That closes
	// local when it is closed.
	Open func(local plane.Space, bucket store.Store) plane.Space
	// Watch calls on with the nodes that are there, this one included, now and at
	// each change, until it is stopped. On does not block.
	Watch func(on func(nodes []string)) (stop func())

	// Serve has other nodes reach h from now on, below what their Client returns.
	Serve func(h http.Handler)
	// Client returns what reaches another node, and the URL that its Serve is at.
	Client func(node string) (*http.Client, string, error)

	// Store is that of the leader, for a node that follows one; it stays the
	// caller's to close. Nil: this node leads, and has Config.Node.Store.
	Store   store.Store
	Labels  map[string]string // what people say of this node
	Version string            // of this program
}

// follows reports whether another node leads.
func (n *Nodes) follows() bool { return n != nil && n.Store != nil }

// openStore opens the store that the node works in.
func (c *Company) openStore(cfg Config) (store.Store, error) {
	if cfg.Nodes.follows() {
		return cfg.Nodes.Store, nil
	}
	bucket, err := store.Open(context.Background(), cfg.Node.Store)
	if err == nil {
		c.closers = append(c.closers, bucket.Close)
	}
	return bucket, err
}

// openSpace opens the node's plane, which lies in scratch.
func (c *Company) openSpace(cfg Config) (scratch *plane.Scratch, err error) {
	if scratch, err = plane.OpenScratch(cfg.Node.Scratch, cfg.Node.Name, c.warn); err != nil {
		return nil, err
	}
	c.space = scratch
	if cfg.Nodes != nil {
		c.space = cfg.Nodes.Open(scratch, c.store)
	}
	c.closers = append(c.closers, c.space.Close)
	return scratch, nil
}

// meet has the Scheduler, where this node has it, know which nodes there are, and
// takes what those tell.
func (c *Company) meet(n *Nodes) {
	if n == nil {
		return
	}
	mux := http.NewServeMux()
	mux.Handle(jobsPath, c.remotes.exchange)
	if n.follows() {
		n.Serve(mux)
		return
	}
	mux.Handle("POST "+logsPath, newLogTaker(c.logs.add, c.printed))
	mux.HandleFunc("GET "+jobURLPath, c.remotes.tellURL)
	mux.HandleFunc("POST "+mergedPath, c.remotes.tellMerged)
	n.Serve(mux)
	stop := n.Watch(func(nodes []string) {
		c.system.Root.Send(c.tree.Scheduler, &messages.NodesListed{Nodes: nodes})
	})
	c.background.Go(func() {
		<-c.ctx.Done()
		stop()
	})
}

// bound returns a task as the Scheduler gets it: the functions of a job that has a
// process of its own run there, and endpoints that this machine alone can call are
// called from here.
func (c *Company) bound(t *messages.TrainTask) *messages.TrainTask {
	if c.nodes == nil {
		return t
	}
	t = proto.CloneOf(t)
	t.Node = ""
	if c.processes != nil || c.remotes.Near(host.FunctionKey(t.GetFunctionName(), t.GetFunctionVersion(), t.GetOptions().GetEnv())) {
		t.Node = c.jobs.owner.Node
	}
	return t
}

// prepare has the function of an attempt ready on this node, which may never have
// heard of it.
func (c *Company) prepare(ctx context.Context, plan *messages.RoundPlan) error {
	if plan.GetFunctionVersion() == "" {
		return nil // a built-in
	}
	if c.isReady(host.FunctionKey(plan.GetFunctionName(), plan.GetFunctionVersion(), plan.GetEnv())) {
		return nil
	}
	select { // one at a time: of one function there is one to be fetched
	case c.preparing <- struct{}{}:
		defer func() { <-c.preparing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return onNode(c.among, c.ready(ctx, plan.GetFunctionName(), plan.GetFunctionVersion(), plan.GetEnv()))
}

func (c *Company) isReady(key string) bool { return c.programs.Has(key) || c.remotes.Has(key) }

// printed notes that a function of a job has printed something on another node: what
// is kept of that goes, too, though the job may have ended long ago.
func (c *Company) printed(id string) {
	if v, ok := c.board.Job(id); !ok || v.GetResult() != nil {
		c.jobOver(id)
	}
}

// yieldFor is how long a node that leaves waits for the store to take its jobs' states.
const yieldFor = 10 * time.Second

// yield has the jobs of a node that leaves others go on elsewhere at once.
func (c *Company) yield() {
	if c.tree.Scheduler == nil {
		_ = c.system.Root.RequestFuture(c.tree.ParameterServer, &paramserver.Leave{}, yieldFor).Wait() // else they go on from what the store has
	}
}

// jobOver notes that a job has ended, and that what is kept of it here may go.
func (c *Company) jobOver(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = append(c.over, id)
}
