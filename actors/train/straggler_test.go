package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/messages"
)

// Limits are multiples of what an assignment should take, seconds at least, and
// double with each cut.
func TestLimits(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, c := range map[string]struct {
		length             time.Duration
		cuts               int
		backup, cut, guess time.Duration
	}{
		"no time at all":       {0, 0, 2 * s, 10 * s, 30 * s},
		"a short one":          {100 * ms, 0, 2100 * ms, 10100 * ms, 30100 * ms},
		"where factors begin":  {2 * s, 0, 4 * s, 12 * s, 32 * s},
		"a long one":           {time.Minute, 0, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute},
		"cut before":           {100 * ms, 1, 2100 * ms, 20200 * ms, 60200 * ms},
		"cut twice":            {time.Minute, 2, 2 * time.Minute, 16 * time.Minute, 32 * time.Minute},
		"more than anybody is": {s, 1000, 3 * s, 1024 * 11 * s, 1024 * 31 * s},
	} {
		t.Run(name, func(t *testing.T) {
			backup, cut := train.Limits(c.length, c.cuts)
			require.Equal(t, []time.Duration{c.backup, c.cut, c.guess}, []time.Duration{backup, cut, train.GuessedLimit(c.length, c.cuts)})
			require.Less(t, backup, cut)
		})
	}
}

// backed is a task of one round of one-sample functions, with backups and so
// many retries.
func backed(samples uint64, retries uint32) *messages.TrainTask {
	return taskOf(samples, func(task *messages.TrainTask) {
		task.Options.K, task.Options.Retries, task.Options.Backup = -1, proto.Uint32(retries), proto.Bool(true)
	})
}

// started tells the job that attempts have their slots.
func (s *stage) started(invs ...*messages.Invoke) {
	for _, inv := range invs {
		s.sim.Send(s.job, &messages.FunctionStarted{Attempt: inv.GetAttempt()})
	}
	s.sim.Drain()
}

// answerAfter lets an invocation succeed that ran for so long.
func (s *stage) answerAfter(inv *messages.Invoke, ran time.Duration) {
	a := s.answer(inv, float32(inv.GetAttempt().GetFunction()))
	a.DurationUs = uint64(ran.Microseconds())
	s.sim.Send(s.job, &messages.FunctionFinished{Answer: a})
	s.sim.Drain()
}

// A straggler is run a second time where there is room, as soon as half of its
// peers have answered and it has taken twice what they took, two seconds more
// at least. The first answer counts, and the other attempt is stopped.
func TestAStragglerIsRunTwice(t *testing.T) {
	for name, first := range map[string]bool{"the backup wins": false, "the straggler wins": true} {
		t.Run(name, func(t *testing.T) {
			task := backed(4, 0)
			task.Epochs = 2
			s := newStage(t, 4, task)
			round := s.begin()
			s.started(round...)
			straggler := s.invokers[3]
			s.answerAfter(round[0], 100*time.Millisecond)
			s.sim.Advance(5 * time.Second)
			require.Empty(t, s.next(), "one of four says little")
			s.answerAfter(round[1], 200*time.Millisecond)
			s.answerAfter(round[2], 100*time.Millisecond)
			s.sim.Advance(time.Second)
			backup := s.next()
			require.Equal(t, []uint32{3}, functions(backup))
			require.EqualValues(t, 2, backup[0].GetAttempt().GetAttempt())
			require.True(t, proto.Equal(round[3].GetPlan(), backup[0].GetPlan()))
			require.Equal(t, round[3].GetRanges(), backup[0].GetRanges())
			require.Equal(t, round[3].GetSeed(), backup[0].GetSeed(), "the same draws, so the same bits")
			second := s.invokers[3]
			require.NotEqual(t, straggler.GetId(), second.GetId(), "an invoker of its own")
			s.started(backup...)
			s.sim.Advance(3 * time.Second)
			require.Empty(t, s.next(), "one backup at a time")
			winner, loser := backup[0], round[3]
			if first {
				winner, loser = loser, winner
			}
			s.answerAfter(winner, time.Second)
			require.True(t, s.stopped[straggler.GetId()] && s.stopped[second.GetId()], "both are stopped, so the loser is cancelled")
			s.answerAfter(loser, time.Second) // late
			require.Len(t, s.merges(), 1)
			require.EqualValues(t, 4, s.merges()[0].GetAnswers())
			require.Len(t, s.merges(), 1)
			result := s.end()
			require.EqualValues(t, 4, result.GetEpochs()[0].GetSamples())
			require.EqualValues(t, 1, result.GetEpochs()[0].GetBackups())
			require.Zero(t, result.GetRetries())
		})
	}
}

