package paramserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/paramserver"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

func TestStartJobStartsOnceAndTellsHowTheJobIs(t *testing.T) {
	s := newStage(t, 1)
	for range 3 {
		reply := s.start("j1", 1, 1)
		require.Nil(t, reply.GetFailure())
		require.Equal(t, messages.Phase_PHASE_RUNNING, reply.GetPhase())
		require.EqualValues(t, 1, reply.GetJob().GetIncarnation())
	}
	s.sim.Send(s.server, finished("j1", 1, messages.Phase_PHASE_SUCCEEDED))
	s.sim.Drain()
	reply := s.start("j1", 1, 1)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, reply.GetPhase())
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, reply.GetResult().GetPhase())
	require.Equal(t, []uint64{1}, s.incarnations())
}

func TestLowerTermsAreRefused(t *testing.T) {
	s := newStage(t, 1)
	s.start("j1", 3, 1)
	s.sim.Drain()
	reply := s.start("j2", 2, 9)
	require.Equal(t, messages.FailureKind_FAILURE_KIND_CONFLICT, reply.GetFailure().GetKind())
	require.Equal(t, "j2", reply.GetJob().GetId())
	resized := testkit.Ask[*messages.ResizeJobReply](s.sim, s.server, &messages.ResizeJob{Job: ref("j1", 1), Size: size(2, 9)})
	require.Equal(t, messages.FailureKind_FAILURE_KIND_CONFLICT, resized.GetFailure().GetKind())
	require.Len(t, s.born, 1)
	require.Empty(t, s.got)
}

func TestResizeAndStopReachTheJobAndItsAnswerTheAsker(t *testing.T) {
	s := newStage(t, 1)
	s.start("j1", 1, 1)
	resized := testkit.Ask[*messages.ResizeJobReply](s.sim, s.server, &messages.ResizeJob{Job: ref("j1", 0), Size: size(1, 2)})
	require.EqualValues(t, 2, resized.GetSeq())
	require.EqualValues(t, 1, resized.GetJob().GetIncarnation())
	stopped := testkit.Ask[*messages.StopJobReply](s.sim, s.server, &messages.StopJob{JobId: "j1", Reason: "enough"})
	require.Nil(t, stopped.GetFailure())
	require.Len(t, s.got, 2)
	require.EqualValues(t, 1, s.got[0].(*messages.ResizeJob).GetJob().GetIncarnation(), "named by the incarnation that runs")
}

func TestWhatCannotBeDoneIsSaid(t *testing.T) {
	s := newStage(t, 1)
	s.start("done", 1, 1)
	s.sim.Send(s.server, finished("done", 1, messages.Phase_PHASE_SUCCEEDED))
	s.start("stopped", 1, 1)
	s.sim.Send(s.server, finished("stopped", 1, messages.Phase_PHASE_STOPPED))
	s.start("runs", 1, 1)
	s.sim.Drain()
	zero := size(1, 5)
	zero.Parallelism = 0
	for name, c := range map[string]struct {
		ask  any
		want string // kind, or "" where it is done
	}{
		"resizing a job that never was":             {&messages.ResizeJob{Job: ref("j7", 1), Size: size(1, 2)}, "NOT_FOUND"},
		"resizing a job that has ended":             {&messages.ResizeJob{Job: ref("done", 1), Size: size(1, 2)}, "NOT_FOUND"},
		"resizing to nothing":                       {&messages.ResizeJob{Job: ref("runs", 1), Size: zero}, "INVALID"},
		"stopping a job that never was":             {&messages.StopJob{JobId: "j7"}, "NOT_FOUND"},
		"stopping a job that has ended":             {&messages.StopJob{JobId: "done"}, "CONFLICT"},
		"stopping a job that has stopped: a repeat": {&messages.StopJob{JobId: "stopped"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			failure := s.sim.Ask(s.server, c.ask).(interface{ GetFailure() *messages.Failure }).GetFailure()
			if c.want == "" {
				require.Nil(t, failure)
				return
			}
			require.Equal(t, "FAILURE_KIND_"+c.want, failure.GetKind().String())
		})
	}
}

func TestEndIsAnsweredAndRepeatedToTheSchedulerUntilItAnswers(t *testing.T) {
	s := newStage(t, 1)
	s.start("j1", 1, 1)
	end := finished("j1", 1, messages.Phase_PHASE_SUCCEEDED)
	for range 2 { // its repeat is answered, too
		reply := testkit.Ask[*messages.JobFinishedReply](s.sim, s.server, end)
		require.Equal(t, end.GetJob(), reply.GetJob())
	}
	for range 3 {
		got := testkit.Expect[*messages.JobFinished](s.scheduler)
		require.Same(t, end.GetResult(), got.GetResult())
	}
	s.scheduler.Respond(&messages.JobFinishedReply{Job: end.GetJob()})
	s.sim.Drain()
	s.scheduler.Clear()
	s.sim.Advance(time.Minute)
	testkit.ExpectNone[*messages.JobFinished](s.scheduler)
}

// Jobs that ended and that the Scheduler knows of are forgotten in time, others
// never: a StartJob that is under way for long starts nothing twice.
func TestMemoryIsBounded(t *testing.T) {
	s := newStage(t, 1)
	s.act = func(r *messages.JobRef) actorFunc {
		return func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok && r.GetId() != "j0000" {
				ctx.Request(ctx.Parent(), finished(r.GetId(), 1, messages.Phase_PHASE_SUCCEEDED))
			}
		}
	}
	silent := true
	s.scheduler.Answer = func(msg any) any {
		if end, ok := msg.(*messages.JobFinished); ok && !silent {
			return &messages.JobFinishedReply{Job: end.GetJob()}
		}
		return nil
	}
	const jobs = paramserver.MaxEnded + 200
	for i := range jobs {
		s.start(fmt.Sprintf("j%04d", i), 1, 1)
	}
	s.sim.Send(s.server, finished("j0000", 1, messages.Phase_PHASE_SUCCEEDED)) // its child does not hear the answer
	s.sim.Drain()
	kept, _ := s.kept()
	require.Equal(t, jobs, kept, "the Scheduler knows none of the ends")
	silent = false
	s.sim.Advance(2 * time.Second)
	kept, _ = s.kept()
	require.Equal(t, paramserver.MaxEnded, kept)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.start("j0000", 1, 1).GetPhase(), "its child lives")
	require.Len(t, s.born, jobs)
}

func TestStoppingTheServerStopsItsJobsAndLeavesNoTimer(t *testing.T) {
	s := newStage(t, 1)
	s.start("j1", 1, 1)
	s.start("j2", 1, 1)
	s.sim.Ask(s.server, &messages.StopJob{JobId: "j2"})
	s.sim.Advance(3 * time.Second)
	s.scheduler.Watch(child("j1.1"))
	s.sim.Stop(s.server)
	s.sim.Run(time.Minute)
	testkit.Expect[*actor.Terminated](s.scheduler)
	require.Len(t, s.born, 2, "nothing is respawned")
	require.Empty(t, s.journal.Messages(), "and nothing has ended")
}
