// Package actors is the company of actors on one node: tree.go spawns them, and
// Company is how the rest of the program talks to them.
package actors

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/model"
)

// askAgain is how long a caller waits for an answer before it asks again; every
// command may be repeated.
const askAgain = time.Second

// functionPatience is how long Close waits for functions to heed the end of
// their context, which they have to within a second.
const functionPatience = 2 * time.Second

var errClosed = fault.New("actors.ask", fault.Unavailable, "the company is closed")

// Config says what a company is made of.
type Config struct {
	Log       *zap.Logger       // required
	Node      config.Node       // see config.DefaultNode
	Functions []native.Function // the user's own, beside the built-in ones
}

// Submission is a job that was accepted.
type Submission = train.Submission

// Company is the running actors of one node. It is safe for concurrent use.
type Company struct {
	log      *zap.Logger
	system   *actor.ActorSystem
	rim      *actorkit.SystemRim
	tree     *Tree
	runtime  *native.Runtime
	runner   *host.Local
	datasets *dataset.Catalog
	closers  []func() error  // in the order of opening
	warnings []string        // of the start, for whoever submits the first job
	ctx      context.Context // ends with the company; its cause is why
	end      context.CancelCauseFunc
	close    func() error
}

var _ train.Company = (*Company)(nil)

// Start opens the node's store and scratch and spawns its actors. The caller
// closes the company. Errors: Invalid (the configuration or a function),
// Conflict (two functions of one name), Unavailable (scratch or store).
func Start(cfg Config) (_ *Company, err error) {
	if err := cfg.Node.Validate(); err != nil {
		return nil, err
	}
	policy, err := scheduler.NewPolicy(cfg.Node.Policy)
	if err != nil {
		return nil, err
	}
	c := &Company{log: cfg.Log}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.close = sync.OnceValue(c.shutdown)
	defer func() {
		if err != nil {
			_ = c.release()
		}
	}()
	runtime, err := native.New(cfg.Functions...)
	if err != nil {
		return nil, err
	}
	c.runtime = runtime
	c.closers = append(c.closers, runtime.Close)
	bucket, err := store.Open(context.Background(), cfg.Node.Store)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, bucket.Close)
	c.datasets = dataset.New(bucket)
	scratch, err := plane.OpenScratch(cfg.Node.Scratch, cfg.Node.Name, func(text string) { c.warnings = append(c.warnings, text) })
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, scratch.Close)
	return c, c.spawn(cfg, policy, scratch, model.New(bucket))
}

func (c *Company) spawn(cfg Config, policy scheduler.Policy, scratch *plane.Scratch, models *model.Catalog) (err error) {
	c.system = actorkit.NewSystem(cfg.Log)
	c.rim = actorkit.NewRim(c.system)
	var nonce atomic.Uint64
	c.runner = host.NewLocal(&host.Executor{
		Runtimes: []functions.Runtime{c.runtime},
		Space:    scratch,
		Datasets: localData{c.datasets, filepath.Join(scratch.Folder(), "datasets")},
		Threads:  cfg.Node.ThreadsPerSlot(),
		Nonce:    func() uint64 { return nonce.Add(1) },
	})
	c.tree, err = SpawnTree(c.system.Root, TreeDeps{
		Log: cfg.Log, Rim: c.rim, Node: cfg.Node.Name, Boot: newID(), Slots: cfg.Node.Slots,
		Policy: policy, NewID: newID, Fatal: c.end, Runner: c.runner, Space: scratch, Models: &results{models, c.rim},
		Options: actorkit.Options(cfg.Log),
	})
	return err
}

// StartJob implements train.Company: it checks the task, finds the function and
// the data set (importing a file), and hands the task to the Scheduler.
func (c *Company) StartJob(ctx context.Context, asked *messages.TrainTask) (Submission, error) {
	resolved, err := task.Resolve(asked)
	if err != nil {
		return Submission{}, err
	}
	if !c.runtime.Has(resolved.GetFunctionName()) {
		return Submission{}, c.unknownFunction(resolved.GetFunctionName())
	}
	if err := c.runtime.CheckArgs(resolved.GetFunctionName(), resolved.GetOptions().GetArgs()); err != nil {
		return Submission{}, err
	}
	info, err := c.datasets.Open(ctx, resolved.GetDataset(), dataset.Options{Seed: resolved.GetOptions().GetSeed()})
	if err != nil {
		return Submission{}, err
	}
	submitted := proto.CloneOf(resolved)
	submitted.DatasetName, submitted.DatasetDigest = info.Name, info.Digest
	submitted.TrainSamples, submitted.TestSamples = uint64(info.Train), uint64(info.Test)
	reply, err := ask[*messages.SubmitJobReply](ctx, c, c.tree.Scheduler, &messages.SubmitJob{Key: newID(), Task: submitted})
	if err != nil {
		return Submission{}, err
	}
	return Submission{
		ID: reply.GetJobId(), Warnings: slices.Concat(c.warnings, info.Warnings, reply.GetWarnings()),
	}, wire.Error(reply.GetFailure())
}

// StopJob ends a job as STOPPED; WatchJob tells when it has. NotFound;
// Conflict when it has ended.
func (c *Company) StopJob(ctx context.Context, id, reason string) error {
	reply, err := ask[*messages.StopJobReply](ctx, c, c.tree.Scheduler, &messages.StopJob{JobId: id, Reason: reason})
	if err != nil {
		return err
	}
	return wire.Error(reply.GetFailure())
}

// WatchJob implements train.Company.
func (c *Company) WatchJob(ctx context.Context, id string, on func(*messages.JobEvent)) (*messages.JobResult, error) {
	events := newEventQueue()
	pid := c.system.Root.Spawn(WatcherProps(c.log, c.rim, c.tree.Journal, id, events.put))
	defer c.system.Root.Stop(pid)
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		case <-events.ready:
		}
		for _, event := range events.take() {
			on(event)
			if ended := event.GetEnded(); ended != nil {
				return ended.GetResult(), nil
			}
		}
	}
}

// Close ends all jobs and waits: no goroutine, file or process of the company
// is left. Unavailable, naming how many, when functions ignore the end of their
// context: their goroutines cannot be ended. It may be called again.
func (c *Company) Close() error { return c.close() }

func (c *Company) shutdown() error {
	c.end(errClosed)
	for _, pid := range []*actor.PID{c.tree.ParameterServer, c.tree.Scheduler, c.tree.Host, c.tree.Journal} {
		_ = c.system.Root.StopFuture(pid).Wait() // bounded; what does not stop has nothing left to hold
	}
	c.rim.Close()
	patience, cancel := context.WithTimeout(context.Background(), functionPatience)
	defer cancel()
	err := c.runner.Await(patience)
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

func (c *Company) unknownFunction(name string) error {
	var known []string
	for _, f := range c.runtime.Functions() {
		known = append(known, f.Name)
	}
	return fault.New("actors.start", fault.NotFound, "there is no function %q; there are %s", name, strings.Join(known, ", "))
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

// newID returns a new id: a lower-case ULID.
func newID() string { return strings.ToLower(ulid.Make().String()) }

// localData hands out the files of data sets on this machine.
type localData struct {
	catalog *dataset.Catalog
	dir     string
}

// Files implements host.Datasets.
func (d localData) Files(ctx context.Context, name, digest string) (dataset.Files, error) {
	return d.catalog.Materialise(ctx, name, digest, d.dir)
}
