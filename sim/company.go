// Package sim runs the whole company on a virtual clock and one goroutine: the
// real actors of one node, functions that cost, crash, hang and answer garbage
// as a seed says, and messages that get lost, repeated and late.
package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// Config is a company to simulate.
type Config struct {
	Slots     int
	Policy    scheduler.Policy
	Functions fake.Config         // Sleep stays nil: time is virtual
	Runtimes  []functions.Runtime // beside the fake one; an attempt takes Functions.Base, whatever it does
	Data      Data
	// Frozen, unless nil, says for how long an attempt is frozen when it begins:
	// until then it heeds nothing, and then it answers, wanted or not.
	Frozen func(*messages.Invoke) time.Duration
	Log    *zap.Logger
}

// Company is a simulated company of one node.
type Company struct {
	Sim    *testkit.Sim
	Tree   *actors.Tree
	Space  *Scratch
	Models *Models
	Runner *Runner

	config Config
	twice  map[string]bool // jobs that keep the best model beside the last
	ids    int
	keys   int
	born   []*actor.PID // actors, oldest first: all that live and some that did
}

// New spawns the actors of one node in a simulation.
func New(s *testkit.Sim, config Config) (*Company, error) {
	c := &Company{Sim: s, config: config, Space: newScratch("local"), Models: &Models{saved: map[string]Saved{}}, twice: map[string]bool{}}
	jobs := actors.NewJobs(job.New(store.NewMem()), job.Owner{Node: "local", Boot: "boot"}, "run", func() int64 { return s.Now().UnixMilli() })
	c.Runner = newRunner(s, config, c.Space)
	var err error
	c.Tree, err = actors.SpawnTree(spawner{s}, actors.TreeDeps{
		Log: config.Log, Rim: s.Rim(), Node: "local", Boot: "boot", Slots: config.Slots,
		Policy: config.Policy, NewID: c.newID, Runner: c.Runner, Space: c.Space, Models: c.Models, Jobs: jobs,
		Fatal:   func(err error) { s.Fail("%v", err) },
		Options: []actor.PropsOption{actor.WithOnInit(func(ctx actor.Context) { c.bear(ctx.Self()) })},
	})
	return c, err
}

// Submit queues a job and returns its id.
func (c *Company) Submit(asked *messages.TrainTask) (string, error) {
	resolved, err := task.Resolve(asked)
	if err != nil {
		return "", err
	}
	resolved.DatasetName, resolved.DatasetDigest = resolved.GetDataset(), "digest"
	resolved.TrainSamples, resolved.TestSamples = uint64(c.config.Data.Train), uint64(c.config.Data.Test)
	c.keys++
	reply := testkit.Ask[*messages.SubmitJobReply](c.Sim, c.Tree.Scheduler, &messages.SubmitJob{Key: fmt.Sprint(c.keys), Task: resolved})
	c.twice[reply.GetJobId()] = resolved.GetOptions().GetKeep() == "best"
	return reply.GetJobId(), nil
}

// Watch records the events of a job as a watcher sees them: in order, each
// once, whatever the messages suffer.
func (c *Company) Watch(id string) *Watch {
	w := &Watch{}
	c.Sim.Spawn("watch-"+id, actors.WatcherProps(c.config.Log, c.Sim.Rim(), c.Tree.Journal, &messages.WatchJob{JobId: id}, w.add))
	return w
}

// Watch is what a watcher of a job has seen.
type Watch struct {
	Events []*messages.JobEvent
	Result *messages.JobResult // nil until the job has ended
}

func (w *Watch) add(e *messages.JobEvent) {
	w.Events = append(w.Events, e)
	if ended := e.GetEnded(); ended != nil {
		w.Result = ended.GetResult()
	}
}

// Ended reports whether the job has.
func (w *Watch) Ended() bool { return w.Result != nil }

// Jobs returns the TrainJobs that live now, oldest first.
func (c *Company) Jobs() []*actor.PID { return c.alive(1) } // paramserver/job

// Invokers returns the FunctionInvokers that live now, oldest first.
func (c *Company) Invokers() []*actor.PID { return c.alive(2) } // paramserver/job/invoker

func (c *Company) alive(depth int) []*actor.PID {
	var alive []*actor.PID
	for _, pid := range c.born {
		if strings.Count(pid.GetId(), "/") == depth && c.Sim.Alive(pid) {
			alive = append(alive, pid)
		}
	}
	return alive
}

// bear notes a new actor, and forgets the dead ones now and then.
func (c *Company) bear(pid *actor.PID) {
	if len(c.born) == cap(c.born) {
		c.born = slices.DeleteFunc(c.born, func(pid *actor.PID) bool { return !c.Sim.Alive(pid) })
		c.born = slices.Grow(c.born, len(c.born)+16)
	}
	c.born = append(c.born, pid)
}

func (c *Company) newID() string {
	c.ids++
	return fmt.Sprintf("job%d", c.ids)
}

// spawner spawns into a simulation.
type spawner struct{ sim *testkit.Sim }

func (s spawner) SpawnNamed(props *actor.Props, name string) (*actor.PID, error) {
	return s.sim.Spawn(name, props), nil
}
