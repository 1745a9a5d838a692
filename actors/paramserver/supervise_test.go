package paramserver_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

var errBug = errors.New("index out of range [3] with length 3")

// bornToPanic lets the first n incarnations panic as they start.
func bornToPanic(n uint64, err error) func(*messages.JobRef) actorFunc {
	return func(r *messages.JobRef) actorFunc {
		return func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok && r.GetIncarnation() <= n {
				panic(err)
			}
		}
	}
}

func TestJobThatPanicsIsRespawnedWithBackOffAndItsNewestSize(t *testing.T) {
	s := newStage(t, 1)
	s.start("j1", 1, 1)
	s.sim.Ask(s.server, &messages.ResizeJob{Job: ref("j1", 1), Size: size(1, 4)})
	s.sim.Ask(s.server, &messages.ResizeJob{Job: ref("j1", 1), Size: size(1, 3)}) // late
	began := s.sim.Now()
	s.act = bornToPanic(3, errBug)
	s.sim.Crash(child("j1.1"), errBug)
	s.sim.Send(child("j1.1"), &messages.ResizeJob{})
	s.sim.Advance(time.Minute)
	require.Equal(t, []uint64{1, 2, 3, 4}, s.incarnations(), "never restarted in place")
	for i, after := range []time.Duration{1 * time.Second, 3 * time.Second, 7 * time.Second} {
		require.Equal(t, began.Add(after), s.ages[i+1])
		require.EqualValues(t, 4, s.sizes[i+1].GetSeq())
	}
	reply := s.start("j1", 1, 4)
	require.EqualValues(t, 4, reply.GetJob().GetIncarnation())
	require.Equal(t, messages.Phase_PHASE_RUNNING, reply.GetPhase())
	require.Empty(t, s.scheduler.Messages(), "the job goes on")
}

func TestJobThatDiesTooOftenHasFailedForItsLastPanic(t *testing.T) {
	s := newStage(t, 1)
	s.act = bornToPanic(99, errBug)
	s.start("j1", 1, 1)
	end := testkit.Expect[*messages.JobFinished](s.scheduler)
	require.Equal(t, []uint64{1, 2, 3, 4}, s.incarnations())
	result := end.GetResult()
	require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
	require.Equal(t, fault.Unknown, fault.KindOf(wire.Error(result.GetFailure())))
	require.Equal(t, "the job died 4 times, at last of: "+errBug.Error(), result.GetFailure().GetText())
	require.InDelta(t, 7, result.GetWallS(), 0)

	for range 2 { // the end is an event of its own, until the Journal has it
		event := testkit.Expect[*messages.JobEvent](s.journal)
		require.EqualValues(t, 5, event.GetJob().GetIncarnation())
		require.EqualValues(t, 1, event.GetSeq())
		require.Same(t, result, event.GetEnded().GetResult())
	}
	s.journal.Respond(&messages.JobEventReply{Job: ref("j1", 5), Seq: 1})
	s.sim.Drain()
	_, outboxes := s.kept()
	require.Zero(t, outboxes)
	require.Equal(t, messages.Phase_PHASE_FAILED, s.start("j1", 1, 1).GetPhase())
	s.sim.Advance(time.Minute)
	require.Len(t, s.born, 4)
}

func TestEveryKindOfPanicIsAnswered(t *testing.T) {
	respawned := map[fault.Kind]bool{fault.Unknown: true, fault.Unavailable: true, fault.Corrupt: true}
	for _, kind := range fault.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			s := newStage(t, 1)
			s.act = bornToPanic(1, fault.New("test.panic", kind, "boom"))
			s.start("j1", 1, 1)
			s.sim.Advance(10 * time.Second)
			if respawned[kind] {
				require.Equal(t, []uint64{1, 2}, s.incarnations())
				return
			}
			require.Equal(t, []uint64{1}, s.incarnations())
			failure := testkit.Expect[*messages.JobFinished](s.scheduler).GetResult().GetFailure()
			require.Equal(t, kind, fault.KindOf(wire.Error(failure)))
			require.Equal(t, "the job cannot go on: boom", failure.GetText())
		})
	}
}

