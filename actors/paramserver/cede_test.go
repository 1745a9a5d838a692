package paramserver_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// Where other nodes run jobs, too, an owner that lives is the Scheduler's to know: the
// job is forgotten, and begins once it is asked for again and nobody owns it.
func TestAJobOfAnotherNodeIsLeftToIt(t *testing.T) {
	s := newStageOf(t, 1, true)
	lives := true
	s.refuse = func(stale store.Sighting) (store.Sighting, error) {
		if stale == another(0) {
			return store.Sighting{}, nil
		}
		beats := 0
		if lives {
			beats = 1 + int(s.sim.Now().Sub(testkit.Epoch)/(3*time.Second))
		}
		return another(beats), fault.New("job.claim", fault.Conflict, "it runs on n9")
	}
	s.run("j1")
	for range 3 {
		reply := testkit.Expect[*messages.StartJobReply](s.scheduler)
		require.Equal(t, "n9", reply.GetOwner())
		require.Equal(t, "n1", reply.GetNode())
		require.EqualValues(t, 7, reply.GetJob().GetIncarnation())
		require.Equal(t, messages.FailureKind_FAILURE_KIND_CONFLICT, reply.GetFailure().GetKind())
	}
	lives = false
	s.sim.Advance(time.Minute)
	require.Len(t, s.born, 1)
	testkit.ExpectNone[*messages.JobFinished](s.scheduler)
	testkit.ExpectNone[*messages.JobEvent](s.journal)
}

// One that was taken over is no end that anybody hears of.
func TestAChildThatLosesItsJobIsForgotten(t *testing.T) {
	s := newStageOf(t, 1, true)
	s.start("j1", 1, 1)
	s.sim.Send(s.server, finished("j1", 1, messages.Phase_PHASE_TAKEN_OVER))
	reply := s.start("j1", 1, 1)
	require.Equal(t, messages.FailureKind_FAILURE_KIND_UNAVAILABLE, reply.GetFailure().GetKind(), "its child is there still")
	s.sim.Send(child("j1.1"), &messages.JobFinishedReply{})
	s.sim.Advance(10 * time.Second)
	testkit.ExpectNone[*messages.JobFinished](s.scheduler)
	testkit.ExpectNone[*messages.JobEvent](s.journal)
	jobs, _ := s.kept()
	require.Zero(t, jobs)
	require.Equal(t, []uint64{1}, s.released)
	require.EqualValues(t, 2, s.start("j1", 1, 1).GetJob().GetIncarnation(), "it may come back")
}

// An end that another ParameterServer's TrainJob told the store in this life of the job
// is its end; one of an earlier life is not.
func TestAnEndOfThisLifeIsAnEndWhereverItWasTold(t *testing.T) {
	for after, lives := range map[uint64]bool{4: false, 5: true} {
		s := newStageOf(t, 1, true)
		s.claims["j1"] = 5
		s.ended, s.endedBy = &messages.JobResult{Phase: messages.Phase_PHASE_FAILED}, 5
		start := startJob("j1", 1, 1)
		start.AfterIncarnation = after
		reply := testkit.Ask[*messages.StartJobReply](s.sim, s.server, start)
		require.Equal(t, lives, reply.GetPhase() == messages.Phase_PHASE_RUNNING, "%d %v", after, reply)
		s.sim.Drain()
		require.Equal(t, lives, len(s.born) == 1)
	}
}

// A node that leaves lets go of its jobs, once they are stored, and takes no more.
func TestJobsOfANodeThatLeavesAreLetGoOf(t *testing.T) {
	s := newStageOf(t, 1, true)
	s.act = func(*messages.JobRef) actorFunc {
		return func(ctx actor.Context) {
			if _, ok := ctx.Message().(*messages.YieldJob); ok { // which takes a while
				s.sim.At(3*time.Second, func() { s.sim.Stop(ctx.Self()) })
			}
		}
	}
	s.start("j1", 1, 1)
	leaver := s.sim.Probe("leaver")
	leaver.Send(s.server, &paramserver.Leave{})
	s.sim.Advance(2 * time.Second)
	testkit.ExpectNone[*paramserver.Left](leaver)
	require.Empty(t, s.released)
	reply := s.start("j2", 1, 1)
	require.Equal(t, messages.FailureKind_FAILURE_KIND_UNAVAILABLE, reply.GetFailure().GetKind())
	testkit.Expect[*paramserver.Left](leaver)
	require.Equal(t, []uint64{1}, s.released)
	s.sim.Advance(10 * time.Second)
	require.Len(t, s.born, 1, "it is not begun again here")
	testkit.ExpectNone[*messages.JobFinished](s.scheduler)
}
