package train_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

var (
	away  = fault.New("store.put", fault.Unavailable, "the store is away")
	taken = fault.New("job.save", fault.Conflict, "taken over")
)

// repeated returns an error so many times.
func repeated(err error, n int) (out []error) {
	for range n {
		out = append(out, err)
	}
	return out
}

// slowSave has the save of the round that is now answered take some time. It is
// the third work that follows, after the merge and the removal of the old model.
func (s *stage) slowSave(takes time.Duration, round ...*messages.Invoke) {
	works := 0
	s.sim.Work = func(*actor.PID) time.Duration {
		if works++; works == 3 {
			return takes
		}
		return 0
	}
	s.finish(round...)
	s.sim.Work = nil
}

// A save that outlasts rounds holds up none of them. What it stores stays until
// it is stored, one version more than without, however many rounds go by; and
// then the newest is stored at once.
func TestASlowSaveHoldsNothingUp(t *testing.T) {
	s := newStage(t, 2, taskOf(100, keeping("keep")))
	s.finish(s.begin()...)
	round := s.next()
	require.EqualValues(t, 1, s.vault.last().GetModelVersion())
	s.slowSave(90*time.Second, round...) // of version 2
	for version := uint64(3); version < 20; version++ {
		round = s.next()
		require.Len(t, round, 2, "round %d runs", version)
		s.sim.Advance(time.Second)
		s.finish(round...)
		require.Equal(t, []string{"j/2/merged/model-2", fmt.Sprintf("j/2/merged/model-%d", version)}, sorted(s.space.List("j/2/merged/")))
		released := s.lastRelease()
		require.Len(t, released.GetKeep(), 6, "the states that are being stored with their model, and the newest of both")
	}
	require.EqualValues(t, 1, s.vault.last().GetModelVersion())
	require.Empty(t, s.warnings())
	s.sim.Advance(50 * time.Second)
	require.Len(t, s.warnings(), 1)
	require.Contains(t, s.warnings()[0], "the store has been taking the job's state for 1m")
	s.sim.Advance(30 * time.Second)
	require.EqualValues(t, 2, s.vault.saves[len(s.vault.saves)-2].GetModelVersion(), "stored as it was")
	require.EqualValues(t, 19, s.vault.last().GetModelVersion())
	require.Equal(t, []string{"j/2/merged/model-19"}, s.space.List("j/2/merged/"))
}

// lastRelease returns what hosts were last told to let go of.
func (s *stage) lastRelease() (last *messages.ReleaseTensors) {
	for _, m := range s.host.Messages() {
		if m, ok := m.(*messages.ReleaseTensors); ok {
			last = m
		}
	}
	return last
}

func sorted(keys []string) []string {
	if len(keys) == 2 && len(keys[0]) > len(keys[1]) {
		keys[0], keys[1] = keys[1], keys[0]
	}
	return keys
}

// A store that fails for minutes costs one warning a minute, and what is newest
// is stored once it is back.
func TestTrainingGoesOnWithoutTheStore(t *testing.T) {
	s := newStage(t, 1, taskOf(1000, nil))
	s.finish(s.begin()...)
	s.vault.fails = repeated(away, 20)
	for range 300 {
		s.finish(s.next()...)
		s.sim.Advance(time.Second)
	}
	require.InDelta(t, 5, len(s.warnings()), 1)
	require.Contains(t, s.warnings()[0], "the store is away; training goes on")
	require.Empty(t, s.vault.fails, "it is tried again")
	require.EqualValues(t, len(s.merges()), s.vault.last().GetModelVersion(), "it is back")
	require.LessOrEqual(t, len(s.space.List("j/2/merged/")), 1)
}

