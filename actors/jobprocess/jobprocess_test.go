package jobprocess_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/jobprocess"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// requireToldOnce sees that the Journal has what happened in order, without gaps,
// each event once, and one end, which comes last.
func requireToldOnce(t *testing.T, s *stage) (trained []uint32) {
	t.Helper()
	var incarnation, seq uint64
	ends := 0
	for _, e := range s.shown {
		if n := e.GetJob().GetIncarnation(); n != incarnation {
			require.Greater(t, n, incarnation)
			incarnation, seq = n, 0
		}
		seq++
		require.Equal(t, seq, e.GetSeq(), "incarnation %d", incarnation)
		if e.GetEnded() != nil {
			ends++
		} else {
			require.Zero(t, ends, "nothing after the end")
		}
		if r := e.GetEpochFinished().GetRecord(); r != nil {
			trained = append(trained, r.GetEpoch())
		}
	}
	require.Positive(t, ends)
	require.LessOrEqual(t, ends, 1+s.crashes, "the ParameterServer tells the end of a child that crashed once more")
	require.EqualValues(t, 1, s.boss.ends)
	end := s.shown[len(s.shown)-1].GetEnded().GetResult()
	require.Equal(t, end.GetPhase(), s.boss.finished.GetResult().GetPhase())
	require.Equal(t, end.GetFailure(), s.boss.finished.GetResult().GetFailure())
	require.Nil(t, s.living(), "no process is left")
	return trained
}

// Whatever gets lost, repeated or late between the actors, and whenever a process
// dies, hangs, or the actor crashes: the job ends once, what happened is told once
// and in order, at most one process runs at a time, and the newest size gets there.
func TestAJobInAProcessOfItsOwnEndsOnceWhateverHappens(t *testing.T) {
	for seed := range testkit.Seeds(t, 200) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStage(t, seed)
			s.Faults = testkit.Faults{Drop: 0.15, Duplicate: 0.2, Delay: 0.3, MaxDelay: 3 * time.Second}
			s.Check(func() error {
				living := 0
				for _, p := range s.processes {
					if p.alive() {
						living++
					}
				}
				if living > 1 {
					return fmt.Errorf("%d processes run the job", living)
				}
				return nil
			})
			hurt := func() {
				p := s.living()
				switch s.Rand().IntN(4) {
				case 0:
					if p != nil {
						p.die("was killed by signal 9 (SIGKILL)")
					}
				case 1:
					if p != nil {
						p.frozen = true
					}
				case 2:
					s.crashes++
					s.Crash(actor.NewPID("nonhost", "paramserver/"+s.child), errors.New("crashed on purpose"))
				case 3:
					s.boss.resize(s.boss.start.GetSize().GetParallelism() + 1)
				}
			}
			s.begin(&messages.TrainOptions{})
			for range s.Rand().IntN(4) {
				s.At(time.Duration(s.Rand().IntN(20_000))*time.Millisecond, hurt)
			}
			s.RunUntil(func() bool { return s.boss.finished != nil }, 5*time.Minute)
			s.Faults = testkit.Faults{}
			s.Advance(20 * time.Second)
			trained := requireToldOnce(t, s)
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.boss.finished.GetResult().GetPhase())
			require.Len(t, s.shown[len(s.shown)-1].GetEnded().GetResult().GetEpochs(), epochs)
			require.IsIncreasing(t, append([]uint32{0}, trained...), "no epoch that was kept is trained again")
			for _, p := range s.processes {
				for i := 1; i < len(p.sizes); i++ {
					require.Greater(t, p.sizes[i].Parallelism, p.sizes[i-1].Parallelism, "sizes do not go back")
				}
			}
		})
	}
}

// Sizes reach the process, slots and N, and the N of the next epoch is asked for
// on its behalf.
func TestSizesReachTheProcess(t *testing.T) {
	s := newStage(t, 1)
	s.begin(&messages.TrainOptions{})
	s.Advance(time.Second)
	p := s.living()
	require.Equal(t, jobprocess.Size{Slots: 2, Parallelism: 2}, p.size)
	s.boss.resize(5)
	s.Advance(1500 * time.Millisecond)
	require.Equal(t, jobprocess.Size{Slots: 6, Parallelism: 6}, p.size, "the Scheduler's, and then its answer after the first epoch")
	require.NotEmpty(t, s.boss.asked)
	require.EqualValues(t, 1, s.boss.asked[0].GetEpoch())
	require.EqualValues(t, 100, s.boss.asked[0].GetSamples())
	require.InDelta(t, 2, s.boss.asked[0].GetSeconds(), 0)
}

// A slot that was taken from the job is held until the process has heard of that and
// says that it is free; those of a process that is gone are free.
func TestSlotsAreHeldUntilTheProcessHasLeftThem(t *testing.T) {
	s := newStage(t, 1)
	s.begin(&messages.TrainOptions{StaticParallelism: true})
	s.Advance(500 * time.Millisecond)
	require.EqualValues(t, 2, s.lent)
	p := s.living()
	p.busy, p.frozen = 2, true
	s.boss.resize(1)
	s.Advance(1400 * time.Millisecond)
	require.EqualValues(t, 2, s.lent, "it may not have heard")
	p.frozen = false
	s.Advance(2 * time.Second)
	require.EqualValues(t, 1, p.size.Slots)
	require.EqualValues(t, 2, s.lent, "both are at work")
	p.busy = 1
	s.Advance(2 * time.Second)
	require.EqualValues(t, 1, s.lent)
	p.busy = 0
	s.boss.resize(2)
	s.Advance(2 * time.Second)
	require.EqualValues(t, 2, s.lent)
	s.RunUntil(func() bool { return s.boss.finished != nil }, time.Minute)
	s.Drain()
	require.Zero(t, s.lent)
}

