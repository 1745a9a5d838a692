package paramserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// another is an owner as it is seen, with as many beats.
func another(beats int) store.Sighting {
	return store.Sighting{Incarnation: 7, Owner: store.Owner{Node: "n9", PID: 4}, Beat: fmt.Sprint(beats)}
}

// run has the Scheduler ask for a job each second.
func (s *stage) run(id string) {
	var again func()
	again = func() {
		s.scheduler.Send(s.server, startJob(id, 1, 1))
		s.sim.At(time.Second, again)
	}
	again()
}

// An owner that gives no sign of life for 10 s is gone; one that does runs the
// job, which is not ours then.
func TestAnOwnerIsWatchedBeforeItIsReplaced(t *testing.T) {
	t.Run("gone", func(t *testing.T) {
		s := newStage(t, 1)
		var stale time.Duration
		s.refuse = func(gone store.Sighting) (store.Sighting, error) {
			if gone == another(1) {
				stale = s.sim.Now().Sub(testkit.Epoch)
				return store.Sighting{}, nil
			}
			require.Zero(t, gone)
			return another(1), fault.New("job.claim", fault.Conflict, "it runs on n9")
		}
		s.run("j1")
		s.sim.Advance(9 * time.Second)
		require.Empty(t, s.born)
		testkit.ExpectNone[*messages.StartJobReply](s.scheduler)
		s.sim.Advance(3 * time.Second)
		require.InDelta(t, 10, stale.Seconds(), 1)
		require.Len(t, s.born, 1)
		require.Equal(t, messages.Phase_PHASE_RUNNING, testkit.Expect[*messages.StartJobReply](s.scheduler).GetPhase())
	})
	t.Run("alive", func(t *testing.T) {
		s := newStage(t, 1)
		s.refuse = func(store.Sighting) (store.Sighting, error) {
			return another(int(s.sim.Now().Sub(testkit.Epoch) / (3 * time.Second))), fault.New("job.claim", fault.Conflict, "it runs on n9")
		}
		s.run("j1")
		end := testkit.Expect[*messages.JobFinished](s.scheduler)
		require.Equal(t, messages.Phase_PHASE_TAKEN_OVER, end.GetResult().GetPhase())
		require.Equal(t, messages.FailureKind_FAILURE_KIND_CONFLICT, end.GetResult().GetFailure().GetKind())
		require.Regexp(t, `^job j1 was taken over by pid \d+ \(node n9\) as incarnation \d+$`, end.GetResult().GetFailure().GetText())
		event := testkit.Expect[*messages.JobEvent](s.journal)
		require.Nil(t, event.GetEnded(), "it has not ended")
		require.True(t, proto.Equal(end.GetResult().GetFailure(), event.GetTakenOver().GetFailure()))
		s.sim.Send(s.server, &messages.StopJob{JobId: "j1", Reason: "enough"})
		s.sim.Drain()
		require.Empty(t, s.born)
	})
	t.Run("out of sight", func(t *testing.T) { // no beat could have been seen
		s := newStage(t, 1)
		s.refuse = func(gone store.Sighting) (store.Sighting, error) {
			at := s.sim.Now().Sub(testkit.Epoch)
			switch {
			case gone != store.Sighting{}:
				require.GreaterOrEqual(t, at, 24*time.Second)
				return store.Sighting{}, nil
			case at > 2*time.Second && at < 15*time.Second:
				return store.Sighting{}, fault.New("store.get", fault.Unavailable, "the store is away")
			}
			return another(1), fault.New("job.claim", fault.Conflict, "it runs on n9")
		}
		s.run("j1")
		s.sim.Advance(40 * time.Second)
		require.Len(t, s.born, 1)
	})
}

// A store that is away is waited for; what cannot get better ends the job.
func TestWhyAJobCannotBeOwned(t *testing.T) {
	for _, kind := range fault.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			s := newStage(t, 1)
			tries := 0
			s.refuse = func(store.Sighting) (store.Sighting, error) {
				if tries++; tries <= 100 && s.ends == 0 {
					return store.Sighting{}, fault.New("job.claim", kind, "/s/jobs/j1/claim: no room")
				}
				return store.Sighting{}, nil
			}
			s.run("j1")
			s.sim.Advance(2 * time.Minute)
			if kind == fault.Unavailable || kind == fault.Unknown {
				require.Len(t, s.born, 1)
				require.Len(t, s.told, 2, "at once, and then once a minute")
				require.Equal(t, "job j1 cannot begin: /s/jobs/j1/claim: no room; mend that, by making room on a disk that is full: it is tried each second, and begins then", s.told[0])
				require.Equal(t, 2, s.lines, "and so does the log")
				return
			}
			require.Empty(t, s.told, "it ends by that")
			require.Empty(t, s.born)
			require.Len(t, s.sealed, 1)
			require.Equal(t, "the job cannot go on: /s/jobs/j1/claim: no room", testkit.Expect[*messages.JobFinished](s.scheduler).GetResult().GetFailure().GetText())
		})
	}
}

