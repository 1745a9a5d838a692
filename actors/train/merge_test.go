package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

func mergingBy(strategy string, clip float64) func(*messages.TrainTask) {
	return func(task *messages.TrainTask) { task.Options.Merge, task.Options.Clip = strategy, clip }
}

// answered has a round's functions answer these values, and returns the
// invocations of the next round and the value of its model.
func (s *stage) answered(round []*messages.Invoke, values ...float32) ([]*messages.Invoke, float32) {
	for i, inv := range round {
		s.sim.Send(s.job, &messages.FunctionFinished{Answer: s.answer(inv, values[i])})
	}
	next := s.next()
	return next, s.value(next[0].GetPlan().GetModel())
}

func TestStrategiesOfMerging(t *testing.T) {
	for name, c := range map[string]struct {
		merge string
		clip  float64
		want  float32
	}{
		"the mean":            {"average", 0, 2.5},
		"unweighted":          {"average:unweighted", 0, 2.5},
		"nesterov as average": {"nesterov:1,0", 0, 2.5},
		"half a step":         {"nesterov:0.5,0", 0, 1.25},
		"the median":          {"median", 0, 1.5},
		"trimmed":             {"trimmed-mean:0.25", 0, 1.5},
		"clipped":             {"average", 2, 1.25},
		"clipped median":      {"median", 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 4, taskOf(8, mergingBy(c.merge, c.clip)))
			next, got := s.answered(s.begin(), 0, 1, 2, 7)
			require.InDelta(t, c.want, got, 1e-6)
			s.finish(next...)
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
			require.Equal(t, c.merge, s.finished.GetResult().GetMerge(), "the history says how it was merged")
			s.gone()
		})
	}
}

// The momentum of a round is what the next one begins from; there is one at a
// time, and it goes with the job.
func TestNesterovRemembersItsMomentum(t *testing.T) {
	s := newStage(t, 1, taskOf(4, mergingBy("nesterov:1,0.5", 0)))
	ref, m := 0.0, 0.0
	round := s.begin()
	for version := range 3 {
		var got float32
		avg := ref + 1
		round, got = s.answered(round, float32(avg))
		m = 0.5*m + (ref - avg)
		ref = avg - 0.5*m
		require.InDelta(t, ref, got, 1e-6, "version %d", version+1)
		require.Len(t, s.space.List("j/2/merged/"), 2, "one model, one momentum")
	}
	s.finish(round...)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
	s.gone()
}

// A merge that found room for one of its files only has made nothing; when it is
// tried again the momentum is stepped once, from where it was.
func TestATriedMergeStepsTheMomentumOnce(t *testing.T) {
	play := func(room func(used int64) int64) (values []float32) {
		s := newStage(t, 1, taskOf(4, mergingBy("nesterov:1,0.5", 0)))
		round, _ := s.answered(s.begin(), 1)
		before := s.space.List("j/2/merged/")
		if room != nil {
			answer := s.answer(round[0], 3)
			s.space.SetLimit(room(s.space.Usage().Bytes))
			s.sim.Send(s.job, &messages.FunctionFinished{Answer: answer})
			for range 2 { // it fails twice
				s.sim.Drain()
				require.Len(t, s.merges(), 1)
				require.Equal(t, before, s.space.List("j/2/merged/"), "what the merge begins from stays, the rest goes")
				s.sim.Advance(300 * time.Millisecond)
			}
			s.space.SetLimit(0)
			s.sim.Advance(10 * time.Second)
			round = s.next()
		} else {
			round, _ = s.answered(round, 3)
		}
		values = append(values, s.value(round[0].GetPlan().GetModel()))
		round, last := s.answered(round, 4)
		s.finish(round...)
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase())
		s.gone()
		return append(values, last)
	}
	want := play(nil)
	require.Equal(t, want, play(func(int64) int64 { return 1 }), "no room at all")
	require.Equal(t, want, play(func(used int64) int64 { return used + used/3 + 1 }), "room for one of both") // three files are there
}
