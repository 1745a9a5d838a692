// Package sim runs the whole company on a virtual clock and one goroutine: the
// real actors of one node or several, functions that cost, crash, hang and answer garbage
// as a seed says, and messages that get lost, repeated and late.
package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// Config is a company to simulate.
type Config struct {
	Name      string      // of its node; "": local. Two companies of one simulation have two
	Store     store.Store // nil: one of its own, in memory. Two companies may share one
	Alone     bool        // it has no other nodes
	Slots     int
	Policy    scheduler.Policy
	Functions fake.Config         // Sleep stays nil: time is virtual
	Runtimes  []functions.Runtime // beside the fake one; an attempt takes Functions.Base, whatever it does
	Data      Data
	// Frozen, unless nil, says for how long an attempt is frozen when it begins:
	// until then it heeds nothing, and then it answers, wanted or not.
	Frozen func(*messages.Invoke) time.Duration
	Log    *zap.Logger
	// MaxMessage is what messages between nodes may have in bytes; 0: very few.
	MaxMessage int
}

// Company is a simulated company: the node that leads, and those that Join.
type Company struct {
	Sim    *testkit.Sim
	Tree   *actors.Tree
	Space  *Scratch
	Models *Models
	Runner *Runner

	config  Config
	prefix  string // of the names of its actors
	catalog *job.Catalog
	twice   map[string]bool // jobs that keep the best model beside the last
	ids     int
	keys    int
	watches int
	born    []*actor.PID // actors, oldest first: all that live and some that did

	// Fetched, unless nil, hears of each tensor that a node opens on another, one at a
	// time.
	Fetched  func(by, key string)
	fetching sync.Mutex // held while a tensor is opened so: work may do that side by side

	nodes  map[string]*Node // that have joined, by name: the latest start of each
	listed map[string]bool  // the member table
	homes  map[string]*Node // of the actors at the top, by id; nil: of the node that leads
	starts int              // starts of them, so far

	term    uint64 // reigns of the node that leads, so far
	away    bool   // its process has ended, and not begun again
	watched map[string]*Watch
	asked   map[string]*messages.TrainTask // of the jobs that were submitted
}

// New spawns the actors of one node in a simulation.
func New(s *testkit.Sim, config Config) (*Company, error) {
	c := &Company{Sim: s, prefix: config.Name, config: config, twice: map[string]bool{}, nodes: map[string]*Node{}, listed: map[string]bool{}, homes: map[string]*Node{}, watched: map[string]*Watch{}, asked: map[string]*messages.TrainTask{}}
	if c.prefix != "" {
		c.prefix += "."
	}
	c.config.Name = cmp.Or(config.Name, "local")
	if config.Store == nil {
		c.config.Store = store.NewMem()
	}
	c.Models, c.catalog = newModels(c.config.Store), job.New(sound(c.config.Store))
	return c, c.lead()
}

// Submit queues a job and returns its id.
func (c *Company) Submit(asked *messages.TrainTask) (string, error) { return c.SubmitTo("", asked) }

// SubmitTo is Submit of a job that is to run at a node, whatever slots it gets.
func (c *Company) SubmitTo(home string, asked *messages.TrainTask) (string, error) {
	resolved, err := task.Resolve(asked)
	if err != nil {
		return "", err
	}
	resolved.DatasetName, resolved.DatasetDigest = resolved.GetDataset(), "digest"
	resolved.TrainSamples, resolved.TestSamples = uint64(c.config.Data.Train), uint64(c.config.Data.Test)
	id := c.newID()
	c.twice[id], c.asked[id] = resolved.GetOptions().GetKeep() == "best", resolved
	if home != "" {
		testkit.Ask[*messages.SubmitJobReply](c.Sim, c.Tree.Scheduler, &messages.ResumeJob{Key: id, JobId: id, Task: resolved, Home: home})
		return id, nil
	}
	testkit.Ask[*messages.SubmitJobReply](c.Sim, c.Tree.Scheduler, &messages.SubmitJob{Key: id, JobId: id, Task: resolved})
	return id, nil
}

