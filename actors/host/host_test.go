package host_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// A function that does not return costs its slot from 1 s after its cancel on,
// and until it returns.
func TestASlotThatDoesNotComeBackIsRetired(t *testing.T) {
	core, logged := observer.New(zapcore.WarnLevel)
	s := newStage(t, 1, 2, zap.New(core))
	s.runner.takes = func(*messages.Invoke) time.Duration { return time.Hour }
	s.runner.stops = func(string) time.Duration { return 5 * time.Second }
	probe := s.Probe("invoker")
	probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, 0, 1)})
	s.Advance(100 * time.Millisecond)
	probe.Send(s.host, &messages.CancelInvocation{Attempt: ref("a", 1, 0, 1)})

	last := func() *messages.HostReported {
		all := s.scheduler.Messages()
		return all[len(all)-1].(*messages.HostReported)
	}
	s.Advance(999 * time.Millisecond)
	require.EqualValues(t, 2, last().GetSlots())
	require.Len(t, last().GetHeld(), 1, "cancelled, and still there")
	s.Advance(time.Millisecond)
	require.EqualValues(t, 1, last().GetSlots())
	require.Empty(t, last().GetHeld())
	require.Len(t, logged.FilterMessageSnippet("slot retired").All(), 1)

	s.Advance(5 * time.Second)
	require.EqualValues(t, 2, last().GetSlots())
	require.Len(t, logged.FilterMessageSnippet("slot given back").All(), 1)
}

// Time-outs count from when an attempt runs, not from when it was asked for.
func TestAFunctionHasItsTimeFromItsStart(t *testing.T) {
	s := newStage(t, 1, 1, nil)
	s.runner.takes = func(*messages.Invoke) time.Duration { return time.Hour }
	probe := s.Probe("invoker")
	plan := &messages.RoundPlan{TimeoutMs: 2000}
	hangs := &messages.RoundPlan{TimeoutMs: 2000, Chaos: &messages.ChaosPlan{Hang: 1}}
	probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, 0, 1), Plan: plan})
	probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, 1, 1), Plan: hangs})

	for function, chaos := range []bool{false, true} {
		failed := testkit.Expect[*messages.InvokeFailed](probe)
		require.EqualValues(t, function, failed.GetAttempt().GetFunction())
		require.Equal(t, messages.FailureKind_FAILURE_KIND_UNAVAILABLE, failed.GetFailure().GetKind())
		require.Equal(t, "timed out after 2s (--function-timeout)", failed.GetFailure().GetText())
		require.Equal(t, chaos, failed.GetFailure().GetChaos())
		require.EqualValues(t, 2_000_000, failed.GetDurationUs())
		require.Equal(t, time.Duration(function+1)*2*time.Second, s.Now().Sub(testkit.Epoch))
	}
	s.Advance(time.Second)
	s.end(t, "a")
}

// The duration of an answer leaves out the time in the queue.
func TestADurationIsRunTime(t *testing.T) {
	s := newStage(t, 1, 1, nil)
	probe := s.Probe("invoker")
	for function := range uint32(2) {
		probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, function, 1)})
	}
	for range 2 {
		answer := testkit.Expect[*messages.Invoked](probe)
		require.EqualValues(t, 1_000_000, answer.GetDurationUs())
		require.EqualValues(t, 7, answer.GetSamples())
	}
	require.Equal(t, 2*time.Second, s.Now().Sub(testkit.Epoch))
}

func TestAHostReportsWhenItStartsAtEachChangeAndEachSecond(t *testing.T) {
	s := newStage(t, 1, 2, nil)
	s.Drain()
	first := testkit.Expect[*messages.HostReported](s.scheduler)
	require.Equal(t, []any{"here", "boot.1", uint64(1), uint32(2), 0},
		[]any{first.GetNode(), first.GetBoot(), first.GetSeq(), first.GetSlots(), len(first.GetHeld())})
	s.Advance(3 * time.Second)
	require.Len(t, s.scheduler.Messages(), 3)

	s.scheduler.Clear()
	probe := s.Probe("invoker")
	probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, 0, 1)})
	s.Drain()
	held := testkit.Expect[*messages.HostReported](s.scheduler).GetHeld()
	require.Len(t, held, 1)
	require.Equal(t, "a.1.0.1", nameOf(held[0]))
	probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, 0, 1)})
	testkit.ExpectNone[*messages.HostReported](s.scheduler)
}

