package train_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

func crash() *messages.Failure {
	return &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_UNAVAILABLE, Text: "the worker was killed"}
}

func raise(text string) *messages.Failure {
	return &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_USER_CODE, Op: "native.run", Text: text, Trace: "line 7"}
}

func spans(inv *messages.Invoke) (out [][2]uint64) {
	for _, r := range inv.GetRanges() {
		out = append(out, [2]uint64{r.GetLo(), r.GetHi()})
	}
	return out
}

// The samples of a function that is given up go back into the epoch: it is
// merged without them, the next round takes them, and the history says so.
func TestSamplesOfAGivenUpFunctionReturn(t *testing.T) {
	s := newStage(t, 2, taskOf(4, nil))
	round := s.begin()
	require.Equal(t, [][2]uint64{{0, 1}}, spans(round[0]))
	s.fail(round[0], crash())
	s.finish(round[1])
	require.EqualValues(t, 1, s.merges()[0].GetAnswers())
	require.EqualValues(t, 1, s.merges()[0].GetEpochSamples())
	second := s.next()
	require.Equal(t, [][2]uint64{{0, 1}, {2, 3}}, spans(second[0]), "they come first")
	require.Equal(t, [][2]uint64{{3, 4}}, spans(second[1]))
	s.finish(second...)
	result := s.end()
	require.EqualValues(t, 4, result.GetEpochs()[0].GetSamples())
	require.EqualValues(t, 2, result.GetEpochs()[0].GetRounds())
	require.EqualValues(t, 1, result.GetEpochs()[0].GetLostFunctions())
	require.EqualValues(t, 1, result.GetLostFunctions())
	require.Zero(t, result.GetRetries())
	var told *messages.FunctionFailed
	for _, e := range s.events {
		if m := e.GetFunctionFailed(); m != nil {
			told = m
		}
	}
	require.True(t, told.GetGivenUp())
	require.Equal(t, "the worker was killed", told.GetFailure().GetText())
}

// With one round an epoch, what came back makes one more.
func TestSamplesThatCameBackMakeOneMoreRound(t *testing.T) {
	s := newStage(t, 2, taskOf(10, func(task *messages.TrainTask) { task.Options.K = -1 }))
	round := s.begin()
	s.finish(round[0])
	s.fail(round[1], crash())
	again := s.next()
	require.Equal(t, [][2]uint64{{5, 8}}, spans(again[0]))
	require.Equal(t, [][2]uint64{{8, 10}}, spans(again[1]))
	s.finish(again...)
	require.EqualValues(t, 2, s.end().GetEpochs()[0].GetRounds())
}

// A round with fewer answers than the job asks for ends it; a round cannot be
// asked for more answers than it has assignments.
func TestARoundNeedsMinFunctions(t *testing.T) {
	task := func(need uint32) *messages.TrainTask {
		return taskOf(4, func(task *messages.TrainTask) { task.Options.MinFunctions = need })
	}
	t.Run("one too few", func(t *testing.T) {
		s := newStage(t, 3, task(3))
		round := s.begin()
		s.finish(round[0], round[2])
		s.fail(round[1], crash())
		result := s.end()
		require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
		require.Equal(t, messages.FailureKind_FAILURE_KIND_UNAVAILABLE, result.GetFailure().GetKind())
		require.Contains(t, result.GetFailure().GetText(), "epoch 1, round 1: 2 of 3 functions answered, at least 3 must (see --retries, --min-functions); the last failure: the worker was killed")
		require.Empty(t, s.merges())
	})
	t.Run("as many as there are", func(t *testing.T) {
		s := newStage(t, 3, task(100))
		s.finish(s.begin()...)
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.end().GetPhase(), "the last round has one assignment")
	})
	t.Run("none", func(t *testing.T) {
		s := newStage(t, 2, task(1))
		for _, inv := range s.begin() {
			s.fail(inv, crash())
		}
		require.Contains(t, s.end().GetFailure().GetText(), "0 of 2 functions answered, at least 1 must")
	})
}

