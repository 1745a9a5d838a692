package testkit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/testkit"
)

type (
	number struct{ n int }
	word   struct{ text string }
	tick   struct{ n int }
	query  struct{}
)

// sending returns Props of an actor that sends msgs to another once started.
func sending(to *actor.PID, msgs ...any) *actor.Props {
	return actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			for _, msg := range msgs {
				ctx.Send(to, msg)
			}
		}
	})
}

func numbers(n int) []any {
	msgs := make([]any, n)
	for i := range msgs {
		msgs[i] = &number{i}
	}
	return msgs
}

// chatter is a run with many choices: senders, faults, timers and slow work.
func chatter(t testing.TB, seed uint64) *testkit.Sim {
	sim := testkit.New(t, seed)
	sim.Faults = testkit.Faults{Drop: 0.1, Duplicate: 0.1, Delay: 0.2, MaxDelay: time.Second}
	sink := sim.Probe("sink")
	for i := range 5 {
		sim.Spawn(fmt.Sprintf("source/%d", i), sending(sink.PID, numbers(10)...))
		sim.Rim().SendAfter(time.Second, sink.PID, &tick{i})
		sim.Rim().Go(sink.PID, func() any { return &word{"done"} })
	}
	sim.Run(time.Minute)
	return sim
}

func TestSameSeedSameRunOtherSeedOtherRun(t *testing.T) {
	seen := map[uint64]uint64{}
	for seed := range testkit.Seeds(t, 50) {
		first, second := chatter(t, seed), chatter(t, seed)
		require.Equal(t, first.Trace(), second.Trace())
		require.Equal(t, first.Hash(), second.Hash())
		require.Equal(t, first.Counts(), second.Counts())
		require.NotContains(t, seen, first.Hash(), "seed %d", seed)
		seen[first.Hash()] = seed
	}
}

func TestWithoutFaultsEachPairKeepsItsOrder(t *testing.T) {
	mixed := 0
	for seed := range testkit.Seeds(t, 50) {
		sim := testkit.New(t, seed)
		sink := sim.Probe("sink")
		sim.Spawn("a", sending(sink.PID, numbers(20)...))
		sim.Spawn("b", sending(sink.PID, &word{"0"}, &word{"1"}, &word{"2"}))
		sim.Drain()
		var got []int
		var words string
		for _, msg := range sink.Messages() {
			switch m := msg.(type) {
			case *number:
				got = append(got, m.n)
			case *word:
				words += m.text
				if len(got) > 0 && len(got) < 20 {
					mixed++
				}
			}
		}
		require.Len(t, got, 20)
		require.IsIncreasing(t, got)
		require.Equal(t, "012", words)
	}
	require.Positive(t, mixed, "senders interleave")
}

func TestTheClockMovesFromTimerToTimer(t *testing.T) {
	sim := testkit.New(t, 1)
	probe := sim.Probe("probe")
	rim := sim.Rim()
	rim.SendAfter(3*time.Second, probe.PID, &tick{3})
	rim.SendAfter(time.Second, probe.PID, &tick{1})
	cancel := rim.SendAfter(2*time.Second, probe.PID, &tick{2})
	sim.Drain()
	require.Empty(t, probe.Messages(), "Drain leaves timers alone")
	require.Equal(t, testkit.Epoch, rim.Now())

	require.Equal(t, 1, testkit.Expect[*tick](probe).n)
	require.Equal(t, testkit.Epoch.Add(time.Second), rim.Now())
	cancel()
	cancel()
	sim.Advance(1500 * time.Millisecond)
	require.Empty(t, probe.Messages())
	require.Equal(t, testkit.Epoch.Add(2500*time.Millisecond), rim.Now())
	require.Equal(t, 3, testkit.Expect[*tick](probe).n)
	require.Equal(t, testkit.Epoch.Add(3*time.Second), rim.Now())
}

type result struct{ took time.Duration }

func (r result) Took() time.Duration { return r.took }

func TestResultsOfSlowWorkArriveWhenTheyAreReady(t *testing.T) {
	sim := testkit.New(t, 1)
	probe := sim.Probe("probe")
	ran := false
	sim.Rim().Go(probe.PID, func() any { ran = true; return result{time.Minute} })
	sim.Rim().Go(probe.PID, func() any { panic("oops") })
	require.False(t, ran, "work never runs inside the caller")
	sim.Drain()
	require.True(t, ran)
	require.Len(t, probe.Messages(), 1)
	require.ErrorContains(t, testkit.Expect[*actorkit.WorkPanicked](probe).Err, "oops")
	testkit.Expect[result](probe)
	require.Equal(t, testkit.Epoch.Add(time.Minute), sim.Now())
}

func TestActionsOfTheTestFallBetweenMessages(t *testing.T) {
	sim := testkit.New(t, 1)
	sim.Step = time.Millisecond
	probe := sim.Probe("probe")
	seen := 0
	sim.At(10*time.Millisecond, func() { seen = len(probe.Messages()) })
	sim.Spawn("a", sending(probe.PID, numbers(50)...))
	sim.Drain()
	require.Len(t, probe.Messages(), 50)
	require.InDelta(t, 10, seen, 5)
}

// counter counts numbers and tells how many.
type counter struct{ n int }

func (c *counter) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *number:
		c.n++
	case *query:
		ctx.Respond(c.n)
	}
}

func newCounter() actor.Actor { return &counter{} }