// Whatever becomes of a job, each incarnation that was owned is let go of once,
// and before the next is owned.
func TestWhatIsOwnedIsLetGoOfOnce(t *testing.T) {
	for seed := range testkit.Seeds(t, 200) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStage(t, seed)
			rng := s.sim.Rand()
			s.sim.Faults = testkit.Faults{Drop: 0.1, Duplicate: 0.1, Delay: 0.3, MaxDelay: 3 * time.Second}
			s.sim.Work = func(*actor.PID) time.Duration { return time.Duration(rng.IntN(2000)) * time.Millisecond }
			s.act = func(r *messages.JobRef) actorFunc {
				return func(ctx actor.Context) {
					switch ctx.Message().(type) {
					case *actor.Started, *messages.StartJob: // its clock
						switch rng.IntN(8) {
						case 0, 1:
							panic(errBug)
						case 2:
							ctx.Request(ctx.Parent(), finished(r.GetId(), r.GetIncarnation(), messages.Phase_PHASE_SUCCEEDED))
						}
						s.sim.Rim().SendAfter(time.Second, ctx.Self(), &messages.StartJob{})
					}
				}
			}
			s.refuse = func(store.Sighting) (store.Sighting, error) {
				if rng.IntN(4) == 0 {
					return store.Sighting{}, fault.New("job.claim", fault.Unavailable, "the store is away")
				}
				if len(s.claims) > 0 {
					require.Len(t, s.released, int(s.claims["j1"]), "the one before is let go of")
				}
				return store.Sighting{}, nil
			}
			over := false
			s.scheduler.Answer = func(msg any) any {
				if m, ok := msg.(*messages.JobFinished); ok {
					over = true
					return &messages.JobFinishedReply{Job: m.GetJob()}
				}
				return nil
			}
			s.run("j1")
			if rng.IntN(2) == 0 {
				s.sim.At(time.Duration(rng.IntN(10_000))*time.Millisecond, func() {
					s.sim.Send(s.server, &messages.StopJob{JobId: "j1", Reason: "enough"})
				})
			}
			s.sim.RunUntil(func() bool { return over }, 10*time.Minute)
			s.sim.Advance(time.Minute)
			var want []uint64
			for n := range s.claims["j1"] {
				want = append(want, n+1)
			}
			require.Equal(t, want, s.released)
		})
	}
}

// Who gets further each time may die as often as it likes; who does not, may not.
func TestProgressRenewsTheBudget(t *testing.T) {
	s := newStage(t, 1)
	s.act = bornToPanic(20, errBug)
	s.refuse = func(store.Sighting) (store.Sighting, error) { s.reached++; return store.Sighting{}, nil }
	s.start("j1", 1, 1)
	s.sim.Advance(5 * time.Minute)
	require.Len(t, s.born, 21)
}

// A job that told the store how it ended, and died before it told anybody else,
// has ended so; it is not trained again. One that was stopped, or failed, goes on
// where it was asked to.
func TestAnEndThatTheStoreKnowsCounts(t *testing.T) {
	for _, phase := range []messages.Phase{messages.Phase_PHASE_SUCCEEDED, messages.Phase_PHASE_FAILED, messages.Phase_PHASE_STOPPED} {
		t.Run(phase.String(), func(t *testing.T) {
			s := newStage(t, 1)
			s.act = bornToPanic(1, errBug)
			s.start("j1", 1, 1)
			s.ended = &messages.JobResult{Phase: phase}
			s.sim.Advance(5 * time.Second)
			require.Same(t, s.ended, testkit.Expect[*messages.JobFinished](s.scheduler).GetResult())
			require.Same(t, s.ended, testkit.Expect[*messages.JobEvent](s.journal).GetEnded().GetResult())
			require.Len(t, s.born, 1)

			s.start("j2", 1, 1) // a resume, in another process than the end
			s.sim.Drain()
			require.Len(t, s.born, map[bool]int{true: 1, false: 2}[phase == messages.Phase_PHASE_SUCCEEDED])
		})
	}
}

// anew ends j1 and has it start again, as a resume does.
func (s *stage) anew(t *testing.T) {
	first := startJob("j1", 1, 4)
	first.Key = "a"
	testkit.Ask[*messages.StartJobReply](s.sim, s.server, first)
	end := finished("j1", 1, messages.Phase_PHASE_STOPPED)
	s.sim.Send(s.server, end)
	s.sim.Send(child("j1.1"), &messages.JobFinishedReply{Job: end.GetJob()})
	s.sim.Drain()
	s.sim.Send(s.server, &messages.JobFinishedReply{Job: end.GetJob()})
	s.sim.Drain()
	again := startJob("j1", 1, 5)
	again.Key, again.AfterIncarnation = "b", 1
	reply := testkit.Ask[*messages.StartJobReply](s.sim, s.server, again)
	require.EqualValues(t, 2, reply.GetJob().GetIncarnation())
	require.Equal(t, messages.Phase_PHASE_RUNNING, reply.GetPhase())
}

