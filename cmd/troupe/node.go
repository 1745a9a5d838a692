package main

import (
	"context"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/messages"
)

// node is the company of this process as the API wants it.
type node struct {
	jobs
	*catalogs
	address string
}

// jobs are those of the company.
type jobs struct{ *actors.Company }

func newNode(c *actors.Company, address string) *node {
	return &node{jobs: jobs{c}, address: address, catalogs: &catalogs{
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
	nodes := []api.Node{}
	for _, h := range reply.GetHosts() {
		nodes = append(nodes, api.Node{
			Name: h.GetNode(), Address: n.address, Slots: h.GetSlots(), Busy: h.GetBusy(), Leader: true, Version: thisBuild().Version,
		})
	}
	return nodes, nil
}
