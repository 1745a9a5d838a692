// Package actors is the company of actors on one node: tree.go spawns them, and
// Company is how the rest of the program talks to them.
package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/board"
	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/jobprocess"
	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/isolate"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/claim"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
	"github.com/troupe-ml/troupe/store/job"
	"github.com/troupe-ml/troupe/store/model"
)

// askAgain is how long a caller waits for an answer before it asks again; every
// command may be repeated.
const askAgain = time.Second

const (
	// leaveGap is how often a node that leaves looks whether it may go.
	leaveGap = 50 * time.Millisecond
	// leaveLooks is how many of these looks in a row it waits for one that leads.
	leaveLooks = 40
)

// functionPatience is how long Close waits for functions to heed the end of
// their context, which they have to within a second.
const functionPatience = 2 * time.Second

var errClosed = fault.New("actors.ask", fault.Unavailable, "the company is closed")

// Config says what a company is made of.
type Config struct {
	Log       *zap.Logger       // required
	Node      config.Node       // see config.DefaultNode
	Functions []native.Function // the user's own, beside the built-in ones
	Server    bool              // jobs survive this process: it goes on with those that the last one left
	Address   string            // where a server can be reached, for people
	// Warn gets what people should know of the node, and not of one job; nil: those
	// who watch or submit one get it.
	Warn func(text string)
	// ServesJobs says that the caller serves Exchange, and says where by ServeJobs:
	// remote functions wait for that.
	ServesJobs bool
	Lines      func(python.Line) // gets each line that programs print; nil: the store alone does
	// JobCommand runs one job in a process of its own, for Node.Jobs "process".
	JobCommand jobprocess.Command
	// Served says that this is such a process: a server queues its job, grants its
	// slots (OfferSlots), and keeps what happens to it.
	Served bool
	// Nodes has the company work with other nodes; nil: it is alone.
	Nodes *Nodes
}

// Company is the running actors of one node. It is safe for concurrent use.
type Company struct {
	log        *zap.Logger
	system     *actor.ActorSystem
	rim        *actorkit.SystemRim
	load       *actorkit.Load
	tree       *Tree
	at         places // where the actors of all nodes are
	native     *native.Runtime
	natives    functions.Runtime // runs what native has, here or in other processes
	programs   *programs
	remotes    *remotes
	logs       *jobLogs
	sender     *logSender           // of what is printed here; nil: this node keeps the logs
	print      func(python.Line)    // takes what functions print
	processes  *jobprocess.Launcher // of jobs; nil: they have none of their own
	runner     *host.Local
	store      store.Store
	space      plane.Space
	nodes      *Nodes        // the others; nil: there are none
	directory  Directory     // of those; nil: there is none
	among      string        // the name of this node among those, "" where there are none
	preparing  chan struct{} // holds a token while a function is made ready
	datasets   *dataset.Catalog
	cache      *cache.Cache // of data sets and models on this machine
	models     *results
	jobs       *Jobs
	catalog    *job.Catalog
	board      *board.Board
	events     *eventLog    // nil: a server keeps them, and what was asked of jobs
	listing    *listing     // of the jobs that a server goes on with; nil: it is none
	served     bool         // it is the process of one job of a server
	tell       func(string) // gets the warnings of the node; nil: who watches or submits a job
	slots      int
	term       uint64          // of this server's reign
	offers     atomic.Uint64   // of slots, so far
	background sync.WaitGroup  // what runs beside the actors
	closers    []func() error  // in the order of opening
	ctx        context.Context // ends with the company; its cause is why
	end        context.CancelCauseFunc
	close      func() error

	mu       sync.Mutex // guards the rest
	warnings []string   // that nobody has been given yet
	watching map[*eventQueue]bool
	over     []string          // jobs that have ended since logs were looked at
	resumed  map[string]uint64 // by job: the incarnation before it was resumed here
	takenUp  map[string]uint64 // by job: the incarnation that ran when it was taken up here
}

var _ train.Company = (*Company)(nil)

