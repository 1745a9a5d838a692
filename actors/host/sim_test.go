package host_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// stage is a host in a simulation, with all that is around it.
type stage struct {
	*testkit.Sim
	host      *actor.PID
	scheduler *testkit.Probe
	runner    *runner
	slots     int
	space     *plane.Memory
	warnings  []string
	unheard   bool // nobody who follows jobs hears of them
}

func newStage(t *testing.T, seed uint64, slots int, log *zap.Logger) *stage {
	t.Helper()
	s := &stage{Sim: testkit.New(t, seed), slots: slots, space: plane.NewMemory("here")}
	s.scheduler = s.Probe("scheduler")
	s.runner = &runner{
		stage: s, busy: map[int]string{}, starts: map[string]int{},
		takes: func(*messages.Invoke) time.Duration { return time.Second }, stops: func(string) time.Duration { return 0 },
	}
	if log == nil {
		log = zaptest.NewLogger(t)
	}
	s.host = s.Spawn("host", host.Props(host.Deps{
		Log: log, Rim: s.Rim(), Node: "here", Boot: "boot", Slots: slots, Runner: s.runner, Tensors: s.space,
		Scheduler: func() *actor.PID { return s.scheduler.PID },
		Warn:      func(text string) bool { s.warnings = append(s.warnings, text); return !s.unheard },
	}))
	return s
}

// runner is a runtime on virtual time: each run writes a model when it ends.
type runner struct {
	stage  *stage
	takes  func(*messages.Invoke) time.Duration // an attempt without being stopped
	stops  func(attempt string) time.Duration   // until a cancelled one returns
	broken func(slot int) bool                  // what runs there fails; nil: nowhere
	begins func(*messages.Invoke) time.Duration // until a function says that it is at work; nil: none does
	nonce  uint64
	busy   map[int]string // by slot
	starts map[string]int // by attempt
	order  []string       // of starts
}

func (r *runner) Starts(*messages.Invoke) bool { return r.begins != nil }

func (r *runner) Elsewhere(*messages.Invoke) bool { return r.begins != nil }

func (r *runner) Start(inv *messages.Invoke, slot int, began func(), done func(*messages.Invoked, error)) (cancel context.CancelCauseFunc) {
	name := nameOf(inv.GetAttempt())
	if other, ok := r.busy[slot]; ok || slot >= r.stage.slots {
		r.stage.Fail("%s starts on slot %d, where %q is", name, slot, other)
	}
	r.busy[slot] = name
	r.starts[name]++
	r.order = append(r.order, name)
	over, cancelled := false, false
	end := func() {
		if over {
			return
		}
		over = true
		delete(r.busy, slot)
		if cancelled && r.stage.Rand().IntN(2) == 0 {
			done(nil, fault.New("runner.run", fault.Unavailable, "cancelled"))
			return
		}
		if r.broken != nil && r.broken(slot) {
			done(nil, fault.New("runner.run", fault.Unavailable, "its worker crashed"))
			return
		}
		r.nonce++ // an answer, also after a cancel that came too late
		key := host.AnswerKey(inv.GetAttempt(), r.nonce, "model")
		draft, err := r.stage.space.Create(key, 0)
		if err == nil {
			_, err = draft.Seal()
		}
		if err != nil {
			r.stage.Fail("%s: %v", name, err)
		}
		done(&messages.Invoked{Model: &messages.TensorRef{Key: key}, Samples: 7}, nil)
	}
	if r.begins != nil {
		r.stage.At(r.begins(inv), began)
	}
	r.stage.At(r.takes(inv), end)
	return func(error) {
		cancelled = true
		r.stage.At(r.stops(name), end)
	}
}

// client asks for one attempt until it has ended, or somebody cancels it.
type client struct {
	stage  *stage
	invoke *messages.Invoke
	ends   []string // every end that came
	quiet  bool     // asks no more
	cancel bool     // cancels instead, until it is stopped
}

type again struct{}

func (s *stage) client(attempt *messages.AttemptRef) *client {
	c := &client{stage: s, invoke: &messages.Invoke{Attempt: attempt, Plan: &messages.RoundPlan{}}}
	s.Spawn("client-"+nameOf(attempt), actor.PropsFromProducer(func() actor.Actor { return c }))
	return c
}

func (c *client) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started, again:
		if len(c.ends) > 0 || c.quiet {
			return
		}
		if c.cancel {
			ctx.Send(c.stage.host, &messages.CancelInvocation{Attempt: c.invoke.GetAttempt()})
		} else {
			ctx.Request(c.stage.host, c.invoke)
		}
		c.stage.Rim().SendAfter(time.Second, ctx.Self(), again{})
	case *messages.Invoked:
		c.ended(m.GetAttempt(), m.GetModel().GetKey())
	case *messages.InvokeFailed:
		c.ended(m.GetAttempt(), m.GetFailure().GetText())
	}
}

