package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/store/job"
)

// maxMessage is how large a message between nodes may be. It is small, so that what
// is small between real nodes, too, comes in pieces, which get lost and late.
const maxMessage = 400

// lease is for how long a node goes on that does not reach the one that leads.
const lease = 10 * time.Second

// Node is a node that has joined a company, from a start of its process to its
// end.
type Node struct {
	Name   string
	Slots  int
	Tree   *actors.Tree
	Space  *Scratch
	Runner *Runner

	over   bool // its process has ended
	leaves bool // it is about to
	cut    bool // nothing gets from it to others, or back
	deaf   bool // it was cut off, or ends: it does not hear what it may let go of
}

// Join starts the process of a node, which the company's table lists once delay
// has passed.
func (c *Company) Join(name string, slots int, labels map[string]string, delay time.Duration) (*Node, error) {
	c.starts++
	n := &Node{Name: name, Slots: slots, Space: newScratch(name, c.far(name))}
	config := c.config
	config.Slots = slots
	n.Runner = newRunner(c.Sim, config, n.Space, c.Runner.courses)
	boot := fmt.Sprintf("life-%d", c.starts)
	owner := job.Owner{Node: name, Boot: boot}
	var err error
	n.Tree, err = actors.SpawnTree(spawner{c.Sim, fmt.Sprintf("%s%s-%d.", c.prefix, name, c.starts)}, actors.TreeDeps{
		Log: config.Log, Rim: c.Sim.Rim(), Node: name, Boot: boot, Slots: slots, Labels: labels, Directory: c.directory(name), Follows: true,
		Policy: config.Policy, NewID: c.newID, Runner: n.Runner, Space: n.Space, Models: c.Models,
		Jobs:    actors.NewJobs(job.New(config.Store), owner, "run", func() int64 { return c.Sim.Now().UnixMilli() }),
		Fatal:   func(err error) { c.Sim.Fail("%v", err) },
		Options: c.options(n),
	})
	if err != nil {
		return nil, err
	}
	if before := c.nodes[name]; before != nil && !before.over {
		return nil, fault.New("sim.join", fault.Conflict, "node %s is there already", name)
	}
	c.nodes[name] = n
	for _, pid := range topOf(n.Tree) {
		c.homes[pid.GetId()] = n
	}
	c.Sim.At(delay, func() {
		if c.nodes[name] == n && !n.over {
			c.list(name, true)
		}
	})
	c.Sim.Cut = c.isCut
	return n, nil
}

// options are those of each actor of a node; nil is the one that leads.
func (c *Company) options(n *Node) []actor.PropsOption {
	split := actorkit.Split{Log: c.config.Log, Limit: cmp.Or(c.config.MaxMessage, maxMessage), Far: func(to *actor.PID) bool {
		home, known := c.homes[top(to.GetId())]
		return known && home != n
	}}
	return []actor.PropsOption{split.Option(), actor.WithOnInit(func(ctx actor.Context) { c.bear(ctx.Self()) })}
}

// Nodes returns the nodes that have joined and whose processes live, by name.
func (c *Company) Nodes() []*Node {
	var out []*Node
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		if n := c.nodes[name]; !n.over {
			out = append(out, n)
		}
	}
	return out
}

// Home returns the node where a job's newest TrainJob lives, "" while none does.
func (c *Company) Home(job string) string {
	home := ""
	for _, pid := range c.Jobs() {
		if strings.Contains(pid.GetId(), "/"+job+".") {
			if home = c.config.Name; c.homes[top(pid.GetId())] != nil {
				home = c.homes[top(pid.GetId())].Name
			}
		}
	}
	return home
}

// Node returns the latest start of a node that has joined, nil for none.
func (c *Company) Node(name string) *Node { return c.nodes[name] }

// KillNode ends a node's process as kill -9 does; the table finds out once the time
// has passed, unless the node has joined again by then.
func (c *Company) KillNode(n *Node, found time.Duration) {
	c.end(n)
	c.Sim.Freeze(1<<62, func(id string) bool { return c.homes[top(id)] == n })
	c.unlist(n, found)
}

// leaveFor is how long a node that leaves is patient with others.
const leaveFor = 10 * time.Second

// LeaveNode ends a node's process as SIGTERM does: its jobs go on elsewhere, and then
// once nothing there is needed any more, or after a while.
func (c *Company) LeaveNode(n *Node) {
	if n.leaves {
		return
	}
	n.leaves = true
	c.yield(n)
	host := c.Sim.Probe(fmt.Sprintf("%s-%d-leaves", n.Name, c.starts))
	until, may := c.Sim.Now().Add(leaveFor), false
	host.Answer = func(msg any) any {
		m, ok := msg.(*messages.DrainHostReply)
		may = may || ok && len(m.GetJobs()) == 0
		return nil
	}
	var look func()
	look = func() {
		switch {
		case n.over:
		case may || !c.Sim.Now().Before(until):
			c.stopNode(n)
		default:
			host.Send(n.Tree.Host, &messages.DrainHost{})
			c.Sim.At(50*time.Millisecond, look)
		}
	}
	look()
}

