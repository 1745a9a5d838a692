package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/invoker"
	"github.com/troupe-ml/troupe/actors/jobprocess"
	"github.com/troupe-ml/troupe/actors/journal"
	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/job"
)

// Names of the actors at the top, the same on every node.
const (
	schedulerName       = "scheduler"
	parameterServerName = "paramserver"
	hostName            = "host"
	journalName         = "journal"
)

// TreeDeps is what the actors of one node touch of the world.
type TreeDeps struct {
	Log  *zap.Logger
	Rim  actorkit.Rim
	Node string // its name
	Boot string // new each time the node starts
	Term uint64 // of its Scheduler, should it have one: higher than that of any before
	// Directory finds the actors of other nodes; nil: there is none.
	Directory Directory
	Follows   bool // another node leads: this one has no Scheduler
	Slots     int
	Labels    map[string]string // what people say of the node
	Version   string            // of this program
	Policy    scheduler.Policy
	NewID     func() string // of jobs
	Runner    host.Runner
	Space     plane.Space
	Models    train.Models
	Jobs      *Jobs // owns the jobs of this node in the store
	// Processes starts those of jobs; nil: jobs have none of their own.
	Processes *jobprocess.Launcher
	// Shown gets the events of all jobs, see journal.Deps; nil: nobody.
	Shown func([]*messages.JobEvent)
	// OpenModel opens a model that a job starts from; see train.Deps.
	OpenModel func(ctx context.Context, name string) (plane.Blob, error)
	// Stacks says where the functions of a job are that run here; see host.Deps.
	Stacks func(job string) map[int]string
	// Warn gets what people should know, and reports whether those who follow jobs
	// hear of it; nil: the log alone does.
	Warn    func(text string) (heard bool)
	Fatal   func(error)         // called once an actor has crashed that the company cannot do without
	Options []actor.PropsOption // of every actor
	Load    *actorkit.Load      // is told of the mailboxes of the actors at the top; nil: nobody
}

// Tree is the actors of one node:
//
//	Scheduler         of the node that leads
//	ParameterServer
//	  TrainJob
//	    FunctionInvoker
//	FunctionHost
//	Journal
//
// Where jobs have processes of their own, what stands for one is where its TrainJob
// is, which has a tree like this in that process.
type Tree struct {
	Scheduler, ParameterServer, Host, Journal *actor.PID
}

// named returns where the tree keeps an actor.
func (t *Tree) named(name string) **actor.PID {
	return map[string]**actor.PID{
		schedulerName: &t.Scheduler, parameterServerName: &t.ParameterServer, hostName: &t.Host, journalName: &t.Journal,
	}[name]
}

// Spawner spawns named actors: an actor system's root, or a simulator.
type Spawner interface {
	SpawnNamed(props *actor.Props, name string) (*actor.PID, error)
}

// SpawnTree spawns the actors of a node. Whoever is sent to is spawned before
// whoever sends: a message to a name that is just being spawned is a crash of
// the sender.
func SpawnTree(spawner Spawner, d TreeDeps) (*Tree, error) {
	t := &Tree{}
	for _, top := range []struct {
		name string
		make func() *actor.Props
	}{
		{journalName, func() *actor.Props {
			return journal.Props(journal.Deps{Log: d.Log, Shown: d.Shown, Options: d.replaceableOptions(journalName)})
		}},
		{schedulerName, func() *actor.Props { return schedulerProps(t, d) }},
		{parameterServerName, func() *actor.Props { return parameterServerProps(t, d) }},
		{hostName, func() *actor.Props { return hostProps(t, d) }},
	} {
		if top.name == schedulerName && d.Follows {
			continue
		}
		pid, err := spawner.SpawnNamed(top.make(), top.name)
		if err != nil {
			return nil, err
		}
		*t.named(top.name) = pid
	}
	return t, nil
}

// irreplaceable supervises the actors whose state a restart would lose and
// nobody else has: a crash of one, which is a bug, ends the company instead.
type irreplaceable struct{ fatal func(error) }

// HandleFailure implements actor.SupervisorStrategy.
func (i *irreplaceable) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	supervisor.StopChildren(child)
	i.fatal(fault.New("actors.supervise", fault.Unknown, "the %s crashed: %w", child.GetId(), actorkit.Panicked(reason)))
}

const (
	restartsMost   = 10 // of a host or a journal
	restartsWithin = 10 * time.Second
)

// replaceable supervises the actors that are restarted in place, until they
// crash so often that the company is better off ending.
type replaceable struct{ irreplaceable }

// HandleFailure implements actor.SupervisorStrategy.
func (r *replaceable) HandleFailure(system *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	if stats.Fail(); stats.NumberOfFailures(restartsWithin) > restartsMost {
		r.irreplaceable.HandleFailure(system, supervisor, child, stats, reason, message)
		return
	}
	supervisor.RestartChildren(child)
}