// What is late from a life that is over changes nothing in the next: no start, no
// size, no stop, no end; and starts none once that is over, too.
func TestALifeThatIsOverIsNotHeard(t *testing.T) {
	s := newStage(t, 1)
	s.anew(t)
	late := startJob("j1", 1, 9)
	late.Key = "a"
	s.sim.Ask(s.server, late)
	stop := testkit.Ask[*messages.StopJobReply](s.sim, s.server, &messages.StopJob{JobId: "j1", Key: "a"})
	require.Equal(t, messages.FailureKind_FAILURE_KIND_CONFLICT, stop.GetFailure().GetKind())
	s.sim.Send(s.server, finished("j1", 1, messages.Phase_PHASE_SUCCEEDED))
	s.sim.Crash(child("j1.2"), errBug)
	s.sim.Send(child("j1.2"), &messages.ResizeJob{})
	s.sim.Advance(5 * time.Second)
	require.Equal(t, []uint64{1, 2, 3}, s.incarnations())
	require.EqualValues(t, 5, s.sizes[2].GetSeq())

	s.sim.Send(s.server, finished("j1", 3, messages.Phase_PHASE_SUCCEEDED))
	s.sim.Send(child("j1.3"), &messages.JobFinishedReply{Job: ref("j1", 3)})
	s.sim.Drain()
	s.sim.Send(s.server, &messages.JobFinishedReply{Job: ref("j1", 3)})
	s.sim.Drain()
	for _, key := range []string{"a", "b"} {
		late.Key = key
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, testkit.Ask[*messages.StartJobReply](s.sim, s.server, late).GetPhase())
	}
	require.Len(t, s.born, 3)
}

// A stop of a job that is not owned yet ends it under a number that its
// Scheduler listens to.
func TestAStopBeforeAResumedJobIsOwned(t *testing.T) {
	s := newStage(t, 1)
	s.refuse = func(store.Sighting) (store.Sighting, error) {
		return another(1), fault.New("job.claim", fault.Conflict, "it runs on n9")
	}
	start := startJob("j1", 1, 1)
	start.Key, start.AfterIncarnation = "b", 7
	s.scheduler.Send(s.server, start)
	s.sim.Advance(3 * time.Second)
	require.Nil(t, testkit.Ask[*messages.StopJobReply](s.sim, s.server, &messages.StopJob{JobId: "j1", Key: "b", Reason: "enough"}).GetFailure())
	end := testkit.Expect[*messages.JobFinished](s.scheduler)
	require.EqualValues(t, 8, end.GetJob().GetIncarnation())
	require.Equal(t, messages.Phase_PHASE_STOPPED, end.GetResult().GetPhase())
	require.EqualValues(t, 8, testkit.Expect[*messages.JobEvent](s.journal).GetJob().GetIncarnation())
}

// A number under which an end was told is not used for a TrainJob.
func TestNumbersAreUsedOnce(t *testing.T) {
	s := newStage(t, 1)
	start := startJob("j1", 1, 1)
	start.Key, start.AfterIncarnation = "b", 3
	s.scheduler.Send(s.server, start)
	s.sim.Advance(5 * time.Second)
	require.Equal(t, []uint64{4}, s.incarnations())
	require.Equal(t, []uint64{1, 2, 3}, s.released)
}

// Each cause is told of at once, and anew when it is back after a job ran.
func TestWhatKeepsAJobFromGoingOnIsToldAnew(t *testing.T) {
	s := newStage(t, 1)
	var why error
	s.refuse = func(store.Sighting) (store.Sighting, error) { return store.Sighting{}, why }
	why = fault.New("job.claim", fault.Unavailable, "no room")
	s.run("j1")
	s.sim.Advance(10 * time.Second)
	require.Len(t, s.told, 1)
	why = fault.New("job.claim", fault.Unknown, "a bug")
	s.sim.Advance(10 * time.Second)
	require.Len(t, s.told, 2)
	require.Contains(t, s.told[1], "job j1 cannot begin: a bug;")
	why = nil
	s.act = func(*messages.JobRef) actorFunc {
		return func(ctx actor.Context) {
			if _, crash := ctx.Message().(*messages.StopJob); crash {
				why = fault.New("job.claim", fault.Unavailable, "no room")
				panic(fault.New("train.run", fault.Unknown, "it crashes"))
			}
		}
	}
	s.sim.Advance(2 * time.Second)
	require.Len(t, s.born, 1)
	s.sim.Send(child("j1.1"), &messages.StopJob{})
	s.sim.Advance(10 * time.Second)
	require.Len(t, s.told, 3)
	require.Contains(t, s.told[2], "job j1 cannot go on: no room;")
	require.Nil(t, testkit.Ask[*messages.StopJobReply](s.sim, s.server, &messages.StopJob{JobId: "j1", Reason: "enough"}).GetFailure())
	s.lines = 0
	s.sim.Advance(2 * time.Minute)
	require.Len(t, s.told, 4)
	require.Regexp(t, `^job j1 is about to end, but the store does not take its end: no room; it is tried for up to 1\ds more, and then the job ends without that$`, s.told[3])
	require.LessOrEqual(t, s.lines, 3, "of an end that is tried on")
	require.Contains(t, testkit.Expect[*messages.JobFinished](s.scheduler).GetResult().GetFailure().GetText(), "enough; the store has not taken this end: no room")
}
