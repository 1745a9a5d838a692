package paramserver

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// HandleFailure implements actor.SupervisorStrategy: a TrainJob that panics is
// stopped, and what follows is decided once it is gone.
func (s *server) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	if ref := s.children[child.GetId()]; ref != nil {
		err := actorkit.Panicked(reason)
		s.deps.Log.Warn("job crashed", zap.String("job_id", ref.GetId()), zap.Uint64("incarnation", ref.GetIncarnation()),
			zap.Stringer("kind", fault.KindOf(err)), zap.Error(err))
		s.state.crashed(ref, err)
	}
	supervisor.StopChildren(child)
}

// onTerminated decides what follows from the death of a child, unless it is the
// death of all.
func (s *server) onTerminated(ctx actor.Context, m *actor.Terminated) {
	ref := s.children[m.Who.GetId()]
	if ref == nil || s.stopping {
		return
	}
	delete(s.children, m.Who.GetId())
	delete(s.pids, ref.GetId())
	if j := s.state.jobs[ref.GetId()]; s.leaving && j != nil && j.phase == running {
		s.yielded(ctx, ref)
		s.leave(ctx)
		return
	}
	s.onGone(ctx, ref)
}

func (s *server) onGone(ctx actor.Context, ref *messages.JobRef) {
	switch j, next := s.state.gone(s.deps.Rim.Now(), ref); next {
	case respawn:
		s.deps.Rim.SendAfter(j.delay(), ctx.Self(), &ownDue{j})
	case concluded:
		s.conclude(ctx, j)
	case nothing:
		s.release(ctx, j, j != nil && j.ceded)
		if j != nil && j.ceded {
			delete(s.state.jobs, j.id)
		}
	}
}

// spawn starts the job's incarnation. One that cannot be started has died.
func (s *server) spawn(ctx actor.Context, j *job) {
	ref := j.ref()
	pid, err := s.spawnChild(ctx, ref, j)
	if err != nil {
		s.deps.Log.Warn("job not spawned", zap.String("job_id", j.id), zap.Uint64("incarnation", j.incarnation), zap.Error(err))
		s.state.crashed(ref, err)
		s.onGone(ctx, ref)
		return
	}
	s.children[pid.GetId()], s.pids[j.id] = ref, pid
	s.deps.Log.Info("job launched", zap.String("job_id", j.id), zap.Uint64("incarnation", j.incarnation))
}

// spawnChild spawns an incarnation. A panic of its producer is an error.
func (s *server) spawnChild(ctx actor.Context, ref *messages.JobRef, j *job) (pid *actor.PID, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = actorkit.Panicked(reason)
		}
	}()
	return ctx.SpawnNamed(j.owned.Job(ref, j.start), fmt.Sprintf("%s.%d", ref.GetId(), ref.GetIncarnation()))
}

// conclude has the world know of an end that no TrainJob is left to tell; where
// it is decided here, once the store has it.
func (s *server) conclude(ctx actor.Context, j *job) {
	s.release(ctx, j, true)
	if j.phase == ended {
		s.tell(ctx, j)
	}
	s.seal(ctx, j)
}

func (s *server) tell(ctx actor.Context, j *job) {
	s.answer(ctx, j)
	ref := j.ref()
	outbox := actorkit.NewOutbox(ref)
	s.outboxes[j.id] = outbox
	outbox.Post(ctx, s.deps.Journal(), s.deps.Rim.Now(), actorkit.EndEvent(j.result))
	s.free(ctx, j)
	if !j.reported {
		s.report(ctx, j)
	}
}

func (s *server) onJobEventReply(m *messages.JobEventReply) {
	id := m.GetJob().GetId()
	outbox := s.outboxes[id]
	if outbox == nil {
		return
	}
	outbox.Acknowledge(m)
	if outbox.Empty() {
		delete(s.outboxes, id)
	}
}
