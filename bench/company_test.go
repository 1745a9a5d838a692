package bench_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/sim"
	"github.com/troupe-ml/troupe/store/dataset"
)

// node names the one node there is.
const node = "local"

// company is the real actors of one node, on a real actor system, over
// functions that do nothing.
type company struct {
	system *actor.ActorSystem
	rim    *actorkit.SystemRim
	tree   *actors.Tree
	local  *host.Local
	data   *datasets
	heard  atomic.Int64 // messages that actors got, of those that options count
	jobs   int
}

// newCompany starts one. Space is closed with it; a runner other than nil takes
// the place of the real one; counting says whether heard counts.
func newCompany(b *testing.B, slots int, space plane.Space, runner host.Runner, counting bool) *company {
	b.Helper()
	log := zap.NewNop()
	c := &company{system: actorkit.NewSystem(log), data: &datasets{dir: b.TempDir(), sets: map[string]sim.Data{}}}
	c.rim = actorkit.NewRim(c.system)
	var nonce atomic.Uint64
	c.local = host.NewLocal(&host.Executor{
		Runtimes: []functions.Runtime{fake.New(fake.Config{})}, Space: space, Datasets: c.data, Threads: 1,
		Nonce: func() uint64 { return nonce.Add(1) },
	})
	if runner == nil {
		runner = c.local
	}
	policy, err := scheduler.NewPolicy("static")
	require.NoError(b, err)
	deps := actors.TreeDeps{
		Log: log, Rim: c.rim, Node: node, Boot: "boot", Slots: slots, Policy: policy,
		NewID: func() string { c.jobs++; return fmt.Sprintf("job%d", c.jobs) }, // only the Scheduler calls it
		Fatal: func(err error) { panic(err) }, Runner: runner, Space: space, Models: discard{},
		Options: actorkit.Options(log),
	}
	if counting {
		deps.Options = append(deps.Options, actor.WithReceiverMiddleware(c.count))
	}
	c.tree, err = actors.SpawnTree(c.system.Root, deps)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.close(space)) })
	return c
}

func (c *company) close(space plane.Space) error {
	for _, pid := range []*actor.PID{c.tree.ParameterServer, c.tree.Scheduler, c.tree.Host, c.tree.Journal} {
		_ = c.system.Root.StopFuture(pid).Wait()
	}
	c.rim.Close()
	err := c.local.Await(context.Background())
	c.system.Shutdown()
	return errors.Join(err, space.Close())
}

// count is receiver middleware that counts messages. Those that make up an
// actor's life are left out: bare actors get the same ones.
func (c *company) count(next actor.ReceiverFunc) actor.ReceiverFunc {
	return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
		switch envelope.Message.(type) {
		case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Terminated:
		default:
			c.heard.Add(1)
		}
		next(ctx, envelope)
	}
}

// submit hands in a job whose one epoch is rounds of n functions, of one sample
// each, and returns its id.
func (c *company) submit(b *testing.B, n, rounds int) string {
	b.Helper()
	samples := n * rounds
	task := &messages.TrainTask{
		FunctionName: fake.NoOp, Dataset: "zeros", DatasetName: "zeros", DatasetDigest: c.data.make(b, samples),
		TrainSamples: uint64(samples), Epochs: 1, BatchSize: 1, Lr: 0.1,
		Options: &messages.TrainOptions{
			DefaultParallelism: uint32(n), MinParallelism: 1, MaxParallelism: uint32(n), StaticParallelism: true,
			K: 1, Merge: "average", OptimizerState: "keep", ValidateEvery: 1, Shuffle: proto.Bool(true), Seed: 1,
			Retries: proto.Uint32(0), MinFunctions: 1, FunctionTimeoutMs: uint64(time.Hour / time.Millisecond),
		},
	}
	c.data.submissions++
	reply, err := c.system.Root.RequestFuture(c.tree.Scheduler,
		&messages.SubmitJob{Key: strconv.Itoa(c.data.submissions), Task: task}, time.Minute).Result()
	require.NoError(b, err)
	require.Nil(b, reply.(*messages.SubmitJobReply).GetFailure())
	return reply.(*messages.SubmitJobReply).GetJobId()
}

// watch calls on with each event of a job, from an actor.
func (c *company) watch(b *testing.B, id string, on func(*messages.JobEvent)) {
	b.Helper()
	pid := c.system.Root.Spawn(actors.WatcherProps(zap.NewNop(), c.rim, c.tree.Journal, &messages.WatchJob{JobId: id}, on))
	b.Cleanup(func() { c.system.Root.Stop(pid) })
}

// datasets makes data sets of zeros, whose digest is their size.
type datasets struct {
	dir         string
	submissions int

	mu   sync.Mutex // guards sets
	sets map[string]sim.Data
}

func (d *datasets) make(b *testing.B, samples int) (digest string) {
	b.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	digest = strconv.Itoa(samples)
	if _, ok := d.sets[digest]; !ok {
		set, err := sim.NewData(b.TempDir(), samples, 0)
		require.NoError(b, err)
		d.sets[digest] = set
	}
	return digest
}

// Files implements host.Datasets.
func (d *datasets) Files(ctx context.Context, name, digest string) (dataset.Files, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sets[digest].Files(ctx, name, digest)
}

// discard implements train.Models.
type discard struct{}

func (discard) Save(context.Context, *messages.JobRef, *messages.TrainTask, *messages.JobResult, plane.Blob) (string, error) {
	return "mem:///nowhere", nil
}

// epoch is a running epoch of a job.
type epoch struct {
	began, ended chan reading
}

// reading is what there is to read off a company at one moment.
type reading struct {
	at    time.Time
	heard int64
}

// start submits a job and returns its epoch.
func (c *company) start(b *testing.B, n, rounds int) epoch {
	b.Helper()
	e := epoch{make(chan reading, 1), make(chan reading, 1)}
	c.watch(b, c.submit(b, n, rounds), func(event *messages.JobEvent) {
		switch {
		case event.GetEpochStarted() != nil:
			e.began <- reading{time.Now(), c.heard.Load()}
		case event.GetEpochFinished() != nil:
			e.ended <- reading{time.Now(), c.heard.Load()}
		case event.GetEnded().GetResult().GetFailure() != nil:
			panic(event.GetEnded().GetResult().GetFailure().GetText())
		}
	})
	return e
}