// What changes within 10 ms of a report makes one more, and that is the last
// word.
func TestABurstOfChangesMakesOneReport(t *testing.T) {
	s := newStage(t, 1, 8, nil)
	s.runner.takes = func(*messages.Invoke) time.Duration { return time.Minute }
	s.Advance(100 * time.Millisecond)
	s.scheduler.Clear()
	probe := s.Probe("invoker")
	for function := range uint32(5) {
		probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, function, 1)})
		s.Advance(time.Millisecond)
	}
	require.Len(t, testkit.Expect[*messages.HostReported](s.scheduler).GetHeld(), 1, "the first change is told at once")
	testkit.ExpectNone[*messages.HostReported](s.scheduler)
	s.Advance(5 * time.Millisecond)
	require.Len(t, testkit.Expect[*messages.HostReported](s.scheduler).GetHeld(), 5)
	s.Advance(100 * time.Millisecond)
	testkit.ExpectNone[*messages.HostReported](s.scheduler)
}

// A host that stops says so and cancels what runs.
func TestAHostThatStopsLeaves(t *testing.T) {
	s := newStage(t, 1, 2, nil)
	s.runner.takes = func(*messages.Invoke) time.Duration { return time.Hour }
	s.client(ref("a", 1, 0, 1))
	s.Advance(100 * time.Millisecond)
	require.Len(t, s.runner.busy, 1)
	s.Stop(s.host)
	left := testkit.Expect[*messages.HostLeft](s.scheduler)
	require.Equal(t, "boot.1", left.GetBoot())
	s.Advance(100 * time.Millisecond)
	require.Empty(t, s.runner.busy)
}

// A released step's answers go, but those that are kept; a job's other tensors
// stay.
func TestReleaseFreesAnswers(t *testing.T) {
	s := newStage(t, 1, 4, nil)
	probe := s.Probe("invoker")
	var keys []string
	for round := range uint32(2) {
		for function := range uint32(2) {
			probe.Send(s.host, &messages.Invoke{Attempt: ref("a", round+1, function, 1)})
			keys = append(keys, testkit.Expect[*messages.Invoked](probe).GetModel().GetKey())
		}
	}
	require.Len(t, s.space.List("a/"), 4)
	probe.Send(s.host, &messages.ReleaseTensors{Step: ref("a", 1, 0, 0), Keep: keys[1:2]})
	s.Drain()
	require.ElementsMatch(t, keys[1:], s.space.List("a/"))
	testkit.ExpectNone[*messages.ReleaseTensorsReply](probe)
	for range 2 { // a repeat is answered, too
		probe.Send(s.host, &messages.ReleaseTensors{Step: ref("a", 1, 0, 0), Everything: true})
		require.Equal(t, "here", testkit.Expect[*messages.ReleaseTensorsReply](probe).GetNode())
	}
	s.Drain()
	require.Empty(t, s.space.List("a/"))
}

// A host says whether tensors of a job lie there, whoever has made them.
func TestAHostSaysWhatItHasOfAJob(t *testing.T) {
	s := newStage(t, 1, 1, nil)
	probe := s.Probe("job")
	ask := func() *messages.AskStateReply {
		probe.Send(s.host, &messages.AskState{Job: &messages.JobRef{Id: "a", Incarnation: 2}})
		return testkit.Expect[*messages.AskStateReply](probe)
	}
	require.False(t, ask().GetHolds())
	draft, err := s.space.Create("a/1/1-1-0-1-1/model", 0)
	require.NoError(t, err)
	_, err = draft.Seal()
	require.NoError(t, err)
	require.True(t, ask().GetHolds())
	require.Nil(t, ask().GetState())
}

// What a node warns of reaches those who follow the jobs that are at work there, by
// what the host says of their attempts; where they hear of it in another way it does not.
func TestJobsSayWhatTheirNodeWarnsOf(t *testing.T) {
	for unheard, want := range map[bool]int{true: 1, false: 0} {
		s := newStage(t, 1, 2, zap.NewNop())
		s.unheard = unheard
		s.runner.takes = func(*messages.Invoke) time.Duration { return time.Hour }
		s.runner.stops = func(string) time.Duration { return time.Hour }
		probe, other := s.Probe("invoker"), s.Probe("other")
		stays := &messages.Invoke{Attempt: ref("a", 1, 1, 1)}
		probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, 0, 1)})
		probe.Send(s.host, stays)
		s.Advance(100 * time.Millisecond)
		probe.Send(s.host, &messages.CancelInvocation{Attempt: ref("a", 1, 0, 1)})
		s.Advance(2 * time.Second) // the function ignores that
		require.Len(t, s.warnings, 1)
		probe.Clear()
		probe.Send(s.host, stays)
		said := testkit.Expect[*messages.InvokeAccepted](probe).GetWarnings()
		require.Len(t, said, want)
		if unheard {
			require.Contains(t, said[0], `node "here": slot`)
		}
		other.Send(s.host, &messages.Invoke{Attempt: ref("b", 1, 0, 1)})
		require.Empty(t, testkit.Expect[*messages.InvokeAccepted](other).GetWarnings(), "it was not there then")
	}
}