func TestJobThatCannotBeSpawnedHasDied(t *testing.T) {
	s := newStage(t, 1)
	s.act = func(*messages.JobRef) actorFunc { panic(errBug) }
	require.Equal(t, messages.Phase_PHASE_RUNNING, s.start("j1", 1, 1).GetPhase(), "it will be tried again")
	result := testkit.Expect[*messages.JobFinished](s.scheduler).GetResult()
	require.Contains(t, result.GetFailure().GetText(), errBug.Error())
	require.Empty(t, s.born)
}

func TestJobThatStopsWithoutAResultIsRespawned(t *testing.T) {
	s := newStage(t, 1)
	s.start("j1", 1, 1)
	s.sim.Stop(child("j1.1"))
	s.sim.Advance(2 * time.Second)
	require.Equal(t, []uint64{1, 2}, s.incarnations())
}

func TestStopBetweenIncarnationsEndsTheJob(t *testing.T) {
	s := newStage(t, 1)
	s.act = bornToPanic(1, errBug)
	s.start("j1", 1, 1)
	s.sim.Drain() // dead, and not yet respawned
	for range 2 {
		reply := testkit.Ask[*messages.StopJobReply](s.sim, s.server, &messages.StopJob{JobId: "j1", Reason: "enough"})
		require.Nil(t, reply.GetFailure())
	}
	end := testkit.Expect[*messages.JobFinished](s.scheduler)
	require.Equal(t, messages.Phase_PHASE_STOPPED, end.GetResult().GetPhase())
	require.Equal(t, "enough", end.GetResult().GetFailure().GetText())
	require.Same(t, end.GetResult(), testkit.Expect[*messages.JobEvent](s.journal).GetEnded().GetResult())
	s.sim.Advance(time.Minute)
	require.Equal(t, []uint64{1}, s.incarnations())
}

func TestJobThatDiesOfItsStopIsStopped(t *testing.T) {
	s := newStage(t, 1)
	s.start("j1", 1, 1)
	s.sim.Crash(child("j1.1"), errBug)
	s.sim.Send(s.server, &messages.StopJob{JobId: "j1", Reason: "enough"})
	require.Equal(t, messages.Phase_PHASE_STOPPED, testkit.Expect[*messages.JobFinished](s.scheduler).GetResult().GetPhase())
	s.sim.Advance(time.Minute)
	require.Equal(t, []uint64{1}, s.incarnations())
}

func TestSizeBetweenIncarnationsIsTheNextOnes(t *testing.T) {
	s := newStage(t, 1)
	s.act = bornToPanic(1, errBug)
	s.start("j1", 1, 1)
	s.sim.Drain()
	reply := testkit.Ask[*messages.ResizeJobReply](s.sim, s.server, &messages.ResizeJob{Job: ref("j1", 1), Size: size(1, 7)})
	require.EqualValues(t, 7, reply.GetSeq())
	s.sim.Advance(2 * time.Second)
	require.EqualValues(t, 7, s.sizes[1].GetSeq())
}

// The end that a dead incarnation sent before it died counts, as long as no
// later one has begun; after that it does not.
func TestEndOfADeadIncarnationCountsUntilTheNextBegins(t *testing.T) {
	s := newStage(t, 1)
	s.act = bornToPanic(1, errBug)
	s.start("j1", 1, 1)
	s.start("j2", 1, 1)
	s.sim.Drain()
	end := finished("j1", 1, messages.Phase_PHASE_SUCCEEDED)
	testkit.Ask[*messages.JobFinishedReply](s.sim, s.server, end)
	event := testkit.Expect[*messages.JobEvent](s.journal)
	require.EqualValues(t, 2, event.GetJob().GetIncarnation(), "the dead one may not have told the Journal")
	require.Same(t, end.GetResult(), event.GetEnded().GetResult())
	s.sim.Advance(2 * time.Second)
	testkit.Ask[*messages.JobFinishedReply](s.sim, s.server, finished("j2", 1, messages.Phase_PHASE_SUCCEEDED))
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.start("j1", 1, 1).GetPhase())
	require.Equal(t, messages.Phase_PHASE_RUNNING, s.start("j2", 1, 1).GetPhase())
	require.Equal(t, []uint64{1, 1, 2}, s.incarnations())
}