// Start opens the node's store and scratch and spawns its actors. The caller
// closes the company. Errors: Invalid (the configuration or a function),
// Conflict (two functions of one name), Unavailable (scratch or store).
//
// In a process that is there to run isolated functions it runs those, and never
// returns; see Isolated.
func Start(cfg Config) (_ *Company, err error) {
	Isolated(cfg.Functions...)
	if err := cfg.Node.Validate(); err != nil {
		return nil, err
	}
	policy, err := scheduler.NewPolicy(cfg.Node.Policy)
	if err != nil {
		return nil, err
	}
	c := &Company{log: cfg.Log, tell: cfg.Warn, served: cfg.Served, nodes: cfg.Nodes, watching: map[*eventQueue]bool{}, resumed: map[string]uint64{}, takenUp: map[string]uint64{}, preparing: make(chan struct{}, 1)}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.close = sync.OnceValue(c.shutdown)
	defer func() {
		if err != nil {
			c.end(err)
			c.background.Wait()
			_ = c.release()
		}
	}()
	if c.native, err = native.New(cfg.Functions...); err != nil {
		return nil, err
	}
	c.natives = c.native
	c.closers = append(c.closers, c.native.Close)
	bucket, err := c.openStore(cfg)
	if err != nil {
		return nil, err
	}
	c.store, c.datasets = bucket, dataset.New(bucket)
	scratch, err := c.openSpace(cfg)
	if err != nil {
		return nil, err
	}
	boot := newID()
	c.openLogs(cfg, boot)
	if cfg.Node.Isolate {
		c.natives = isolate.New(isolate.Config{
			Knows: c.native, Dir: scratch.Folder(), MemoryLimit: cfg.Node.MemoryLimit, IdleTimeout: cfg.Node.IdleTimeout, Log: c.print,
		})
		c.closers = append(c.closers, c.natives.Close)
	}
	c.programs = newPrograms(function.New(bucket, c.native.Names()...), scratch.Folder(), cfg.Node, c.print, c.warnJobs)
	c.closers = append(c.closers, c.programs.Close)
	c.remotes = newRemotes(c.ctx, cfg, c.warnJobs)
	c.closers = append(c.closers, c.remotes.Close)
	c.system, c.load = actorkit.NewSystem(cfg.Log), &actorkit.Load{}
	c.load.Watch(c.system)
	c.rim = actorkit.NewRim(c.system)
	c.cache = cache.New(bucket, cmp.Or(cfg.Node.Cache, filepath.Join(scratch.Folder(), "cache")), cfg.Node.CacheLimit)
	c.models = &results{catalog: model.New(bucket), rim: c.rim, cache: c.cache}
	origin := originRun
	if cfg.Server {
		origin = originServer
	}
	c.catalog, c.slots, c.board = job.New(bucket), cfg.Node.Slots, board.New(c.rim.Now)
	if !cfg.Served && !cfg.Nodes.follows() {
		c.events = newEventLog(c.catalog, cfg.Log, c.rim.Now)
		c.closers = append(c.closers, c.events.close)
	}
	if cfg.Server {
		c.listing = newListing()
		if c.term, err = c.lead(context.Background(), claim.New(bucket), claim.Owner{Node: cfg.Node.Name, Boot: boot, PID: os.Getpid(), Address: cfg.Address}); err != nil {
			return nil, err
		}
	}
	if cfg.Nodes.follows() {
		origin = originServer
	}
	c.jobs = NewJobs(c.catalog, job.Owner{Node: cfg.Node.Name, Boot: boot, PID: os.Getpid()}, origin, func() int64 { return c.rim.Now().UnixMilli() })
	c.jobs.waits = c.signs
	c.closers = append(c.closers, c.jobs.release)
	if c.processes, err = c.openProcesses(cfg); err != nil {
		return nil, err
	}
	c.closers = append(c.closers, c.processes.Close)
	if err := c.spawn(cfg, policy, scratch, boot); err != nil {
		return nil, err
	}
	c.meet(cfg.Nodes)
	if c.sender != nil {
		c.background.Go(func() { c.sender.run(c.ctx) })
	} else {
		c.background.Go(c.keepLogs)
	}
	if cfg.Server {
		c.background.Go(func() { c.adopt(c.ctx) })
	}
	return c, nil
}

