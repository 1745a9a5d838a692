package invoker_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/invoker"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// stage is a real FunctionInvoker between a played TrainJob and two hosts.
type stage struct {
	t       *testing.T
	sim     *testkit.Sim
	invoker *actor.PID
	hosts   map[string]*testkit.Probe
	news    []any // what the job was told
	panics  []any // what the invoker died of
	restart bool  // it is restarted then, else stopped
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, sim: testkit.New(t, 1), restart: true}
	s.hosts = map[string]*testkit.Probe{"n1": s.sim.Probe("host1"), "n2": s.sim.Probe("host2")}
	s.sim.Spawn("job", actor.PropsFromProducer(func() actor.Actor { return &job{s} }))
	s.sim.Drain()
	return s
}

// job plays the TrainJob, the invoker's parent.
type job struct{ *stage }

func (j *job) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		j.invoker = ctx.Spawn(invoker.Props(invoker.Deps{
			Log: zap.NewNop().WithOptions(zap.Development()), Rim: j.sim.Rim(),
			Host: func(node string) *actor.PID { return j.hosts[node].PID },
		}))
	case *messages.FunctionFinished, *messages.FunctionLost:
		j.news = append(j.news, m)
	}
}

func (j *job) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	j.panics = append(j.panics, reason)
	if j.restart {
		sup.RestartChildren(child)
	} else {
		sup.StopChildren(child)
	}
}

func attempt(number uint32) *messages.AttemptRef {
	return &messages.AttemptRef{
		Job: &messages.JobRef{Id: "j", Incarnation: 1}, Epoch: 2, Round: 3, Task: messages.Task_TASK_TRAIN, Function: 4, Attempt: number,
	}
}

func invoke(number uint32, node string) *messages.Invoke {
	return &messages.Invoke{Attempt: attempt(number), Node: node}
}

// send delivers messages one after the other.
func (s *stage) send(msgs ...any) {
	for _, m := range msgs {
		s.sim.Send(s.invoker, m)
		s.sim.Drain()
	}
}

// told returns what a host was sent since the last call.
func (s *stage) told(node string) []any {
	s.sim.Drain()
	msgs := s.hosts[node].Messages()
	s.hosts[node].Clear()
	return msgs
}

// heard returns what the job was told since the last call.
func (s *stage) heard() []any {
	s.sim.Drain()
	news := s.news
	s.news = nil
	return news
}

// An attempt is repeated to its host each second for as long as it is waited
// for: that is its lease. Its end is repeated to the job until it stops the
// invoker, and then the host hears no more of it.
func TestAnInvokerRepeatsWhatItWaitsFor(t *testing.T) {
	s := newStage(t)
	s.send(invoke(1, "n1"))
	require.Len(t, s.told("n1"), 1)
	s.send(invoke(1, "n1"))
	require.Empty(t, s.told("n1"), "the job's repeat changes nothing")
	for range 25 {
		s.sim.Advance(time.Second)
		require.Equal(t, []any{invoke(1, "n1")}, s.told("n1"))
		s.send(&messages.InvokeAccepted{Attempt: attempt(1)})
	}
	require.Empty(t, s.heard(), "a host that gives a sign of life is waited for")
	answer := &messages.Invoked{Attempt: attempt(1), Samples: 7}
	s.send(answer, answer)
	require.Equal(t, []any{&messages.FunctionFinished{Answer: answer}}, s.heard(), "once")
	for range 3 {
		s.sim.Advance(time.Second)
		require.Equal(t, []any{&messages.FunctionFinished{Answer: answer}}, s.heard())
	}
	s.sim.Stop(s.invoker)
	s.sim.Advance(time.Minute)
	require.Empty(t, s.heard())
	require.Empty(t, s.told("n1"), "what has been answered is not cancelled: it may be part of a merge")
}