func TestACrashedActorIsRestartedByItsSupervisor(t *testing.T) {
	boom := errors.New("boom")
	for seed := range testkit.Seeds(t, 20) {
		sim := testkit.New(t, seed)
		var events []*actor.SupervisorEvent
		sim.System().EventStream.Subscribe(func(event any) {
			if e, ok := event.(*actor.SupervisorEvent); ok {
				events = append(events, e)
			}
		})
		var child *actor.PID
		sim.Spawn("parent", actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				child, _ = ctx.SpawnNamed(actor.PropsFromProducer(newCounter), "child") // simulated without being asked to
			}
		}))
		sim.Drain()
		sim.Send(child, &number{})
		require.Equal(t, 1, sim.Ask(child, &query{}))

		sim.Crash(child, boom)
		sim.Send(child, &number{})
		require.Equal(t, 0, sim.Ask(child, &query{}), "the message is lost, and the state")
		require.Len(t, events, 1)
		require.Equal(t, boom, events[0].Reason)
		require.Equal(t, actor.RestartDirective, events[0].Directive)
		require.True(t, child.Equal(events[0].Child))

		sim.CrashAfter(child, boom)
		require.Equal(t, 0, sim.Ask(child, &query{}), "handled before the crash")
		sim.Send(child, &number{})
		require.Equal(t, 1, sim.Ask(child, &query{}))
		require.Len(t, events, 2)
	}
}

func TestStopStopsTheChildrenAndTellsWatchers(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		sim := testkit.New(t, seed)
		var order []string
		log := func(name string) actor.ReceiveFunc {
			return func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case *actor.Started:
					if name == "parent" {
						ctx.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
							if _, ok := ctx.Message().(*actor.Stopped); ok {
								order = append(order, "child")
							}
						}))
					}
				case *actor.Stopped:
					order = append(order, name)
				}
			}
		}
		parent := sim.Spawn("parent", actor.PropsFromFunc(log("parent")))
		probe := sim.Probe("probe")
		probe.Watch(parent)
		sim.Drain()
		sim.Stop(parent)
		require.Equal(t, "parent", testkit.Expect[*actor.Terminated](probe).Who.Id)
		require.Equal(t, []string{"child", "parent"}, order)
		probe.Watch(parent)
		require.Equal(t, actor.TerminatedReason_NotFound, testkit.Expect[*actor.Terminated](probe).Why)
	}
}

func TestARequestToNobodyIsAnsweredAsTheLibraryDoes(t *testing.T) {
	sim := testkit.New(t, 1)
	probe := sim.Probe("probe")
	probe.Send(actor.NewPID("nonhost", "nobody"), &query{})
	testkit.Expect[*actor.DeadLetterResponse](probe)
}

func TestAPoisonPillComesAfterWhatWasSentBefore(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		sim := testkit.New(t, seed)
		got := 0
		sink := sim.Spawn("sink", actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*number); ok {
				got++
			}
		}))
		sim.Spawn("source", actor.PropsFromFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				for i := range 5 {
					ctx.Send(sink, &number{i})
				}
				ctx.Poison(sink)
				ctx.Send(sink, &number{5})
			}
		}))
		sim.Drain()
		require.Equal(t, 5, got)
	}
}

func TestAMessageReachesWhoHasTheNameWhenItArrives(t *testing.T) {
	sim := testkit.New(t, 1)
	sim.Faults = testkit.Faults{Delay: 1, MaxDelay: time.Hour}
	counted := sim.Spawn("counter", actor.PropsFromProducer(newCounter))
	sim.Spawn("source", sending(counted, &number{}))
	sim.Drain()
	sim.Stop(counted)
	sim.Drain()
	second := sim.Spawn("counter", actor.PropsFromProducer(newCounter))
	sim.Run(2 * time.Hour)
	require.Equal(t, 1, sim.Ask(second, &query{}))
}

func TestFuturesOfActorsAreAnswered(t *testing.T) {
	sim := testkit.New(t, 1)
	target := sim.Spawn("counter", actor.PropsFromProducer(newCounter))
	var got any
	sim.Spawn("asker", actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			ctx.ReenterAfter(ctx.RequestFuture(target, &query{}, -1), func(answer any, _ error) { got = answer })
		}
	}))
	sim.Drain()
	require.Equal(t, 0, got)
}

func TestAProbePlaysAPeer(t *testing.T) {
	sim := testkit.New(t, 1)
	peer := sim.Probe("peer")
	counted := sim.Spawn("counter", actor.PropsFromProducer(newCounter))
	peer.Send(counted, &query{})
	require.Equal(t, 0, testkit.Expect[int](peer))
	testkit.ExpectNone[int](peer)

	answer := 0
	sim.Spawn("asker", actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Request(peer.PID, &query{})
		case *number:
			answer = m.n
		}
	}))
	testkit.Expect[*query](peer)
	peer.Respond(&number{7})
	sim.Drain()
	require.Equal(t, 7, answer)

	peer.Answer = func(msg any) any {
		if _, ok := msg.(*query); ok {
			return "answered"
		}
		return nil
	}
	require.Equal(t, "answered", testkit.Ask[string](sim, peer.PID, &query{}))
	sim.Send(peer.PID, &word{"kept"})
	require.Equal(t, "kept", testkit.Expect[*word](peer).text)
	sim.Send(peer.PID, &word{"forgotten"})
	sim.Drain()
	peer.Clear()
	require.Empty(t, peer.Messages())
}