func (c *Company) spawn(cfg Config, policy scheduler.Policy, scratch *plane.Scratch, boot string) (err error) {
	var nonce atomic.Uint64
	if cfg.Nodes != nil {
		c.among = cfg.Node.Name
	}
	executor := &host.Executor{
		Runtimes: []functions.Runtime{c.natives, c.programs, c.remotes},
		Space:    c.space,
		Datasets: localData{c.datasets, c.cache, c.among},
		Threads:  cfg.Node.ThreadsPerSlot(),
		Nonce:    func() uint64 { return nonce.Add(1) },
	}
	if cfg.Nodes.follows() {
		executor.Prepare, executor.Printed = c.prepare, c.sender.settle
	}
	c.runner = host.NewLocal(executor)
	deps := TreeDeps{
		Log: cfg.Log, Rim: c.rim, Node: cfg.Node.Name, Boot: boot, Term: c.term, Slots: cfg.Node.Slots,
		Policy: policy, NewID: newID, Warn: c.warned, Fatal: c.end, Runner: c.runner, Space: c.space, Models: c.models, Jobs: c.jobs, Shown: c.shown,
		OpenModel: c.models.Open,
		Options:   actorkit.Options(cfg.Log),
		Load:      c.load,
		Processes: c.processes,
	}
	if n := cfg.Nodes; n != nil {
		deps.Options = append(deps.Options, actorkit.Split{Log: cfg.Log}.Option())
		c.directory = n.Directory
		deps.Directory, deps.Follows, deps.Labels, deps.Version = n.Directory, n.follows(), n.Labels, n.Version
		if err := n.Remote(c.system); err != nil {
			return err
		}
	}
	deps.Stacks = c.stacksHere
	if c.tree, err = SpawnTree(c.system.Root, deps); err == nil {
		c.at = deps.places(c.tree)
	}
	return err
}

// Functions is the catalog of programs in the node's store.
func (c *Company) Functions() *function.Catalog { return c.programs.catalog }

// NativeFunctions are the names of the Go functions that jobs can name.
func (c *Company) NativeFunctions() []string { return c.native.Names() }

// Datasets is the catalog of data sets in the node's store.
func (c *Company) Datasets() *dataset.Catalog { return c.datasets }

// Load tells how busy the actors are.
func (c *Company) Load() *actorkit.Load { return c.load }

// Models is the catalog of models in the node's store.
func (c *Company) Models() *model.Catalog { return c.models.catalog }

// shown takes in events of this node's jobs, as watchers see them.
func (c *Company) shown(events []*messages.JobEvent) {
	c.board.Add(events)
	c.remotes.merges.add(events)
	if c.events != nil {
		c.events.add(events)
	}
	for _, e := range events {
		if actorkit.IsEnd(e) {
			c.jobOver(e.GetJob().GetId())
		}
	}
}

// openLogs has what functions print kept, here or by the node that leads.
func (c *Company) openLogs(cfg Config, boot string) {
	c.logs = newJobLogs(c.store, cfg.Lines)
	if c.print = c.logs.add; cfg.Nodes.follows() {
		c.sender = newLogSender(cfg.Node.Name, boot, cfg.Nodes.postLines, cfg.Log, func() time.Time { return c.rim.Now() })
		c.print = c.sender.add
	}
	c.closers = append(c.closers, func() error {
		if c.sender != nil {
			c.sender.settle(context.Background())
		}
		return c.logs.flush("")
	})
}

// logGap is how often what functions print is stored.
const logGap = 5 * time.Second

// keepLogs stores what functions print as they do, and, a while after a job has
// ended, drops what is kept of it here.
func (c *Company) keepLogs() {
	var over []string
	for pause(c.ctx, logGap) == nil {
		c.logs.storeAll()
		for _, id := range over {
			if err := c.logs.forget(id); err != nil {
				c.log.Warn("log not stored", zap.String("job_id", id), zap.Error(err))
			}
		}
		c.mu.Lock()
		over, c.over = c.over, nil
		c.mu.Unlock()
	}
}

// Leave has what this node has for others go elsewhere before it is closed: its jobs go on there, it gets
// nothing new to run, what runs may end, and jobs take over what lies here. It
// returns once none needs anything here, or with Unavailable, naming those that do,
// when ctx has ended: what they lack then is made again elsewhere, but for the
// optimizer states of functions. For a node that follows another one.
func (c *Company) Leave(ctx context.Context) error {
	if _, err := ask[*messages.DrainHostReply](ctx, c, c.tree.Host, &messages.DrainHost{}); err != nil {
		return err
	}
	c.yield()
	for alone := 0; ; {
		if alone++; c.directory.PID(c.directory.Leader(), schedulerName) != nil {
			alone = 0
		}
		if alone > leaveLooks {
			return fault.New("actors.leave", fault.Unavailable, "the node that leads is not there")
		}
		reply, err := ask[*messages.DrainHostReply](ctx, c, c.tree.Host, &messages.DrainHost{})
		if err != nil || len(reply.GetJobs()) == 0 {
			return err
		}
		if pause(ctx, leaveGap) != nil {
			return fault.New("actors.leave", fault.Unavailable, "jobs %s still need what is here", strings.Join(reply.GetJobs(), ", "))
		}
	}
}