// The loser's answer is late, whenever it comes: the round waits for whoever
// has not answered yet.
func TestTheLosersAnswerIsNoSecondOne(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 4, 6), backed(4, 0))
	round := s.begin()
	s.started(round...)
	s.answerAfter(round[0], 100*time.Millisecond)
	s.answerAfter(round[1], 100*time.Millisecond)
	s.sim.Advance(3 * time.Second)
	backups := s.next()
	require.Equal(t, []uint32{2, 3}, functions(backups))
	s.answerAfter(backups[1], time.Second)
	s.answerAfter(round[3], 4*time.Second)
	require.Nil(t, s.crash)
	require.Empty(t, s.merges(), "function 2 is still at it")
	s.answerAfter(round[2], 4*time.Second)
	require.EqualValues(t, 4, s.merges()[0].GetSamples())
	require.EqualValues(t, 2, s.end().GetEpochs()[0].GetBackups())
}

// Nobody is backed up while something waits for a slot, without the option, or
// without a slot to do it on.
func TestABackupTakesNobodysSlot(t *testing.T) {
	late := func(t *testing.T, size *messages.JobSize, task *messages.TrainTask) (*stage, []*messages.Invoke) {
		s := newStageOf(t, 1, size, task)
		round := s.begin()
		s.started(round...)
		for _, inv := range round[:len(round)-1] {
			s.answerAfter(inv, 100*time.Millisecond)
		}
		return s, round
	}
	t.Run("no slot", func(t *testing.T) {
		s, _ := late(t, sizeOf(1, 2, 2), backed(2, 0))
		s.resize(resize(2, 2, 1))
		s.sim.Advance(9 * time.Second)
		require.Empty(t, s.next())
	})
	t.Run("not wanted", func(t *testing.T) {
		task := backed(2, 0)
		task.Options.Backup = proto.Bool(false)
		s, _ := late(t, sizeOf(1, 2, 4), task)
		s.sim.Advance(9 * time.Second)
		require.Empty(t, s.next())
	})
	t.Run("a retry waits for its time", func(t *testing.T) {
		s := newStage(t, 4, backed(4, 100))
		round := s.begin()
		retry := round[2]
		for range 8 { // its back-off is 2.5 s at least then
			s.fail(retry, crash())
			s.sim.Advance(5 * time.Second)
			retry = s.next()[0]
		}
		s.started(round...)
		s.answerAfter(round[0], 100*time.Millisecond)
		s.answerAfter(round[1], 100*time.Millisecond)
		s.sim.Advance(1500 * time.Millisecond)
		s.fail(retry, crash())
		s.sim.Advance(2400 * time.Millisecond)
		require.Empty(t, s.next(), "function 2 will want a slot")
		s.sim.Advance(5 * time.Second)
		require.Equal(t, []uint32{2, 3}, functions(s.next()))
	})
	t.Run("on another node", func(t *testing.T) {
		size := &messages.JobSize{Term: 1, Seq: 1, Parallelism: 2, Grants: []*messages.SlotGrant{{Node: "n1", Slots: 5}, {Node: "n2", Slots: 1}}}
		s, round := late(t, size, backed(2, 0))
		require.Equal(t, "n1", round[1].GetNode())
		s.sim.Advance(3 * time.Second)
		require.Equal(t, "n2", s.next()[0].GetNode(), "though the other one has more slots free")
	})
}

// While one of the two runs, the failure of the other is none of the
// assignment; when both have failed it is tried again, or given up.
func TestAFailureOfATwinIsNotTheAssignments(t *testing.T) {
	begin := func(t *testing.T, retries uint32) (*stage, *messages.Invoke, *messages.Invoke) {
		s := newStage(t, 2, backed(2, retries))
		round := s.begin()
		s.started(round...)
		s.answerAfter(round[0], 100*time.Millisecond)
		s.sim.Advance(3 * time.Second)
		return s, round[1], s.next()[0]
	}
	t.Run("the backup still answers", func(t *testing.T) {
		s, one, two := begin(t, 0)
		s.sim.Send(s.job, &messages.FunctionLost{Attempt: one.GetAttempt(), Failure: crash()})
		s.sim.Advance(5 * time.Second)
		require.Empty(t, s.next())
		s.answerAfter(two, time.Second)
		result := s.end()
		require.Zero(t, result.GetLostFunctions())
		require.Zero(t, result.GetRetries())
		require.EqualValues(t, 2, result.GetEpochs()[0].GetSamples())
	})
	t.Run("the straggler still answers", func(t *testing.T) {
		s, one, two := begin(t, 0)
		s.fail(two, crash())
		s.answerAfter(one, time.Second)
		require.Zero(t, s.end().GetLostFunctions())
	})
	for name, backupFirst := range map[string]bool{"both fail, the backup first": true, "both fail, the straggler first": false} {
		t.Run(name, func(t *testing.T) {
			s, one, two := begin(t, 3)
			if backupFirst {
				one, two = two, one
			}
			for _, inv := range []*messages.Invoke{one, two} {
				s.sim.Send(s.job, &messages.FunctionLost{Attempt: inv.GetAttempt(), Failure: crash()})
				s.sim.Drain()
			}
			s.sim.Advance(100 * time.Millisecond) // the second failure
			again := s.next()
			require.Len(t, again, 1)
			require.EqualValues(t, 3, again[0].GetAttempt().GetAttempt())
			s.finish(again...)
			result := s.end()
			require.EqualValues(t, 1, result.GetRetries())
			require.EqualValues(t, 2, result.GetEpochs()[0].GetSamples())
		})
	}
	t.Run("both fail without retries", func(t *testing.T) {
		s, one, two := begin(t, 0)
		s.sim.Send(s.job, &messages.FunctionLost{Attempt: one.GetAttempt(), Failure: crash()})
		s.sim.Drain()
		s.fail(two, crash())
		require.EqualValues(t, 1, s.end().GetLostFunctions(), "given up, and trained in another round")
	})
	t.Run("both raise the same", func(t *testing.T) {
		s, one, two := begin(t, 3)
		s.fail(two, raise("boom"))
		s.sim.Send(s.job, &messages.FunctionLost{Attempt: one.GetAttempt(), Failure: raise("boom")})
		s.sim.Drain()
		require.Contains(t, s.finished.GetResult().GetFailure().GetText(), "raised the same error twice")
	})
}