// The first retry of a crash comes at once, the second after a pause.
func TestACrashIsTriedAgainAtOnceAndThenLater(t *testing.T) {
	s := newStage(t, 1, taskOf(1, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
	round := s.begin()
	s.fail(round[0], crash())
	round = s.next()
	require.Len(t, round, 1)
	s.fail(round[0], crash())
	s.sim.Advance(49 * time.Millisecond)
	require.Empty(t, s.next())
	s.sim.Advance(52 * time.Millisecond)
	round = s.next()
	require.Len(t, round, 1)
	require.EqualValues(t, 3, round[0].GetAttempt().GetAttempt())
	s.finish(round...)
	require.EqualValues(t, 2, s.end().GetRetries())
}

// Reported: user code raises in one function, its peers wait for it for ever,
// and nobody sees the traceback. Here event and log have it at once, and the
// second raise ends the job with it.
func TestTheSecondRaiseEndsTheJobWithItsTrace(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 2, 3), taskOf(2, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
	round := s.begin()
	s.fail(round[1], raise("division by zero"))
	last := s.events[len(s.events)-1].GetFunctionFailed()
	require.Equal(t, "line 7", last.GetFailure().GetTrace())
	require.Equal(t, "line 7", s.log.All()[0].ContextMap()["trace"])
	require.False(t, last.GetGivenUp())
	s.fail(s.next()[0], raise("division by zero"))
	require.NotNil(t, s.finished, "the job ends at once though function 0 still runs")
	failure := s.finished.GetResult().GetFailure()
	require.Equal(t, messages.FailureKind_FAILURE_KIND_USER_CODE, failure.GetKind())
	require.Equal(t, "line 7", failure.GetTrace())
	require.Contains(t, failure.GetText(), "epoch 1, round 1, function 1")
	require.Contains(t, failure.GetText(), "division by zero")
	s.sim.Drain()
	require.False(t, s.sim.Alive(s.job), "nothing is left of it")
	require.True(t, s.stopped[s.invokers[0].GetId()])
}

// The same rejection twice is divergence: the failure names what to look at.
func TestTheSecondRejectionIsDivergence(t *testing.T) {
	s := newStageOf(t, 1, sizeOf(1, 2, 3), taskOf(8, func(task *messages.TrainTask) { task.Options.K, task.Options.Retries = 2, proto.Uint32(3) }))
	round := s.begin()
	rejected := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED, Text: `model: tensor "w": NaN at index 3`}
	s.fail(round[1], rejected)
	s.fail(s.next()[0], rejected)
	result := s.end()
	require.Equal(t, messages.FailureKind_FAILURE_KIND_REJECTED, result.GetFailure().GetKind())
	require.Equal(t, `diverged: model: tensor "w": NaN at index 3, epoch 1, round 1, function 1, positions [2,4), lr 0.1; `+
		"lower --lr, or look at the data at these positions (--on-bad-samples drop skips them)", result.GetFailure().GetText())
	require.EqualValues(t, 2, result.GetRejectedResults())
}

// What is wrong with an answer itself no learning rate mends.
func TestAnAnswerOfAWrongFormIsNoDivergence(t *testing.T) {
	for op, says := range map[string]string{
		"host.check": "look at what the function reports", "host.form": "look at what the function (its endpoint",
		"remote.answer": "look at what the function (its endpoint", "remote.put": "look at what the function (its endpoint",
	} {
		s := newStageOf(t, 1, sizeOf(1, 2, 3), taskOf(8, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
		round := s.begin()
		rejected := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_REJECTED, Op: op, Text: "model: answer: cut short"}
		s.fail(round[1], rejected)
		s.fail(s.next()[0], rejected)
		text := s.end().GetFailure().GetText()
		require.Contains(t, text, "the answer was rejected twice (epoch 1, round 1, function 1): model: answer: cut short; "+says)
		require.NotContains(t, text, "--lr")
	}
}

// Reported: a worker that always fails is restarted for ever. Each assignment
// has its retries; then the job ends with the reason.
func TestAnAssignmentIsTriedSoOften(t *testing.T) {
	s := newStage(t, 1, taskOf(5, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
	s.begin()
	attempts := 0
	for s.finished == nil {
		s.fail(s.told[len(s.told)-1], crash())
		attempts++
		s.sim.Advance(time.Second)
	}
	require.Equal(t, 4, attempts)
	require.Contains(t, s.finished.GetResult().GetFailure().GetText(), "the worker was killed")
	require.EqualValues(t, 3, s.finished.GetResult().GetRetries())
}

// And so has the job: one that goes on only because others succeed ends, too,
// when its functions fail more often than that.
func TestAJobMayFailSoOften(t *testing.T) {
	s := newStage(t, 2, taskOf(100, func(task *messages.TrainTask) {
		task.Epochs, task.Options.K, task.Options.Retries = 1000, -1, proto.Uint32(3)
	}))
	round := s.begin()
	failures, successes := 0, 0
	for s.finished == nil {
		for _, inv := range round {
			if inv.GetAttempt().GetFunction() == 0 && inv.GetAttempt().GetTask() == messages.Task_TASK_TRAIN && len(round) > 1 || inv.GetAttempt().GetAttempt() > 1 {
				failures++
				s.fail(inv, crash())
			} else {
				successes++
				s.finish(inv)
			}
		}
		if round = s.next(); len(round) == 0 && s.finished == nil {
			s.sim.Advance(time.Second)
			round = s.next()
		}
	}
	require.Equal(t, messages.Phase_PHASE_FAILED, s.finished.GetResult().GetPhase())
	require.Contains(t, s.finished.GetResult().GetFailure().GetText(), "functions fail more often than they succeed; the last: the worker was killed")
	require.LessOrEqual(t, failures-successes, 50+10*2+1)
	require.Greater(t, failures, successes)
}

// A first model that cannot be made ends the job.
func TestWithoutAFirstModelTheJobFails(t *testing.T) {
	s := newStage(t, 2, taskOf(4, nil))
	s.fail(s.next()[0], crash())
	result := s.end()
	require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
	require.Equal(t, "no first model: the worker was killed", result.GetFailure().GetText())
	require.EqualValues(t, 1, result.GetLostFunctions())
}

// An invoker that is gone, or that crashes for a bug of ours, is an attempt
// that failed: another one follows.
func TestALostInvokerIsAFailedAttempt(t *testing.T) {
	for name, hurt := range map[string]func(s *stage, inv *messages.Invoke){
		"it panics":    func(s *stage, inv *messages.Invoke) { s.sim.Crash(s.invokers[0], fmtError("nil pointer")); s.ping(inv) },
		"it is gone":   func(s *stage, _ *messages.Invoke) { s.sim.Stop(s.invokers[0]) },
		"it says lost": func(s *stage, inv *messages.Invoke) { s.lose(inv) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, 1, taskOf(2, func(task *messages.TrainTask) { task.Options.Retries = proto.Uint32(3) }))
			round := s.begin()
			hurt(s, round[0])
			again := s.next()
			require.Len(t, again, 1)
			require.EqualValues(t, 2, again[0].GetAttempt().GetAttempt())
			s.finish(again...)
			require.EqualValues(t, 1, s.end().GetRetries())
			require.EqualValues(t, 2, s.finished.GetResult().GetEpochs()[0].GetSamples())
		})
	}
}

type fmtError string

func (e fmtError) Error() string { return string(e) }

// ping gives an invoker a message to crash at.
func (s *stage) ping(inv *messages.Invoke) {
	s.sim.Send(s.invokers[0], &messages.InvokeAccepted{Attempt: inv.GetAttempt()})
}

func (s *stage) lose(inv *messages.Invoke) {
	s.sim.Send(s.job, &messages.FunctionLost{Attempt: inv.GetAttempt(), Failure: crash()})
}
