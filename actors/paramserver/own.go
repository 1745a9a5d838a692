package paramserver

import (
	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/internal/fault"
)

// own makes this node the owner of a job that waits for that. The incarnation
// before, which is dead, is let go of first.
func (s *server) own(ctx actor.Context, j *job) {
	if !s.state.wanted(j) {
		return
	}
	var before *Owned
	if j.owned != nil && !j.released {
		before, j.released = j.owned, true
	}
	j.asking = true
	s.working++
	id, start, own, stale := j.id, j.start, s.deps.Own, j.stale(s.deps.Rim.Now())
	s.deps.Rim.Go(ctx.Self(), func() any {
		if before != nil {
			before.Release()
		}
		owned, seen, err := own(id, start, stale)
		return &claimed{job: j, owned: owned, seen: seen, err: err}
	})
}

func (s *server) onClaimed(ctx actor.Context, m *claimed) {
	j := m.job
	j.asking = false
	s.working--
	defer s.leave(ctx)
	switch {
	case m.err == nil && (s.stopping || !s.state.wanted(j)): // it was stopped meanwhile
		s.letGo(ctx, j, func() { m.owned.Release() })
	case m.err == nil && m.owned.Incarnation <= j.start.GetAfterIncarnation(): // under it an end was told that nobody owned
		s.letGo(ctx, j, func() { m.owned.Release() })
		s.deps.Rim.SendAfter(0, ctx.Self(), &ownDue{j})
	case m.err == nil && s.state.hasEnded(j, m.owned):
		s.conclude(ctx, j)
	case m.err == nil:
		s.state.owns(s.deps.Rim.Now(), j, m.owned)
		s.spawn(ctx, j)
		s.answer(ctx, j)
	case s.stopping || !s.state.wanted(j):
		s.seal(ctx, j)
	case s.deps.Shared && j.livesElsewhere(m.seen, m.err):
		s.cede(ctx, j, m.seen)
	case s.state.refused(s.deps.Rim.Now(), j, m.seen, m.err):
		s.conclude(ctx, j)
	default:
		s.complain(j, m.err)
		s.deps.Rim.SendAfter(tickEvery, ctx.Self(), &ownDue{j})
	}
}

// complain says why a job is not owned yet, see complains. An owner that is
// watched concerns the log alone: it is over within patience.
func (s *server) complain(j *job, why error) {
	if !j.complains(s.deps.Rim.Now(), why) {
		return
	}
	s.deps.Log.Warn("job not owned yet", zap.String("job_id", j.id), zap.Error(why))
	if s.deps.Warn != nil && fault.KindOf(why) != fault.Conflict {
		s.deps.Warn(j.complaint())
	}
}

// release lets go of a job that has ended, and removes what it has left here
// where nobody else has. What is to be stored of its end follows.
func (s *server) release(ctx actor.Context, j *job, discard bool) {
	if j == nil || j.owned == nil {
		return
	}
	owned, held := j.owned, !j.released
	j.released = true
	s.letGo(ctx, j, func() {
		if discard {
			owned.Discard()
		}
		if held {
			owned.Release()
		}
	})
}

func (s *server) onReleased(ctx actor.Context, j *job) {
	j.leaving--
	s.working--
	s.seal(ctx, j)
	s.leave(ctx)
}

func (s *server) letGo(ctx actor.Context, j *job, do func()) {
	j.leaving++
	s.working++
	s.deps.Rim.Go(ctx.Self(), func() any {
		do()
		return &released{j}
	})
}

// answer tells who waits for it how a job is.
func (s *server) answer(ctx actor.Context, j *job) {
	if asker := s.askers[j.id]; asker != nil {
		ctx.Request(asker, j.status(s.deps.Node))
	}
	delete(s.askers, j.id)
}