// A job that dies after its end may not have told the Journal.
func TestJobThatDiesAfterItsEndHasItsEndTold(t *testing.T) {
	s := newStage(t, 1)
	s.start("j1", 1, 1)
	end := finished("j1", 1, messages.Phase_PHASE_SUCCEEDED)
	s.sim.Send(s.server, end)
	s.sim.Crash(child("j1.1"), errBug)
	s.sim.Send(child("j1.1"), &messages.JobFinishedReply{Job: end.GetJob()})
	event := testkit.Expect[*messages.JobEvent](s.journal)
	require.EqualValues(t, 2, event.GetJob().GetIncarnation())
	require.Same(t, end.GetResult(), event.GetEnded().GetResult())
	s.sim.Advance(time.Minute)
	require.Equal(t, []uint64{1}, s.incarnations())
}

// Whatever happens to messages and jobs, each incarnation begins once, and each
// job ends once, for the Scheduler and for the Journal.
func TestEveryJobEndsOnce(t *testing.T) {
	for seed := range testkit.Seeds(t, 100) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStage(t, seed)
			rng := s.sim.Rand()
			s.sim.Faults = testkit.Faults{Drop: 0.2, Duplicate: 0.2, Delay: 0.3, MaxDelay: 3 * time.Second}
			s.act = func(r *messages.JobRef) actorFunc {
				end := finished(r.GetId(), r.GetIncarnation(), messages.Phase_PHASE_SUCCEEDED)
				over := false
				return func(ctx actor.Context) {
					switch ctx.Message().(type) {
					case *actor.Started, *messages.StartJob: // its clock
						if rng.IntN(10) < 3 {
							panic(errBug)
						}
						if over = over || rng.IntN(5) == 0; over {
							ctx.Request(ctx.Parent(), end)
						}
						s.sim.Rim().SendAfter(time.Second, ctx.Self(), &messages.StartJob{})
					}
				}
			}
			ends := map[string]messages.Phase{}
			s.scheduler.Answer = func(msg any) any {
				switch m := msg.(type) {
				case *messages.JobFinished:
					id := m.GetJob().GetId()
					if phase, again := ends[id]; again {
						require.Equal(t, phase, m.GetResult().GetPhase())
					}
					ends[id] = m.GetResult().GetPhase()
					return &messages.JobFinishedReply{Job: m.GetJob()}
				}
				return nil
			}
			s.journal.Answer = func(msg any) any {
				m := msg.(*messages.JobEvent)
				return &messages.JobEventReply{Job: m.GetJob(), Seq: m.GetSeq()}
			}
			for i := range 5 {
				id := fmt.Sprintf("j%d", i)
				var again func()
				again = func() {
					if _, over := ends[id]; !over {
						s.scheduler.Send(s.server, startJob(id, 1, 1))
						s.sim.At(time.Second, again)
					}
				}
				again()
			}
			s.sim.RunUntil(func() bool { return len(ends) == 5 }, 10*time.Minute)
			begun := map[string]uint64{}
			for _, r := range s.born {
				begun[r.GetId()]++
				require.Equal(t, begun[r.GetId()], r.GetIncarnation())
			}
			s.sim.RunUntil(func() bool { _, outboxes := s.kept(); return outboxes == 0 }, time.Minute)
		})
	}
}

// A job that dies and dies, but each time further on, is not given up, whether or
// not the store has heard how far it was.
func TestJobThatDiesFurtherOnEachTimeGoesOn(t *testing.T) {
	s := newStage(t, 1)
	s.act = func(ref *messages.JobRef) actorFunc {
		return func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok && ref.GetIncarnation() <= 9 {
				ctx.Send(ctx.Parent(), &messages.KeepState{State: &messages.JobState{Job: ref, ModelVersion: ref.GetIncarnation()}})
				panic(errBug)
			}
		}
	}
	s.start("j1", 1, 1)
	s.sim.Advance(time.Minute)
	require.Len(t, s.incarnations(), 10)
	require.Empty(t, s.scheduler.Messages())
}
