package actors

import (
	"context"
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/job"
)

// RunsElsewhere returns the node that a job was last at home on, where that is
// another one of this cluster, which may run it still: "" for none.
func RunsElsewhere(seen job.Sighting, here string) string {
	if seen.Incarnation == 0 || seen.Owner.Node == here {
		return ""
	}
	return seen.Owner.Node
}

// takeUp has the Scheduler know of a job that was at home on another node when the
// server before this one ended: it goes on there, or once that node is gone elsewhere.
// Nothing of it is waited for.
func (c *Company) takeUp(ctx context.Context, o orphan, n uint32, seen job.Sighting, since time.Time) error {
	t := o.Resumed(n, c.slots)
	c.board.Submitted(o.goesOn(t, o.life), since)
	reply, err := command[*messages.SubmitJobReply](ctx, c, c.tree.Scheduler, &messages.ResumeJob{
		Key: lifeKey(o.ID, o.life), JobId: o.ID, Task: c.bound(t), AfterIncarnation: seen.Incarnation - 1,
		SubmittedMs: o.submittedMs, Home: seen.Owner.Node,
	})
	if err != nil {
		c.board.Drop(o.ID)
		return err
	}
	c.mu.Lock()
	c.resumed[o.ID], c.takenUp[o.ID] = reply.GetAfterIncarnation(), seen.Incarnation
	c.mu.Unlock()
	c.heedStop(o.ID, o.life)
	return nil
}

// tookUp reports whether an incarnation of a job began before this process, which has
// but its last events.
func (c *Company) tookUp(id string, incarnation uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return incarnation > 0 && c.takenUp[id] == incarnation
}

// epochsSince returns epochs and those after them that stored events tell of, as far
// as the store gives them: a job on another node has come further than its state, and
// tells again only what nobody has acknowledged.
func epochsSince(epochs []*messages.EpochRecord, events iter.Seq2[[]byte, error]) []*messages.EpochRecord {
	epochs = slices.Clone(epochs)
	for line, err := range events {
		e := &messages.JobEvent{}
		if err != nil || protojson.Unmarshal(line, e) != nil {
			continue // one line: what comes after it counts all the same
		}
		if record := e.GetEpochFinished().GetRecord(); record.GetEpoch() == uint32(len(epochs))+1 {
			epochs = append(epochs, record)
		}
	}
	return epochs
}