// An owner that hears of its successor, from whatever it asks the store for, ends
// at once: it stores neither a state nor a result, says so, and leaves nothing.
func TestAnOwnerThatIsOverEnds(t *testing.T) {
	for name, c := range map[string]struct {
		saves int // that were stored before
		hear  func(s *stage)
	}{
		"by its beat": {2, func(s *stage) { s.finish(s.begin()...); s.vault.beats = taken; s.sim.Advance(3 * time.Second) }},
		"by a save":   {1, func(s *stage) { round := s.begin(); s.vault.fails = []error{taken}; s.finish(round...) }},
		"by a save that fails": {1, func(s *stage) {
			round := s.begin()
			s.vault.fails = []error{away, taken}
			s.finish(round...)
			s.sim.Advance(2 * time.Second)
		}},
		"before its first model": {0, func(s *stage) { s.vault.beats = taken; s.sim.Advance(3 * time.Second) }},
		"as it seals its end": {2, func(s *stage) {
			s.finish(s.begin()...)
			s.vault.fails = []error{taken}
			s.stop()
		}},
		"as it stores its result": {2, func(s *stage) {
			s.vault.beats = taken
			s.finish(s.begin()...)
			s.finish(s.next()...)
			s.finish(s.next()...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			samples := uint64(100)
			if name == "as it stores its result" {
				samples = 2
			}
			s := newStage(t, 2, taskOf(samples, nil))
			c.hear(s)
			s.sim.Drain()
			require.NotNil(t, s.finished)
			result := s.finished.GetResult()
			require.Equal(t, messages.Phase_PHASE_TAKEN_OVER, result.GetPhase())
			require.Equal(t, messages.FailureKind_FAILURE_KIND_CONFLICT, result.GetFailure().GetKind())
			require.Equal(t, taken.Error(), result.GetFailure().GetText())
			for _, e := range s.events {
				require.Nil(t, e.GetEnded(), "the job has not ended")
			}
			require.True(t, proto.Equal(result.GetFailure(), s.events[len(s.events)-1].GetTakenOver().GetFailure()))
			for _, st := range s.vault.saves {
				require.Nil(t, st.GetResult(), "it seals nothing")
			}
			require.Zero(t, s.models.calls, "and stores no result")
			s.sim.Advance(2 * time.Second)
			s.gone()
		})
	}
}

// The store knows the end, and where to go on, before anybody else does.
func TestTheStoreHearsOfTheEndFirst(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(s *stage)
		phase messages.Phase
		goOn  bool
	}{
		"stopped": {func(s *stage) { s.stop() }, messages.Phase_PHASE_STOPPED, true},
		"failed": {func(s *stage) {
			s.fail(s.next()[0], &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_INVALID, Text: "no"})
		}, messages.Phase_PHASE_FAILED, true},
		"succeeded": {func(s *stage) { s.finish(s.next()...); s.finish(s.next()...) }, messages.Phase_PHASE_SUCCEEDED, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, taskOf(2, nil))
			var sealed *messages.JobState
			s.vault.saved = func(st *messages.JobState) {
				if st.GetResult() != nil {
					sealed = st
					require.Nil(t, s.finished)
					require.Nil(t, s.events[len(s.events)-1].GetEnded())
				}
			}
			s.finish(s.begin()...)
			c.end(s)
			s.sim.Advance(time.Second)
			require.Equal(t, c.phase, s.finished.GetResult().GetPhase())
			require.Equal(t, c.phase, sealed.GetResult().GetPhase())
			require.Equal(t, c.goOn, len(train.Tensors(sealed)) > 0)
			require.Equal(t, c.goOn, sealed.GetModelVersion() == 1)
			s.gone()
		})
	}
}

// A store that is away at the end, or that says nothing, is waited for for a
// while, and then the end is told without it, with a warning.
func TestAnEndWithoutTheStore(t *testing.T) {
	for name, c := range map[string]struct {
		hurt        func(s *stage)
		least, most time.Duration
		says        string
	}{
		"away":                            {func(s *stage) { s.vault.fails = repeated(away, 100) }, 10 * time.Second, 12 * time.Second, `does not take its last state: .*; it is tried for up to [89]s more, and then the job ends without that$`},
		"away for a moment":               {func(s *stage) { s.vault.fails = repeated(away, 3) }, 2 * time.Second, 4 * time.Second, "does not take its last state: "},
		"silent":                          {func(s *stage) { s.sim.Work = func(*actor.PID) time.Duration { return time.Hour } }, 19 * time.Second, 21 * time.Second, `has not taken its last state yet; it is tried for up to 1\ds more,`},
		"silent, in the middle of a save": {func(s *stage) { s.slowSave(time.Hour, s.next()...) }, 19 * time.Second, 21 * time.Second, `has not taken its last state yet; it is tried for up to 1\ds more,`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, taskOf(100, nil))
			s.finish(s.begin()...)
			c.hurt(s)
			began := s.sim.Now()
			require.Nil(t, s.stop().GetFailure())
			s.sim.RunUntil(func() bool { return s.finished != nil }, time.Minute)
			took := s.sim.Now().Sub(began)
			require.GreaterOrEqual(t, took, c.least)
			require.LessOrEqual(t, took, c.most)
			require.Equal(t, messages.Phase_PHASE_STOPPED, s.finished.GetResult().GetPhase())
			s.sim.Drain()
			require.Regexp(t, "^the job is about to end, but the store "+c.says, s.warnings()[0])
			require.Equal(t, c.most > 10*time.Second, len(s.warnings()) == 2, "%v", s.warnings())
			if len(s.warnings()) > 1 {
				require.Contains(t, s.warnings()[1], "the store does not take the job's state")
			}
			s.sim.Work = nil
			s.sim.Advance(time.Minute)
			require.False(t, s.sim.Alive(s.job))
		})
	}
}
