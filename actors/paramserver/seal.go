package paramserver

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// Ended is an end that the store has.
type Ended struct {
	Incarnation uint64 // under which
	Result      *messages.JobResult
}

// sealed is how storing an end went.
type sealed struct {
	job  *job
	end  *Ended
	seen store.Sighting
	err  error
}

// seal has the store keep how a concluded job ends, once all that it had is let
// go of: whoever looks there next, this node's next server among them, shall
// not take it for one that goes on.
func (s *server) seal(ctx actor.Context, j *job) {
	if s.stopping || !s.state.toSeal(j) {
		return
	}
	j.leaving++
	id, start, store, over, stale, end := j.id, j.start, s.deps.End, j.over, j.stale(s.deps.Rim.Now()), j.end
	s.deps.Rim.Go(ctx.Self(), func() any {
		kept, seen, err := store(id, start, end, over, stale)
		return &sealed{job: j, end: kept, seen: seen, err: err}
	})
}

func (s *server) onSealed(ctx actor.Context, m *sealed) {
	j := m.job
	j.leaving--
	if s.deps.Shared && j.phase == ending && s.state.jobs[j.id] == j && j.livesElsewhere(m.seen, m.err) {
		s.cede(ctx, j, m.seen)
		return
	}
	tell := s.state.sealed(s.deps.Rim.Now(), m)
	if m.err != nil {
		s.unsealed(j, m.err)
	}
	if tell {
		s.tell(ctx, j)
	}
	if j.sealing {
		s.deps.Rim.SendAfter(tickEvery, ctx.Self(), &sealDue{j})
	}
}

// unsealed says that an end is not stored: to the log while that lasts, and to
// people once if they wait for it.
func (s *server) unsealed(j *job, why error) {
	now := s.deps.Rim.Now()
	first := j.told == actorkit.Sparse{}
	s.deps.Log.Log(j.told.Level(now), "end of a job not stored", zap.String("job_id", j.id), zap.Bool("again", j.sealing), zap.Error(why))
	if first && s.deps.Warn != nil && j.phase == ending {
		s.deps.Warn(fmt.Sprintf("job %s is about to end, but the store does not take its end: %v; it is tried for up to %v more, and then the job ends without that",
			j.id, why, (endFor - now.Sub(j.decided)).Round(time.Second)))
	}
}

// toSeal reports whether the store is to get a job's end now.
func (s *state) toSeal(j *job) bool {
	return s.jobs[j.id] == j && j.sealing && j.leaving == 0 && !j.asking
}

// sealed takes in how storing an end went, and reports whether the end is to be
// told now. One that was told without the store is tried on until the job begins
// anew, or is another's.
func (s *state) sealed(now time.Time, m *sealed) (tell bool) {
	j := m.job
	early := j.phase == ending
	switch {
	case m.err == nil:
		j.sealing = false
		if early {
			j.tell(m.end.Incarnation, m.end.Result)
		}
	case j.mayBeOwned(now, m.seen, m.err):
		j.unsealed = m.err
		return false
	case fault.KindOf(m.err) == fault.Conflict && m.seen.Incarnation > 0 && early:
		j.takenOver(m.seen)
	default:
		j.sealing, j.unsealed = false, m.err
		if early && fault.KindOf(m.err) == fault.NotFound { // nor would anybody go on with it
			j.tell(j.over+1, j.end)
		} else if early {
			j.tellUnsealed()
		}
	}
	return early
}

// late returns the jobs whose ends the store does not take in time; they are to
// be told.
func (s *state) late(now time.Time) (late []*job) {
	for _, j := range s.sorted(func(j *job) bool { return j.phase == ending && now.Sub(j.decided) >= endFor }) {
		if j.unsealed == nil {
			j.unsealed = fault.New("paramserver.seal", fault.Unavailable, "it does not answer")
		}
		j.tellUnsealed()
		late = append(late, j)
	}
	return late
}
