package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/job"
)

// lead spawns the actors of the node that leads, for its next reign.
func (c *Company) lead() (err error) {
	c.term++
	boot, prefix := "boot", c.prefix
	if c.term > 1 {
		boot, prefix = fmt.Sprintf("boot-%d", c.term), fmt.Sprintf("%sreign-%d.", c.prefix, c.term)
	}
	courses := map[string]*course{}
	if c.Runner != nil {
		courses = c.Runner.courses
	}
	c.Space = newScratch(c.config.Name, c.far(c.config.Name))
	c.Runner = newRunner(c.Sim, c.config, c.Space, courses)
	jobs := actors.NewJobs(job.New(c.config.Store), job.Owner{Node: c.config.Name, Boot: boot}, "run", func() int64 { return c.Sim.Now().UnixMilli() })
	c.Tree, err = actors.SpawnTree(spawner{c.Sim, prefix}, actors.TreeDeps{
		Log: c.config.Log, Rim: c.Sim.Rim(), Node: c.config.Name, Boot: boot, Term: c.term, Slots: c.config.Slots, Directory: c.directory(c.config.Name),
		Policy: c.config.Policy, NewID: c.newID, Runner: c.Runner, Space: c.Space, Models: c.Models, Jobs: jobs,
		Fatal:   func(err error) { c.Sim.Fail("%v", err) },
		Options: c.options(nil),
	})
	if err != nil {
		return err
	}
	for _, pid := range topOf(c.Tree) {
		c.homes[pid.GetId()] = nil
	}
	return nil
}

// RestartLeader ends the process of the node that leads, as kill -9 does, and starts
// it again when a time has passed. Watches go on.
func (c *Company) RestartLeader(away time.Duration) {
	if c.away {
		return
	}
	c.away = true
	before := &Node{Name: c.config.Name, over: true}
	for _, pid := range topOf(c.Tree) {
		c.homes[pid.GetId()] = before
	}
	c.Sim.Freeze(1<<62, func(id string) bool { return c.homes[top(id)] == before })
	c.Runner.gone()
	c.Sim.At(away, func() {
		c.away = false
		if err := c.lead(); err != nil {
			c.Sim.Fail("%v", err)
		}
		c.list(c.config.Name, true)
		for _, id := range slices.Sorted(maps.Keys(c.watched)) { // in an order, so that a seed is replayed
			w := c.watched[id]
			c.Sim.Spawn(c.watchName(id), c.watcher(id, w, nil))
			if err := c.adopt(id, w); err != nil {
				c.Sim.Fail("job %s: %v", id, err)
			}
		}
	})
}

// adopt hands a job to the new Scheduler, as a server does with what the one before
// left.
func (c *Company) adopt(id string, w *Watch) error {
	stored, err := c.Stored(id)
	switch {
	case w.Ended():
		return nil
	case fault.KindOf(err) == fault.NotFound: // it waited for a slot
		c.Sim.Send(c.Tree.Scheduler, &messages.SubmitJob{Key: id, JobId: id, Task: c.asked[id]})
		return nil
	case err != nil:
		return err
	case stored.State.GetResult() != nil:
		w.add(&messages.JobEvent{Job: stored.State.GetJob(), What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: stored.State.GetResult()}}})
		return nil
	}
	seen, err := c.catalog.Look(context.Background(), id)
	if err != nil {
		return err
	}
	m := &messages.ResumeJob{Key: id, JobId: id, Task: stored.Resumed(0, c.config.Slots), AfterIncarnation: seen.Incarnation}
	if home := actors.RunsElsewhere(seen, c.config.Name); home != "" {
		m.Home, m.AfterIncarnation = home, seen.Incarnation-1
	}
	c.Sim.Send(c.Tree.Scheduler, m)
	return nil
}
