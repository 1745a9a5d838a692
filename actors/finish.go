package actors

import (
	"context"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/job"
)

// finish completes what a process left that was killed as its job ended: the end
// among the events, and of a job that has SUCCEEDED the files that nobody goes on
// from. It claims the job for that, by own, so that it comes in nobody's way: who still
// runs it does it itself. Nothing is done where nothing is left to do.
func finish(ctx context.Context, catalog *job.Catalog, id string, own func() (*job.Claim, error)) error {
	stored, err := PeekJob(ctx, catalog, id)
	if err != nil {
		return err
	}
	left, err := leftOf(ctx, catalog, stored)
	if err != nil || left == (leftovers{}) {
		return err
	}
	claim, err := own()
	if kind := fault.KindOf(err); kind == fault.Conflict || kind == fault.NotFound {
		return nil // somebody is at it, or has deleted it
	}
	if err != nil {
		return err
	}
	defer func() { _ = claim.Release() }() // at worst others wait for it to look dead
	if stored, err = PeekJob(ctx, catalog, id); err != nil {
		return err
	}
	if left, err = leftOf(ctx, catalog, stored); err != nil { // now that nobody else changes it
		return err
	}
	if left.files {
		if err := claim.Clear(ctx); err != nil {
			return err
		}
	}
	if left.untold {
		line, err := protojson.Marshal(stored.end(left.seq))
		if err != nil {
			return fault.New("actors.finish", fault.Invalid, "job %s: its end cannot be written: %w", id, err)
		}
		return catalog.AddEvents(ctx, id, stored.incarnation, append(line, '\n'))
	}
	return nil
}

// leftovers is what is left to do for a job that has ended.
type leftovers struct {
	files  bool   // that nobody goes on from are there
	untold bool   // its end is not among its events
	seq    uint64 // of the last one, if so
}

func leftOf(ctx context.Context, catalog *job.Catalog, stored *StoredJob) (left leftovers, err error) {
	if stored.State.GetResult() == nil {
		return leftovers{}, nil
	}
	if stored.succeeded() {
		if left.files, err = catalog.HasFiles(ctx, stored.ID); err != nil {
			return leftovers{}, err
		}
	}
	left.untold = true
	for line, err := range catalog.Events(ctx, stored.ID, stored.incarnation) {
		e := &messages.JobEvent{}
		switch {
		case fault.KindOf(err) == fault.Corrupt: // one line
			continue
		case err != nil:
			return leftovers{}, err
		case readJSON.Unmarshal(line, e) != nil:
			continue
		}
		left.seq = max(left.seq, e.GetSeq())
		left.untold = left.untold && e.GetEnded() == nil
	}
	if !left.untold {
		left.seq = 0
	}
	return left, nil
}

// succeeded reports whether the job, which may be nil, has SUCCEEDED.
func (j *StoredJob) succeeded() bool {
	return j != nil && j.State.GetResult().GetPhase() == messages.Phase_PHASE_SUCCEEDED
}

// end is the event that a job has ended, as its state tells it, behind an event
// of that number; nil where it has not.
func (j *StoredJob) end(after uint64) *messages.JobEvent {
	st := j.State
	if st.GetResult() == nil {
		return nil
	}
	return &messages.JobEvent{
		Job: st.GetJob(), Seq: max(st.GetEvents(), after) + 1, TimeMs: st.GetTimeMs(),
		What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: st.GetResult()}},
	}
}