func (c *client) ended(attempt *messages.AttemptRef, how string) {
	if !actorkit.SameAttempt(attempt, c.invoke.GetAttempt()) {
		c.stage.Fail("%s was told of %s", nameOf(c.invoke.GetAttempt()), nameOf(attempt))
	}
	c.ends = append(c.ends, how)
}

func ref(job string, round, function, attempt uint32) *messages.AttemptRef {
	return &messages.AttemptRef{
		Job: &messages.JobRef{Id: job, Incarnation: 1}, Epoch: 1, Round: round,
		Task: messages.Task_TASK_TRAIN, Function: function, Attempt: attempt,
	}
}

func nameOf(ref *messages.AttemptRef) string {
	return fmt.Sprintf("%s.%d.%d.%d", ref.GetJob().GetId(), ref.GetRound(), ref.GetFunction(), ref.GetAttempt())
}

// idle reports whether nothing runs and the scheduler knows it.
func (s *stage) idle() bool {
	if len(s.runner.busy) > 0 {
		return false
	}
	all := s.scheduler.Messages()
	if len(all) == 0 {
		return false
	}
	last, ok := all[len(all)-1].(*messages.HostReported)
	return ok && len(last.GetHeld()) == 0 && int(last.GetSlots()) == s.slots
}

// end releases everything of some jobs, until it is gone.
func (s *stage) end(t *testing.T, jobs ...string) {
	t.Helper()
	s.Faults = testkit.Faults{}
	for _, job := range jobs {
		s.Send(s.host, &messages.ReleaseTensors{Step: ref(job, 1, 0, 0), Everything: true})
	}
	s.RunUntil(s.idle, time.Minute)
	s.Drain()
	require.Empty(t, s.space.List(""))
}

// Whatever is lost, repeated or overtaken: every attempt that is wanted ends
// once, one that is not gives its slot back, and nothing is left.
func TestEveryInvocationEndsOnce(t *testing.T) {
	for seed := range testkit.Seeds(t, 100) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStage(t, seed, 3, nil)
			s.Faults = testkit.Faults{
				Drop: 0.2, Duplicate: 0.2, Delay: 0.2, MaxDelay: 3 * time.Second,
				PerType: map[string]testkit.Faults{"HostReported": {}},
			}
			rng := s.Rand()
			s.runner.takes = func(*messages.Invoke) time.Duration { return time.Duration(rng.IntN(4000)) * time.Millisecond }
			s.runner.stops = func(string) time.Duration { return time.Duration(rng.IntN(1500)) * time.Millisecond }
			var wanted, unwanted []*client
			for i := range 30 {
				c := s.client(ref([]string{"a", "b"}[i%2], 1, uint32(i), 1))
				if rng.IntN(3) > 0 {
					wanted = append(wanted, c)
					continue
				}
				unwanted = append(unwanted, c)
				s.At(time.Duration(rng.IntN(20_000))*time.Millisecond, func() { c.cancel = true })
			}
			done := func() bool {
				for _, c := range wanted {
					if len(c.ends) == 0 {
						return false
					}
				}
				return s.idle() && s.Now().Sub(testkit.Epoch) > 25*time.Second
			}
			s.RunUntil(done, 10*time.Minute)
			for _, c := range wanted {
				require.Equal(t, 1, s.runner.starts[nameOf(c.invoke.GetAttempt())])
				for _, end := range c.ends {
					require.Equal(t, c.ends[0], end)
				}
				require.Contains(t, s.space.List(""), c.ends[0], "the answer is there until it is released")
			}
			for _, c := range unwanted {
				require.LessOrEqual(t, s.runner.starts[nameOf(c.invoke.GetAttempt())], 1)
				c.quiet = true
			}
			s.end(t, "a", "b")
		})
	}
}

