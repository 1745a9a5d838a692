package actors

import "github.com/asynkron/protoactor-go/actor"

// Directory says where the actors of a cluster are. It is asked before each
// message, and is safe for concurrent use.
type Directory interface {
	// Leader is the node whose Scheduler and Journal are in charge, "" while none is
	// known to be.
	Leader() string
	// Nodes lists the nodes that there are, by name, this one included. The caller
	// owns the list.
	Nodes() []string
	// PID names an actor of another node; nil while nothing is to be sent there.
	PID(node, name string) *actor.PID
}

// places finds the actors that those of a tree talk to: the tree's own, and with
// a directory those of other nodes. What it returns may be nil, which
// actorkit.Send and Request know.
type places struct {
	tree *Tree
	node string    // whose tree it is
	of   Directory // nil: there is no other node
}

func (p places) find(node, name string) *actor.PID {
	if p.of == nil || node == p.node {
		return *p.tree.named(name)
	}
	return p.of.PID(node, name)
}

// nodes lists those that there are.
func (p places) nodes() []string {
	if p.of == nil {
		return []string{p.node}
	}
	return p.of.Nodes()
}

// inCharge finds an actor of the node that leads.
func (p places) inCharge(name string) *actor.PID {
	leader := p.node
	if p.of != nil {
		leader = p.of.Leader()
	}
	if leader == "" {
		return nil
	}
	return p.find(leader, name)
}

func (p places) scheduler() *actor.PID { return p.inCharge(schedulerName) }
func (p places) journal() *actor.PID   { return p.inCharge(journalName) }

func (p places) parameterServer(node string) *actor.PID { return p.find(node, parameterServerName) }

func (p places) host(node string) *actor.PID { return p.find(node, hostName) }