// Resume goes on with a job of the store, on as many functions as it had, and
// watches what becomes of that.
func (c *Company) Resume(id string) (*Watch, error) {
	stored, err := c.Stored(id)
	if err != nil {
		return nil, err
	}
	seen, err := c.catalog.Look(context.Background(), id)
	if err != nil {
		return nil, err
	}
	c.keys++
	reply := testkit.Ask[*messages.SubmitJobReply](c.Sim, c.Tree.Scheduler, &messages.ResumeJob{
		Key: fmt.Sprint(c.keys), JobId: id, Task: stored.Resumed(0, c.config.Slots), AfterIncarnation: seen.Incarnation,
	})
	if f := reply.GetFailure(); f != nil {
		return nil, fault.New("sim.resume", fault.Conflict, "%s", f.GetText())
	}
	return c.watch(id, reply.GetAfterIncarnation()), nil
}

// Stored returns a job as readers of the store find it now, whatever faults the
// store has.
func (c *Company) Stored(id string) (*actors.StoredJob, error) {
	return actors.LoadJob(context.Background(), c.catalog, id)
}

// JobIDs returns the jobs of the store.
func (c *Company) JobIDs() ([]string, error) { return c.catalog.IDs(context.Background()) }

// Freeze stops the company's process for some time, as SIGSTOP does: its actors
// and their work. Functions that run go on to their end, of which it hears once
// it goes on.
func (c *Company) Freeze(d time.Duration) { c.Sim.Freeze(d, c.isOurs) }

// Kill ends the company's process, as kill -9 does: nothing of it happens any
// more, and nobody is told.
func (c *Company) Kill() { c.Freeze(1 << 62) }

// isOurs reports whether an actor is one of the company's.
func (c *Company) isOurs(id string) bool {
	return slices.ContainsFunc(topOf(c.Tree), func(pid *actor.PID) bool { return pid.GetId() == top(id) })
}

// Watch records the events of a job as a watcher sees them: in order, each
// once, whatever the messages suffer.
func (c *Company) Watch(id string) *Watch { return c.watch(id, 0) }

// watch watches the incarnations after one.
func (c *Company) watch(id string, after uint64) *Watch {
	w := &Watch{}
	from := &messages.WatchJob{JobId: id}
	if after > 0 {
		from.AfterIncarnation, from.AfterSeq = after, math.MaxUint64
	}
	c.watched[id] = w
	c.Sim.Spawn(c.watchName(id), c.watcher(id, w, from))
	return w
}

func (c *Company) watchName(id string) string {
	c.watches++
	return fmt.Sprintf("%swatch-%s-%d", c.prefix, id, c.watches)
}

// watcher adds the events of a job to a watch, from a place on; nil: from the last.
func (c *Company) watcher(id string, w *Watch, from *messages.WatchJob) *actor.Props {
	if from == nil {
		from = &messages.WatchJob{JobId: id}
		if n := len(w.Events); n > 0 {
			from.AfterIncarnation, from.AfterSeq = w.Events[n-1].GetJob().GetIncarnation(), w.Events[n-1].GetSeq()
		}
	}
	return actors.WatcherProps(c.config.Log, c.Sim.Rim(), c.Tree.Journal, from, w.add)
}

// Watch is what a watcher of a job has seen.
type Watch struct {
	Events []*messages.JobEvent
	Result *messages.JobResult // nil until the job has ended
	Taken  *messages.Failure   // by another company, which goes on with it; nil: it was not
}

func (w *Watch) add(e *messages.JobEvent) {
	w.Events = append(w.Events, e)
	if ended := e.GetEnded(); ended != nil {
		w.Result = ended.GetResult()
	}
	if taken := e.GetTakenOver(); taken != nil {
		w.Taken = taken.GetFailure()
	}
}

// Ended reports whether the job has, or is another company's.
func (w *Watch) Ended() bool { return w.Result != nil || w.Taken != nil }

// Jobs returns the TrainJobs that live now, oldest first, on all nodes.
func (c *Company) Jobs() []*actor.PID { return c.alive(1) } // paramserver/job

// Invokers returns the FunctionInvokers that live now, oldest first.
func (c *Company) Invokers() []*actor.PID { return c.alive(2) } // paramserver/job/invoker

func (c *Company) alive(depth int) []*actor.PID {
	var alive []*actor.PID
	for _, pid := range c.born {
		if n := c.homes[top(pid.GetId())]; n != nil && n.over {
			continue // with its process
		}
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
	return fmt.Sprintf("%sjob%d", strings.TrimSuffix(c.prefix, "."), c.ids)
}

// spawner spawns a company's actors into a simulation.
type spawner struct {
	sim    *testkit.Sim
	prefix string
}

func (s spawner) SpawnNamed(props *actor.Props, name string) (*actor.PID, error) {
	return s.sim.Spawn(s.prefix+name, props), nil
}