// A host that crashes in the middle runs what is still asked for anew, and
// never two attempts on one slot.
func TestACrashedHostRunsAnewWhatIsAskedFor(t *testing.T) {
	for seed := range testkit.Seeds(t, 100) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newStage(t, seed, 3, nil)
			s.Faults = testkit.Faults{
				Drop: 0.1, Duplicate: 0.1, Delay: 0.2, MaxDelay: time.Second,
				PerType: map[string]testkit.Faults{"HostReported": {}},
			}
			rng := s.Rand()
			s.runner.takes = func(*messages.Invoke) time.Duration { return time.Duration(rng.IntN(6000)) * time.Millisecond }
			s.runner.stops = func(string) time.Duration { return time.Duration(rng.IntN(3000)) * time.Millisecond }
			var clients []*client
			for i := range 12 {
				clients = append(clients, s.client(ref("a", 1, uint32(i), 1)))
			}
			for range 3 {
				crash := []func(*actor.PID, error){s.Crash, s.CrashAfter}[rng.IntN(2)]
				s.At(time.Duration(rng.IntN(15_000))*time.Millisecond, func() { crash(s.host, errors.New("crashed on purpose")) })
			}
			s.RunUntil(func() bool {
				for _, c := range clients {
					if len(c.ends) == 0 {
						return false
					}
				}
				return s.idle() && s.Now().Sub(testkit.Epoch) > 16*time.Second
			}, 10*time.Minute)
			for _, c := range clients {
				require.Contains(t, c.ends[0], "a/1/")
			}
			s.end(t, "a")

			boots, seqs := map[string]bool{}, map[string]uint64{}
			for _, m := range s.scheduler.Messages() {
				report := m.(*messages.HostReported)
				boots[report.GetBoot()] = true
				require.Greater(t, report.GetSeq(), seqs[report.GetBoot()])
				seqs[report.GetBoot()] = report.GetSeq()
			}
			require.Greater(t, len(boots), 1, "each start is a boot of its own")
		})
	}
}

// Case 38: cancelling 1,000 queued invocations gives all capacity back, in
// order of arrival.
func TestAThousandQueuedAndCancelled(t *testing.T) {
	s := newStage(t, 1, 2, nil)
	s.runner.takes = func(*messages.Invoke) time.Duration { return 3 * time.Second }
	probe := s.Probe("invoker")
	invoke := func(function uint32) {
		probe.Send(s.host, &messages.Invoke{Attempt: ref("a", 1, function, 1)})
	}
	for i := range uint32(1004) {
		invoke(i)
	}
	s.Drain()
	for i := range uint32(1000) {
		probe.Send(s.host, &messages.CancelInvocation{Attempt: ref("a", 1, 2+i, 1)})
	}
	invoke(2000)
	s.RunUntil(func() bool { return len(s.runner.order) == 5 && s.idle() }, time.Minute)
	require.Equal(t, []string{"a.1.0.1", "a.1.1.1", "a.1.1002.1", "a.1.1003.1", "a.1.2000.1"}, s.runner.order)
	s.end(t, "a")
}

// Who is not heard of for 10 s loses slot and place in the queue.
func TestALostLeaseFreesTheSlot(t *testing.T) {
	s := newStage(t, 1, 1, nil)
	s.runner.takes = func(inv *messages.Invoke) time.Duration {
		if inv.GetAttempt().GetFunction() == 0 {
			return time.Hour
		}
		return time.Second
	}
	lost := s.client(ref("a", 1, 0, 1))
	s.Drain()
	patient := s.client(ref("b", 1, 1, 1))
	s.Advance(4500 * time.Millisecond)
	lost.quiet = true
	s.Advance(9 * time.Second)
	require.Equal(t, []string{"a.1.0.1"}, s.runner.order, "the last repeat was at 4 s")
	s.Advance(1500 * time.Millisecond)
	require.Equal(t, []string{"a.1.0.1", "b.1.1.1"}, s.runner.order)
	s.RunUntil(func() bool { return len(patient.ends) > 0 && s.idle() }, time.Minute)
	s.end(t, "a", "b")
}

// A function that may take long to start runs from when it says so: its job hears
// that it has its slot only then, at once, and its run time counts from then.
func TestAFunctionRunsOnceItHasStarted(t *testing.T) {
	s := newStage(t, 1, 1, nil)
	s.runner.begins = func(*messages.Invoke) time.Duration { return time.Minute }
	s.runner.takes = func(*messages.Invoke) time.Duration { return time.Minute + 5*time.Second }
	invoker := s.Probe("invoker")
	invoke := &messages.Invoke{Attempt: ref("a", 1, 0, 1), Plan: &messages.RoundPlan{}}
	running := func() (said []bool) {
		for _, m := range invoker.Messages() {
			if accepted, ok := m.(*messages.InvokeAccepted); ok {
				said = append(said, accepted.GetRunning())
			}
		}
		invoker.Clear()
		return said
	}
	for range 59 {
		invoker.Send(s.host, invoke)
		s.Advance(time.Second)
	}
	require.NotContains(t, running(), true)
	s.Advance(1500 * time.Millisecond)
	require.Equal(t, []bool{true}, running(), "said at once, unasked")
	invoker.Send(s.host, invoke)
	s.Drain()
	require.Equal(t, []bool{true}, running())
	s.Advance(5 * time.Second)
	require.Len(t, invoker.Messages(), 1)
	require.EqualValues(t, 5_000_000, invoker.Messages()[0].(*messages.Invoked).GetDurationUs())
	s.end(t, "a")
}
