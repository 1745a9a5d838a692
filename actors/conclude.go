package actors

import (
	"context"
	"io"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/job"
)

// End stores that a job has ended which nobody runs, under its next incarnation
// above over; see paramserver.Deps.
func (j *Jobs) End(ctx context.Context, id string, start *messages.StartJob, end *messages.JobResult, over uint64, stale job.Sighting) (*paramserver.Ended, job.Sighting, error) {
	owned := j.take(id)
	for owned == nil || owned.Incarnation() <= over { // under such a number something was told
		if owned != nil {
			owned.Release()
		}
		var seen job.Sighting
		var err error
		if owned, seen, err = j.claim(ctx, id, stale); err != nil {
			return nil, seen, err
		}
	}
	defer owned.Release()
	ref := &messages.JobRef{Id: id, Incarnation: owned.Incarnation()}
	thisLife := owned.fromN > start.GetAfterIncarnation()
	if told := owned.Ended(); told != nil && (thisLife || told.GetPhase() == messages.Phase_PHASE_SUCCEEDED) {
		return &paramserver.Ended{Incarnation: ref.GetIncarnation(), Result: told}, job.Sighting{}, nil
	}
	last := owned.last()
	if last.History == nil {
		last.History = &messages.JobHistory{WallS: end.GetWallS()}
	}
	if !thisLife {
		last.History.QueuedS += (time.Duration(start.GetQueuedMs()) * time.Millisecond).Seconds()
	}
	err := owned.Conclude(ctx, last, end.GetPhase(), end.GetFailure(), time.UnixMilli(j.now()))
	return &paramserver.Ended{Incarnation: ref.GetIncarnation(), Result: last.GetResult()}, job.Sighting{}, err
}

// last is the state that a job ends with which goes no further.
func (o *OwnedJob) last() *messages.JobState {
	from := o.From()
	if from == nil {
		return &messages.JobState{}
	}
	st := proto.CloneOf(from)
	st.Before = train.EventsUpTo(from)
	return st
}

// Conclude stores that the job has ended, with what it can be taken up from: the
// tensors of the last incarnation that came somewhere. It completes the state.
func (o *OwnedJob) Conclude(ctx context.Context, st *messages.JobState, phase messages.Phase, why *messages.Failure, now time.Time) error {
	st.Result = train.ResultOf(st, phase, why, o.task.GetOptions().GetMerge(), now)
	st.Job, st.Events, st.TimeMs = &messages.JobRef{Id: o.id, Incarnation: o.Incarnation()}, 0, now.UnixMilli()
	return o.save(ctx, st, func(ref *messages.TensorRef, w io.Writer) error {
		r, err := o.Open(ctx, ref)
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = io.Copy(w, r)
		return err
	})
}