// A frozen worker, on the only slot: it is cut four times its peers' time after
// it began, ten seconds later than they at least, and tried again; the answer
// that it sends when it thaws counts no more.
func TestAFrozenWorkerIsCut(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 2, 1), backed(2, 3))
	first := s.begin()
	s.started(first...)
	s.answerAfter(first[0], 100*time.Millisecond)
	frozen := s.next()
	require.Equal(t, []uint32{1}, functions(frozen))
	invoker := s.invokers[1]
	s.sim.Advance(30 * time.Second)
	require.Empty(t, s.next(), "it has no slot yet, as far as is known: its time does not run")
	s.started(frozen...)
	s.started(frozen...) // repeats begin nothing anew
	s.sim.Advance(5 * time.Second)
	s.started(frozen...)
	s.sim.Advance(5 * time.Second)
	require.Empty(t, s.next())
	s.sim.Advance(time.Second)
	require.True(t, s.stopped[invoker.GetId()], "so it is cancelled")
	told := testkit.Expect[*messages.CancelInvocation](s.host)
	require.True(t, told.GetOverdue(), "and the host says where it was")
	require.True(t, proto.Equal(frozen[0].GetAttempt(), told.GetAttempt()))
	again := s.next()
	require.Len(t, again, 1)
	require.EqualValues(t, 2, again[0].GetAttempt().GetAttempt())
	s.answerAfter(frozen[0], 11*time.Second) // thawed
	require.Empty(t, s.merges())
	s.started(again...)
	s.sim.Advance(20 * time.Second)
	require.Empty(t, s.next(), "this time it may take twice as long")
	s.answerAfter(again[0], 20*time.Second)
	result := s.end()
	require.EqualValues(t, 1, result.GetRetries())
	require.EqualValues(t, 2, result.GetEpochs()[0].GetSamples())
	var text string
	for _, e := range s.events {
		if f := e.GetFunctionFailed(); f != nil {
			text = f.GetFailure().GetText()
		}
	}
	require.Equal(t, `timed out after 11s on node "n1": its peers would have taken 100ms`, text)
}

// Without peers to compare with, the last round says what to expect, later and
// more leniently; the first round has no deadline but the function's time-out.
func TestWithoutPeersTheLastRoundCounts(t *testing.T) {
	s := newStage(t, 1, taskOf(2, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
	round := s.begin()
	s.started(round...)
	s.sim.Advance(10 * time.Minute)
	require.Empty(t, s.next())
	s.answerAfter(round[0], 5*time.Second)
	round = s.next()
	s.started(round...)
	s.sim.Advance(39 * time.Second)
	require.Empty(t, s.next())
	s.sim.Advance(2 * time.Second)
	require.EqualValues(t, 2, s.next()[0].GetAttempt().GetAttempt())
}

// Blocks of a validation are backed up and cut like assignments.
func TestAStragglingBlockIsRunTwice(t *testing.T) {
	s := newStage(t, 2, taskOf(100, func(task *messages.TrainTask) {
		validating(task)
		task.Options.Backup = proto.Bool(true)
	}))
	s.finish(s.begin()...)
	blocks := s.next()
	s.started(blocks...)
	s.answerAfter(blocks[0], 60*time.Millisecond)
	s.sim.Advance(3 * time.Second)
	backup := s.next()
	require.Equal(t, []uint32{1}, functions(backup))
	s.answerAfter(backup[0], 60*time.Millisecond)
	require.NotNil(t, s.end().GetEpochs()[0].ValidationLoss)
}

// A function that is still starting, be it a minute, is no straggler: its time
// counts from when it says that it is at work, and then like that of others.
func TestAColdStartIsNoStraggler(t *testing.T) {
	s := newStage(t, 4, backed(4, 1))
	round := s.begin()
	s.started(round[:3]...)
	for _, inv := range round[:3] {
		s.answerAfter(inv, 100*time.Millisecond)
	}
	s.sim.Advance(2 * time.Minute)
	require.Empty(t, s.next(), "neither a backup nor a retry")
	s.started(round[3])
	s.sim.Advance(time.Second)
	require.Empty(t, s.next())
	s.sim.Advance(3 * time.Second)
	require.Equal(t, []uint32{3}, functions(s.next()), "it is slow from then on")
}
