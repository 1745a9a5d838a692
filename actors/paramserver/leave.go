package paramserver

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// Leave has the ParameterServer give up its jobs, so that they go on elsewhere at
// once: the node is about to leave the others. It is of the same process, and is
// answered by Left once each job is stored and let go of.
type Leave struct{}

// Left answers Leave.
type Left struct{}

func (s *server) onLeave(ctx actor.Context) {
	s.leaving, s.left = true, ctx.Sender()
	for _, j := range s.state.sorted(func(j *job) bool { return j.phase < ended }) {
		switch {
		case j.phase == running:
			ctx.Send(s.pids[j.id], &messages.YieldJob{})
		case j.phase == waiting: // what is owned just now is let go of
			s.release(ctx, j, false)
			delete(s.state.jobs, j.id)
		}
	}
	s.leave(ctx)
}

// leave answers whoever waits for it, once nothing is left.
func (s *server) leave(ctx actor.Context) {
	if s.left == nil || s.working > 0 || len(s.state.sorted(func(j *job) bool { return j.phase == running })) > 0 {
		return
	}
	ctx.Send(s.left, &Left{})
	s.left = nil
}

// yielded takes in that a child is gone whose job is to go on elsewhere.
func (s *server) yielded(ctx actor.Context, ref *messages.JobRef) {
	j := s.state.jobs[ref.GetId()]
	if j == nil || !j.alive || j.incarnation != ref.GetIncarnation() {
		return
	}
	j.alive = false
	s.release(ctx, j, false)
	delete(s.state.jobs, j.id)
}

// errLeaving refuses what comes too late.
func errLeaving(id string) error {
	return fault.New("paramserver.start", fault.Unavailable, "job %s cannot run here: the node is about to leave", id)
}