// stopNode ends a node's process in an orderly way.
func (c *Company) stopNode(n *Node) {
	n.deaf = true
	for _, pid := range topOf(n.Tree) {
		c.Sim.Stop(pid)
	}
	c.Sim.At(time.Millisecond, func() { c.end(n) })
	c.unlist(n, time.Millisecond)
}

// yieldTakes is how long a node has that may not go on.
const yieldTakes = 10 * time.Millisecond

// yield has a node's jobs go on elsewhere.
func (c *Company) yield(n *Node) { c.Sim.Send(n.Tree.ParameterServer, &paramserver.Leave{}) }

// CutNode cuts a node off for a time. The table drops it once found has passed; it
// ends its own work after its lease, and whoever was dropped or has ended its work
// joins again when the cut is over.
func (c *Company) CutNode(n *Node, d, found time.Duration) {
	n.cut, n.deaf = true, true
	dropped := false
	c.Sim.At(found, func() {
		if n.cut && c.nodes[n.Name] == n {
			dropped = true
			c.list(n.Name, false)
		}
	})
	c.Sim.At(lease, func() {
		if !n.cut {
			return
		}
		c.yield(n)
		c.Sim.At(yieldTakes, func() {
			for _, pid := range topOf(n.Tree) {
				c.Sim.Stop(pid)
			}
		})
	})
	c.Sim.At(d, func() {
		n.cut = false
		if !n.over && (dropped || d >= lease) {
			c.KillNode(n, 0)
			if _, err := c.Join(n.Name, n.Slots, nil, time.Second); err != nil {
				c.Sim.Fail("%v", err)
			}
		}
	})
}

// MissNode has the table do without a node for a time, though nothing is wrong with it.
func (c *Company) MissNode(n *Node, d time.Duration) {
	c.list(n.Name, false)
	c.Sim.At(d, func() {
		if c.nodes[n.Name] == n && !n.over {
			c.list(n.Name, true)
		}
	})
}

// end notes that a process has ended.
func (c *Company) end(n *Node) {
	n.over = true
	n.Runner.gone()
}

func (c *Company) unlist(n *Node, after time.Duration) {
	c.Sim.At(after, func() {
		if c.nodes[n.Name] == n {
			c.list(n.Name, false)
		}
	})
}

// list changes the member table, and tells who leads.
func (c *Company) list(name string, there bool) {
	c.listed[name] = there
	c.listed[c.config.Name] = true
	if !c.away {
		c.Sim.Send(c.Tree.Scheduler, &messages.NodesListed{Nodes: (&directory{c, c.config.Name}).Nodes()})
	}
}

// directory is what a node knows of the others.
func (c *Company) directory(node string) actors.Directory {
	if c.config.Alone {
		return nil
	}
	return &directory{c, node}
}

type directory struct {
	company *Company
	node    string
}

// Leader implements actors.Directory.
func (d *directory) Leader() string {
	if d.company.away {
		return ""
	}
	return d.company.config.Name
}

// Nodes implements actors.Directory.
func (d *directory) Nodes() []string {
	var out []string
	for _, node := range slices.Sorted(maps.Keys(d.company.listed)) {
		if d.company.listed[node] {
			out = append(out, node)
		}
	}
	return out
}

// PID implements actors.Directory.
func (d *directory) PID(node, name string) *actor.PID {
	tree := d.company.Tree
	if node == d.company.config.Name && d.company.away {
		return nil
	}
	if node != d.company.config.Name {
		n := d.company.nodes[node]
		if n == nil || !d.company.listed[node] {
			return nil
		}
		tree = n.Tree
	}
	for _, pid := range topOf(tree) {
		if strings.HasSuffix(pid.GetId(), name) {
			return pid
		}
	}
	return nil
}

// far opens what lies on the planes of other nodes.
func (c *Company) far(node string) func(context.Context, plane.Ref) (plane.Blob, error) {
	return func(ctx context.Context, ref plane.Ref) (plane.Blob, error) {
		c.fetching.Lock()
		defer c.fetching.Unlock()
		if c.Fetched != nil {
			c.Fetched(node, ref.Key)
		}
		if ref.Node == c.config.Name && !c.isOff(node) && !c.away {
			return c.Space.Open(ctx, ref)
		}
		if n := c.nodes[ref.Node]; n != nil && !c.isOff(node) && !c.isOff(ref.Node) && c.listed[ref.Node] {
			return n.Space.Open(ctx, ref)
		}
		return nil, fault.New("sim.plane", fault.Unavailable, "node %q does not answer", ref.Node)
	}
}

// isOff reports whether a node is cut off, or its process has ended.
func (c *Company) isOff(node string) bool {
	n := c.nodes[node]
	return n != nil && (n.cut || n.over)
}

// isCut reports whether a message goes from one side of a cut to the other.
func (c *Company) isCut(from, to *actor.PID, _ any) bool {
	a, b := c.homes[top(from.GetId())], c.homes[top(to.GetId())]
	return a != b && (a != nil && a.cut || b != nil && b.cut)
}

func topOf(t *actors.Tree) []*actor.PID {
	return slices.DeleteFunc([]*actor.PID{t.Scheduler, t.ParameterServer, t.Host, t.Journal}, func(pid *actor.PID) bool { return pid == nil })
}

// top is the first part of an actor's id.
func top(id string) string {
	id, _, _ = strings.Cut(id, "/")
	return id
}
