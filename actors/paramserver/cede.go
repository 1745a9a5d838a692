package paramserver

import (
	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// livesElsewhere reports whether a job that could not be owned has an owner that has
// given a sign of life while it was watched.
func (j *job) livesElsewhere(seen store.Sighting, err error) bool {
	none := store.Sighting{}
	return fault.KindOf(err) == fault.Conflict && seen.Incarnation > 0 && j.seen != none && j.seen != seen
}

// cede forgets a job that another node owns, and tells the Scheduler which: it knows
// whether that one is the job's home, and asks again if not.
func (s *server) cede(ctx actor.Context, j *job, seen store.Sighting) {
	s.deps.Log.Info("job is another's", zap.String("job_id", j.id), zap.String("node", seen.Owner.Node), zap.Uint64("incarnation", seen.Incarnation))
	s.release(ctx, j, true)
	delete(s.state.jobs, j.id)
	to := s.askers[j.id]
	if to == nil {
		to = s.deps.Scheduler()
	}
	delete(s.askers, j.id)
	actorkit.Request(ctx, to, &messages.StartJobReply{
		Job: &messages.JobRef{Id: j.id, Incarnation: seen.Incarnation}, Node: s.deps.Node, Owner: seen.Owner.Node,
		Failure: wire.Failure(seen.TakenOver("paramserver.own", j.id)),
	})
}

// lost takes in that another node has taken a job over from its child: it is
// forgotten once that is gone.
func (s *state) lost(m *messages.JobFinished) {
	if j, _ := s.finish(m); j != nil {
		j.ceded, j.reported = true, true
	}
}

// errBusy is the answer about a job of which something is left that is over.
func (j *job) errBusy() error {
	return fault.New("paramserver.start", fault.Unavailable, "job %s was taken over from this node, which is about to let go of it", j.id)
}
