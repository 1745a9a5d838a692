package main

import (
	"context"
	"time"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/messages"
)

// node is the company of this process as the API wants it.
type node struct {
	jobs
	*catalogs
	address string
	cluster *cluster.Cluster // nil: this node is alone
}

// jobs are those of the company.
type jobs struct{ *actors.Company }

func newNode(c *actors.Company, address string, nodes *cluster.Cluster) *node {
	return &node{jobs: jobs{c}, address: address, cluster: nodes, catalogs: &catalogs{
		natives: c.NativeFunctions(), functions: c.Functions(), datasets: c.Datasets(), models: c.Models(),
		running: func(ctx context.Context) ([]*messages.JobView, error) { return unended(c.AllJobs(ctx)) }, // of run beside us, too
	}}
}

var _ api.Company = (*node)(nil)

// StopJob implements api.Jobs: the stop survives this process.
func (n *node) StopJob(ctx context.Context, id, reason string) error {
	return n.StopStoredJob(ctx, id, reason)
}

// Events implements api.Jobs.
func (n *node) Events(ctx context.Context, job, after string, on func(api.Event) error) error {
	seen := func(s actors.Seen) error {
		return on(api.Event{Cursor: s.Cursor, Event: s.Event, Reset: s.Event == nil})
	}
	if job == "" {
		return n.AllEvents(ctx, after, seen)
	}
	return n.JobEvents(ctx, job, after, seen)
}

// Cluster implements api.Company.
func (n *node) Cluster(ctx context.Context) ([]api.Node, error) {
	reply, err := n.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	return listNodes(n.members(reply.GetHosts()), reply.GetHosts()), nil
}

// members are the nodes of the cluster, or where there is none this one.
func (n *node) members(hosts []*messages.HostView) []cluster.Member {
	if n.cluster != nil {
		return n.cluster.Members()
	}
	var alone []cluster.Member
	for _, h := range hosts {
		alone = append(alone, cluster.Member{
			Node: h.GetNode(), Address: n.address, Roles: []string{leaderRole, hostRole}, Leader: true, SharesStore: true, Version: thisBuild().Version, Alive: true, LastSeen: time.Now(),
		})
	}
	return alone
}

// listNodes adds to what nodes say of themselves how busy they are, of which the
// Scheduler knows.
func listNodes(members []cluster.Member, hosts []*messages.HostView) []api.Node {
	nodes := []api.Node{}
	for _, m := range members {
		n := api.Node{
			Name: m.Node, Address: m.Address, Slots: m.Slots, Leader: m.Leader, Version: m.Version, Labels: m.Labels, Roles: m.Roles,
			SharesStore: m.SharesStore, Alive: m.Alive, LastSeen: m.LastSeen.UTC().Format(time.RFC3339),
		}
		for _, h := range hosts {
			if h.GetNode() == m.Node {
				n.Slots, n.Busy, n.Leaving = h.GetSlots(), h.GetUsed(), h.GetLeaving()
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}