// A host that is silent for ten seconds is gone: the attempt is lost, and said
// to be lost until the next one comes.
func TestAHostThatIsSilentIsLost(t *testing.T) {
	s := newStage(t)
	s.send(invoke(1, "n1"))
	s.sim.Advance(3 * time.Second)
	s.send(&messages.InvokeAccepted{Attempt: attempt(1), Running: true})
	s.sim.Advance(9 * time.Second)
	require.Empty(t, s.heard())
	s.sim.Advance(time.Second)
	news := s.heard()
	require.Len(t, news, 1)
	lost := news[0].(*messages.FunctionLost)
	require.Equal(t, attempt(1), lost.GetAttempt())
	require.Equal(t, messages.FailureKind_FAILURE_KIND_UNAVAILABLE, lost.GetFailure().GetKind())
	require.Equal(t, `node "n1" has sent no sign of life for 10s`, lost.GetFailure().GetText())
	s.told("n1")
	s.sim.Advance(2 * time.Second)
	require.Len(t, s.heard(), 2, "again and again")
	require.Empty(t, s.told("n1"), "the host is left alone")
	s.send(&messages.Invoked{Attempt: attempt(1), Samples: 7})
	require.Empty(t, s.heard(), "too late")
	s.send(invoke(2, "n2"))
	require.Equal(t, []any{&messages.CancelInvocation{Attempt: attempt(1)}}, s.told("n1"), "in case it comes back")
	require.Equal(t, []any{invoke(2, "n2")}, s.told("n2"))
	s.sim.Advance(9 * time.Second)
	require.Empty(t, s.heard(), "the silence counts anew")
}

// A sign of life of another attempt is none.
func TestOnlyTheOpenAttemptCounts(t *testing.T) {
	s := newStage(t)
	s.send(invoke(3, "n1"), invoke(2, "n2"))
	require.Empty(t, s.told("n2"), "an earlier attempt that arrives late starts nothing")
	other := attempt(3)
	other.Round = 2
	for _, ref := range []*messages.AttemptRef{attempt(2), attempt(4), other} {
		s.send(&messages.Invoked{Attempt: ref}, &messages.InvokeFailed{Attempt: ref, Failure: &messages.Failure{Text: "late"}})
	}
	require.Empty(t, s.heard())
	require.Empty(t, s.panics)
	for range 10 {
		s.sim.Advance(time.Second)
		s.send(&messages.InvokeAccepted{Attempt: attempt(2)})
	}
	require.Len(t, s.heard(), 1, "lost, whatever others say")
}

// A function's failure is its invoker's: it dies of it, and its supervisor can
// read of what. Nothing is cancelled, since nothing runs any more.
func TestAFailureIsTheInvokersOwn(t *testing.T) {
	s := newStage(t)
	failure := &messages.Failure{
		Kind: messages.FailureKind_FAILURE_KIND_USER_CODE, Op: "native.run", Text: "division by zero", Trace: "line 7",
	}
	s.send(invoke(1, "n1"))
	s.told("n1")
	s.send(&messages.InvokeFailed{Attempt: attempt(1), Failure: failure, DurationUs: 1_500_000})
	require.Len(t, s.panics, 1)
	died := s.panics[0].(interface {
		error
		Attempt() *messages.AttemptRef
		Failure() *messages.Failure
		Ran() time.Duration
	})
	require.Equal(t, attempt(1), died.Attempt())
	require.Equal(t, failure, died.Failure())
	require.Equal(t, 1500*time.Millisecond, died.Ran())
	require.EqualError(t, died, "division by zero")
	require.Equal(t, fault.UserCode, fault.KindOf(died))
	require.Equal(t, "line 7", fault.TraceOf(died))
	s.sim.Advance(time.Minute)
	require.Empty(t, s.told("n1"), "restarted, it waits for the next attempt")
	require.Empty(t, s.heard())
	s.send(invoke(2, "n2"))
	require.Equal(t, []any{invoke(2, "n2")}, s.told("n2"))
}

// What nobody waits for any more is cancelled: when the invoker is stopped or
// dies of a bug, and when a later attempt takes its place.
func TestWhatNobodyWaitsForIsCancelled(t *testing.T) {
	cancelled := []any{&messages.CancelInvocation{Attempt: attempt(1)}}
	for name, end := range map[string]func(s *stage){
		"it is stopped":       func(s *stage) { s.sim.Stop(s.invoker) },
		"it dies of a bug":    func(s *stage) { s.sim.Crash(s.invoker, fault.New("x", fault.Unknown, "bug")); s.send(invoke(1, "n1")) },
		"the next one begins": func(s *stage) { s.send(invoke(2, "n2")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.send(invoke(1, "n1"))
			s.told("n1")
			end(s)
			require.Equal(t, cancelled, s.told("n1"))
		})
	}
}

// Before its first attempt an invoker does nothing, and nothing of it is left
// when it is stopped.
func TestAnIdleInvokerDoesNothing(t *testing.T) {
	s := newStage(t)
	s.send(&messages.Invoked{Attempt: attempt(1)}, &messages.InvokeAccepted{Attempt: attempt(1)})
	s.sim.Stop(s.invoker)
	s.sim.Run(time.Second) // no timer is left
	require.Empty(t, s.told("n1"))
	require.Empty(t, s.heard())
}