// replaceableOptions are those of the FunctionHost and the Journal.
func (d TreeDeps) replaceableOptions(name string) []actor.PropsOption {
	return d.options(name, &replaceable{irreplaceable{d.Fatal}})
}

// irreplaceableOptions are those of the Scheduler and the ParameterServer.
func (d TreeDeps) irreplaceableOptions(name string) []actor.PropsOption {
	return d.options(name, &irreplaceable{d.Fatal})
}

// places finds whom the actors of a tree talk to.
func (d TreeDeps) places(t *Tree) places { return places{tree: t, node: d.Node, of: d.Directory} }

func (d TreeDeps) options(name string, guardian actor.SupervisorStrategy) []actor.PropsOption {
	options := []actor.PropsOption{actor.WithGuardian(guardian)}
	if d.Load != nil {
		options = append(options, d.Load.Mailbox(name))
	}
	return append(options, d.Options...)
}

func schedulerProps(t *Tree, d TreeDeps) *actor.Props {
	return scheduler.Props(scheduler.Deps{
		Log: d.Log, Rim: d.Rim, Node: d.Node, Term: max(d.Term, 1), Policy: d.Policy, NewID: d.NewID, Options: d.irreplaceableOptions(schedulerName),
		ParameterServer: d.places(t).parameterServer,
		Journal:         d.places(t).journal,
	})
}

func parameterServerProps(t *Tree, d TreeDeps) *actor.Props {
	own := inThisProcess(t, d)
	if d.Processes != nil {
		own = inProcess(t, d)
	}
	return paramserver.Props(paramserver.Deps{
		Log: d.Log, Rim: d.Rim, Node: d.Node, Shared: d.Directory != nil, Options: d.irreplaceableOptions(parameterServerName),
		Scheduler: d.places(t).scheduler,
		Journal:   d.places(t).journal,
		Nodes:     d.places(t).nodes,
		Host:      d.places(t).host,
		Own:       own,
		End: func(id string, start *messages.StartJob, end *messages.JobResult, over uint64, stale job.Sighting) (*paramserver.Ended, job.Sighting, error) {
			return d.Jobs.End(context.Background(), id, start, end, over, stale)
		},
		Warn: d.tell,
	})
}

// tell is Warn for what concerns no job that runs.
func (d TreeDeps) tell(text string) {
	if d.Warn != nil {
		d.Warn(text)
	}
}

// inThisProcess has a job run here.
func inThisProcess(t *Tree, d TreeDeps) func(string, *messages.StartJob, job.Sighting) (*paramserver.Owned, job.Sighting, error) {
	deps := trainDeps(t, d)
	return func(id string, start *messages.StartJob, stale job.Sighting) (*paramserver.Owned, job.Sighting, error) {
		owned, seen, err := d.Jobs.Own(context.Background(), id, start.GetTask(), stale)
		if err != nil {
			return nil, seen, err
		}
		return incarnation(id, owned, deps), seen, nil
	}
}

// incarnation is a job that this node owns, as the ParameterServer sees it.
func incarnation(id string, owned *OwnedJob, deps train.Deps) *paramserver.Owned {
	return &paramserver.Owned{
		Incarnation: owned.Incarnation(), Reached: owned.Reached(), Ended: owned.Ended(), EndedBy: owned.fromN, Release: owned.Release,
		Job: func(ref *messages.JobRef, start *messages.StartJob) *actor.Props {
			return train.Props(ref, start, withOutage(deps.Rim, start.GetTask(), owned), deps)
		},
		Discard: func() { _ = deps.Space.Remove(deps.Space.List(id + "/")...) }, // what stays goes with the process
	}
}

func trainDeps(t *Tree, d TreeDeps) train.Deps {
	at := d.places(t)
	return train.Deps{
		Log: d.Log, Rim: d.Rim, Node: d.Node, Shared: d.Directory != nil, Space: d.Space, Models: d.Models, OpenModel: d.OpenModel, Options: d.Options,
		Invoker:   invoker.Props(invoker.Deps{Log: d.Log, Rim: d.Rim, Host: at.host, Options: d.Options}),
		Nodes:     at.nodes,
		Host:      at.host,
		Scheduler: at.scheduler,
		Journal:   at.journal,
	}
}

func hostProps(t *Tree, d TreeDeps) *actor.Props {
	return host.Props(host.Deps{
		Log: d.Log, Rim: d.Rim, Node: d.Node, Boot: d.Boot, Slots: d.Slots, Labels: d.Labels, Version: d.Version,
		Runner: d.Runner, Tensors: d.Space, Stacks: d.Stacks, Warn: d.Warn, Options: d.replaceableOptions(hostName),
		Scheduler: d.places(t).scheduler,
	})
}