func TestAStaticJobAsksForNoSize(t *testing.T) {
	s := newStage(t, 1)
	s.begin(&messages.TrainOptions{StaticParallelism: true})
	s.RunUntil(func() bool { return s.boss.finished != nil }, time.Minute)
	require.Empty(t, s.boss.asked)
}

// A process that cannot be started fails the job with the reason: at once where
// trying again cannot help, else after some tries.
func TestAProcessThatCannotBeStartedFailsTheJob(t *testing.T) {
	for _, test := range []struct {
		kind     fault.Kind
		launches int
		want     string
	}{
		{fault.Invalid, 1, "the job cannot go on: there is no /bin/troupe"},
		{fault.Unavailable, 4, "the job died 4 times, at last of: there is no /bin/troupe"},
	} {
		t.Run(test.kind.String(), func(t *testing.T) {
			s := newStage(t, 1)
			s.broken = func(int) error { return fault.New("test.launch", test.kind, "there is no /bin/troupe") }
			s.begin(&messages.TrainOptions{})
			s.RunUntil(func() bool { return s.boss.finished != nil }, time.Minute)
			s.Advance(time.Minute)
			require.Equal(t, messages.Phase_PHASE_FAILED, s.boss.finished.GetResult().GetPhase())
			require.Equal(t, test.want, s.boss.finished.GetResult().GetFailure().GetText())
			require.Equal(t, test.launches, s.launches)
			requireToldOnce(t, s)
		})
	}
}

// One that ends before it has its task says why.
func TestAProcessThatEndsAtOnceFailsTheJobWithItsLastWords(t *testing.T) {
	s := newStage(t, 1)
	s.quits = func(*process) bool { return true }
	s.begin(&messages.TrainOptions{})
	s.RunUntil(func() bool { return s.boss.finished != nil }, time.Minute)
	require.Contains(t, s.boss.finished.GetResult().GetFailure().GetText(), "the job died 4 times, at last of: ")
	require.Equal(t, 4, s.launches)
}

// A job that somebody else runs is theirs: it has not ended.
func TestAJobThatAnotherRunsIsTakenOver(t *testing.T) {
	s := newStage(t, 1)
	s.owner = fault.New("test.start", fault.Conflict, "job j runs on n9")
	s.begin(&messages.TrainOptions{})
	s.RunUntil(func() bool { return s.boss.finished != nil }, time.Minute)
	s.Advance(time.Minute)
	require.Equal(t, messages.Phase_PHASE_TAKEN_OVER, s.boss.finished.GetResult().GetPhase())
	require.Equal(t, "job j runs on n9", s.boss.finished.GetResult().GetFailure().GetText())
	require.Equal(t, 1, s.launches)
	require.Nil(t, s.living())
	require.Len(t, s.shown, 1)
	require.Equal(t, "job j runs on n9", s.shown[0].GetTakenOver().GetFailure().GetText())
}

// A process that hangs is noticed by its missing signs of life, killed, and
// followed by another one.
func TestAProcessThatHangsIsKilled(t *testing.T) {
	s := newStage(t, 1)
	s.begin(&messages.TrainOptions{})
	s.Advance(3 * time.Second)
	hangs := s.living()
	hangs.frozen = true
	s.RunUntil(func() bool { return s.launches == 2 }, 15*time.Second)
	require.False(t, hangs.alive())
	s.RunUntil(func() bool { return s.boss.finished != nil }, time.Minute)
	s.Advance(time.Minute)
	requireToldOnce(t, s)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.boss.finished.GetResult().GetPhase())
}

// A stop gets to the process, and is answered once it has it; one that hangs ends
// the job as STOPPED all the same, and so does one that has not begun.
func TestAStopEndsTheJob(t *testing.T) {
	for name, at := range map[string]struct {
		after  time.Duration
		frozen bool
	}{
		"at work": {3 * time.Second, false}, "hanging": {3 * time.Second, true}, "not begun": {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1)
			s.begin(&messages.TrainOptions{})
			s.Advance(at.after)
			if p := s.living(); p != nil {
				p.frozen = at.frozen
			}
			s.boss.stop = &messages.StopJob{JobId: "j", Reason: "enough"}
			s.RunUntil(func() bool { return s.boss.finished != nil }, time.Minute)
			s.Advance(time.Minute)
			require.Equal(t, messages.Phase_PHASE_STOPPED, s.boss.finished.GetResult().GetPhase())
			require.Equal(t, "enough", s.boss.finished.GetResult().GetFailure().GetText())
			requireToldOnce(t, s)
			if !at.frozen {
				require.NotEmpty(t, s.boss.stops)
			}
		})
	}
}

// The end is told once the process is gone, so that its slots are free and the job
// may be resumed at once; one that stays is killed.
func TestTheEndIsToldOnceTheProcessIsGone(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		s := newStage(t, seed)
		s.begin(&messages.TrainOptions{})
		s.RunUntil(func() bool {
			last := len(s.shown) - 1
			over := last >= 0 && s.shown[last].GetEnded() != nil
			if over || s.boss.finished != nil {
				require.Nil(t, s.living())
			}
			return over && s.boss.finished != nil
		}, time.Minute)
	}
}