// Close ends all jobs and waits: no goroutine, file or process of the company
// is left. Unavailable, naming how many, when functions ignore the end of their
// context: their goroutines cannot be ended. It may be called again.
func (c *Company) Close() error { return c.close() }

func (c *Company) shutdown() error {
	c.end(errClosed)
	c.background.Wait()
	c.yield()
	for _, pid := range []*actor.PID{c.tree.ParameterServer, c.tree.Scheduler, c.tree.Host, c.tree.Journal} {
		if pid == nil {
			continue // it is on the node that leads
		}
		_ = c.system.Root.StopFuture(pid).Wait() // bounded; what does not stop has nothing left to hold
	}
	err := c.processes.Close() // before the rim, whose work may wait for them
	c.rim.Close()
	patience, cancel := context.WithTimeout(context.Background(), functionPatience)
	defer cancel()
	err = errors.Join(err, c.runner.Await(patience))
	c.system.Shutdown()
	return errors.Join(err, c.release())
}

// release closes what is open, last opened first.
func (c *Company) release() error {
	var errs []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		errs = append(errs, c.closers[i]())
	}
	return errors.Join(errs...)
}

// warn gives a warning of this node to its owner. Where that has no ear for it,
// all who watch a job get it, or else whoever submits or watches one next: the jobs
// are the owner's own.
func (c *Company) warn(text string) {
	c.log.Warn("warning", zap.String("text", text))
	if c.tell != nil {
		c.tell(text)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range c.watching {
		q.put(warned(text))
	}
	if len(c.watching) == 0 && !slices.Contains(c.warnings, text) { // what lasts is said again and again
		c.warnings = append(c.warnings, text)
	}
}

// warned is warn, and reports whether those who follow jobs have it by that.
func (c *Company) warned(text string) (heard bool) {
	c.warn(text)
	return c.tell == nil && !c.served && !c.nodes.follows()
}

// warnJobs is warn for what concerns functions that are at work: where those who
// follow their jobs do not hear of it, the jobs say so.
func (c *Company) warnJobs(text string) {
	if !c.warned(text) && c.tree != nil {
		c.system.Root.Send(c.tree.Host, &host.Warned{Text: text})
	}
}

func warned(text string) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{Text: text}}}
}

// watch has warnings go to q until the returned function is called.
func (c *Company) watch(q *eventQueue) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.warnings {
		q.put(warned(text))
	}
	c.warnings = nil
	c.watching[q] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watching, q)
	}
}

// takeWarnings returns the warnings since the last call.
func (c *Company) takeWarnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.warnings
	c.warnings = nil
	return taken
}

// ask sends a command until it is answered or ctx ends.
func ask[Reply any](ctx context.Context, c *Company, to *actor.PID, command any) (reply Reply, err error) {
	for {
		answer, err := c.system.Root.RequestFuture(to, command, askAgain).Result()
		if err == nil {
			if reply, ok := answer.(Reply); ok {
				return reply, nil
			}
			return reply, fault.New("actors.ask", fault.Unknown, "%T was answered by %T", command, answer)
		}
		if errors.Is(err, actor.ErrDeadLetter) {
			return reply, cmp.Or(context.Cause(c.ctx), error(errClosed))
		}
		if ctx.Err() != nil {
			return reply, fault.New("actors.ask", fault.Unavailable, "no answer from the %s: %w", to.GetId(), ctx.Err())
		}
	}
}

// command is ask, and returns the failure that the answer tells.
func command[Reply interface{ GetFailure() *messages.Failure }](ctx context.Context, c *Company, to *actor.PID, what any) (Reply, error) {
	reply, err := ask[Reply](ctx, c, to, what)
	if err != nil {
		return reply, err
	}
	return reply, wire.Error(reply.GetFailure())
}

// newID returns a new id: a lower-case ULID.
func newID() string { return strings.ToLower(ulid.Make().String()) }

// localData hands out the files of data sets on this machine.
type localData struct {
	catalog *dataset.Catalog
	cache   *cache.Cache
	node    string // "": it is the only one
}

// Files implements host.Datasets.
func (d localData) Files(ctx context.Context, name, digest string) (dataset.Files, error) {
	files, err := d.catalog.Materialise(ctx, name, digest, d.cache)
	return files, onNode(d.node, err)
}

// onNode names the node, one of several, that is at fault for an error: who reads it
// cannot know.
func onNode(node string, err error) error {
	if err == nil || node == "" {
		return err
	}
	return fmt.Errorf("on node %s: %w", node, err)
}
