package actors

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/function"
)

// remotes is the runtime of functions that HTTP endpoints run.
type remotes struct {
	*remote.Runtime
	exchange *remote.Exchange
	merges   *merges
	loopback *remote.Loopback
	far      *farJobs        // of a node that does not lead; nil: jobs are served here
	waits    bool            // for serve, before anybody is called
	ctx      context.Context // ends with the company

	once   sync.Once
	served chan struct{} // closed once what follows is set
	at     JobsAt

	mu    sync.Mutex        // guards alone
	alone map[string]string // by job: where that one is served
}

// JobsAt is where Exchange is served, as endpoints see it.
type JobsAt struct {
	// URL returns that of a job: below it is what Exchange's Job handler serves.
	URL func(jobID string) string
	// Fingerprint is that of the authority, in lower-case hexadecimal, that has
	// signed the server's certificate; "" where that is none of its own.
	Fingerprint string
}

func newRemotes(ctx context.Context, cfg Config, warn func(string)) *remotes {
	r := &remotes{merges: newMerges(), waits: cfg.ServesJobs, ctx: ctx, served: make(chan struct{}), alone: map[string]string{}}
	next := r.merges.wait
	if cfg.Nodes.follows() {
		r.far = &farJobs{node: cfg.Node.Name, nodes: cfg.Nodes}
		next = r.far.wait
	}
	r.exchange = remote.NewExchange(next)
	r.loopback = remote.NewLoopback(r.exchange)
	r.Runtime = remote.New(remote.Config{
		Exchange: r.exchange, URL: r.url, Fingerprint: r.fingerprint, Log: cfg.Log, Warn: warn,
	})
	return r
}

// ready makes a version of a function known to the runtime.
func (r *remotes) ready(info function.Info, env map[string]string) error {
	return r.Register(host.FunctionKey(info.Name, info.Version, env), info.URLs...)
}

// serve says where the exchange is served. Only the first call counts.
func (r *remotes) serve(at JobsAt) {
	r.once.Do(func() {
		r.at = at
		close(r.served)
	})
}

// url returns where endpoints find a job. A company whose owner serves the
// exchange may have jobs before that does.
func (r *remotes) url(jobID string) (string, error) {
	if r.far != nil {
		return r.far.url(r.ctx, jobID)
	}
	select {
	case <-r.served:
		return r.at.URL(jobID), nil
	default:
	}
	r.mu.Lock()
	alone, ok := r.alone[jobID]
	r.mu.Unlock()
	if ok {
		return alone, nil
	}
	if !r.waits {
		return r.loopback.URL(jobID)
	}
	select {
	case <-r.served:
		return r.at.URL(jobID), nil
	case <-r.ctx.Done():
		return "", errClosed
	}
}

// fingerprint is what JobsAt says of the last url.
func (r *remotes) fingerprint() string {
	if r.far != nil {
		return r.far.fingerprint()
	}
	return r.at.Fingerprint
}

// Close implements functions.Runtime.
func (r *remotes) Close() error { return errors.Join(r.Runtime.Close(), r.loopback.Close()) }

// JobsHandler serves /jobs/{id}/… for endpoints of remote functions: Exchange, or
// the processes that jobs have of their own, or the node whose attempt it is.
func (c *Company) JobsHandler() http.Handler {
	here := http.Handler(c.remotes.exchange)
	if c.processes != nil {
		here = c.processes
	}
	if c.nodes == nil {
		return here
	}
	return newRelay(c.nodes.Client, here)
}

// Exchange is what endpoints of remote functions talk to; see ServeJobs.
func (c *Company) Exchange() *remote.Exchange { return c.remotes.exchange }

// ServeJobs says where the caller serves Exchange, until the company is closed. A
// company that was started without Config.ServesJobs needs none: it listens on a
// port of this machine once a job has a remote function.
func (c *Company) ServeJobs(at JobsAt) { c.remotes.serve(at) }

// ServeJob implements train.Standalone.
func (c *Company) ServeJob(id, url string) {
	c.remotes.mu.Lock()
	defer c.remotes.mu.Unlock()
	c.remotes.alone[id] = url
}

// ready makes a version of a function that the store has known to its runtime.
// NotFound, Corrupt; Unavailable where there is no Python for it.
func (c *Company) ready(ctx context.Context, name, version string, env map[string]string) error {
	if c.isReady(host.FunctionKey(name, version, env)) {
		return nil
	}
	info, err := c.programs.catalog.Get(ctx, name, version)
	if err != nil {
		return err
	}
	switch info.Runtime {
	case function.Python:
		return c.programs.ready(ctx, name, version, env)
	case function.Remote:
		return c.remotes.ready(info, env)
	}
	return fault.New("actors.ready", fault.Invalid, "the function %q is %s, which this troupe does not run: use a newer one", name, info.Runtime)
}
