package testkit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
)

// traffic sends 1,000 numbers and 100 words from one actor to another and
// returns what arrived, in its order.
func traffic(sim *testkit.Sim) (got []int, words int) {
	sink := sim.Probe("sink")
	sim.Spawn("source", sending(sink.PID, append(numbers(1000), slices.Repeat([]any{&word{"w"}}, 100)...)...))
	sim.Run(time.Hour)
	for _, msg := range sink.Messages() {
		switch m := msg.(type) {
		case *number:
			got = append(got, m.n)
		case *word:
			words++
		}
	}
	return got, words
}

func TestEachFaultHappensToItsTypeOnly(t *testing.T) {
	tests := []struct {
		name   string
		faults testkit.Faults
		check  func(t *testing.T, got []int, words int, counts testkit.Counts)
	}{
		{
			"a type of its own can be dropped",
			testkit.Faults{PerType: map[string]testkit.Faults{"number": {Drop: 0.5}}},
			func(t *testing.T, got []int, words int, counts testkit.Counts) {
				require.InDelta(t, 500, len(got), 100)
				require.IsIncreasing(t, got)
				require.Equal(t, 100, words)
				require.EqualValues(t, 1000-len(got), counts.Dropped)
			},
		},
		{
			"duplicates arrive twice and may overtake",
			testkit.Faults{Duplicate: 0.5, Only: []string{"number"}},
			func(t *testing.T, got []int, words int, counts testkit.Counts) {
				require.InDelta(t, 1500, len(got), 100)
				require.Equal(t, 100, words)
				require.False(t, slices.IsSorted(got))
				require.EqualValues(t, len(got)-1000, counts.Duplicated)
				slices.Sort(got)
				require.Equal(t, 1000, len(slices.Compact(got)), "none is lost")
			},
		},
		{
			"delayed messages are overtaken, and arrive",
			testkit.Faults{Delay: 0.5, MaxDelay: time.Second, Except: []string{"word"}},
			func(t *testing.T, got []int, words int, counts testkit.Counts) {
				require.Len(t, got, 1000)
				require.Equal(t, 100, words)
				require.False(t, slices.IsSorted(got))
				require.InDelta(t, 500, counts.Delayed, 100)
			},
		},
		{
			"a delay without time only changes the order",
			testkit.Faults{Delay: 0.5},
			func(t *testing.T, got []int, _ int, _ testkit.Counts) {
				require.Len(t, got, 1000)
				require.False(t, slices.IsSorted(got))
			},
		},
		{
			"an exception is spared even if it has faults of its own",
			testkit.Faults{Drop: 1, Except: []string{"number"}, PerType: map[string]testkit.Faults{"number": {Drop: 1}}},
			func(t *testing.T, got []int, words int, _ testkit.Counts) {
				require.Len(t, got, 1000)
				require.Zero(t, words)
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for seed := range testkit.Seeds(t, 3) {
				sim := testkit.New(t, seed)
				sim.Faults = test.faults
				got, words := traffic(sim)
				test.check(t, got, words, sim.Counts())
			}
		})
	}
}

// What no fault may touch: lifecycle, timers, results, messages to oneself, and
// what the test sends and asks.
func TestFaultsTouchMessagesBetweenActorsOnly(t *testing.T) {
	sim := testkit.New(t, 1)
	sim.Faults = testkit.Faults{Drop: 1}
	seen := map[string]int{}
	rim := sim.Rim()
	pid := sim.Spawn("actor", actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			seen["started"]++
			ctx.Send(ctx.Self(), &number{})
			rim.SendAfter(time.Second, ctx.Self(), &tick{})
			rim.Go(ctx.Self(), func() any { return &word{} })
			ctx.Watch(ctx.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Started); ok {
					ctx.Send(ctx.Parent(), &tick{})
					ctx.Stop(ctx.Self())
				}
			})))
		case *number:
			seen["number"]++
		case *tick:
			seen["tick"]++
		case *word:
			seen["word"]++
		case *actor.Terminated:
			seen["terminated"]++
		case *query:
			ctx.Respond(m)
		}
	}))
	sim.Run(time.Minute)
	sim.Send(pid, &number{})
	sim.Ask(pid, &query{})
	require.Contains(t, []int{1, 2}, seen["terminated"], "watchers that are parents are told twice if the watch is in time")
	delete(seen, "terminated")
	require.Equal(t, map[string]int{"started": 1, "number": 2, "tick": 1, "word": 1}, seen)
	require.EqualValues(t, 1, sim.Counts().Dropped, "the child's message to its parent")
}

func TestFaultsAndCutsMayChangeAtAnyTime(t *testing.T) {
	sim := testkit.New(t, 1)
	sink := sim.Probe("sink")
	source := sim.Spawn("source", actor.PropsFromFunc(func(ctx actor.Context) {
		if n, ok := ctx.Message().(*number); ok {
			ctx.Send(sink.PID, n)
		}
	}))
	lost := func() bool {
		sim.Send(source, &number{})
		sim.Drain()
		defer sink.Clear()
		return len(sink.Messages()) == 0
	}
	require.False(t, lost())
	sim.Faults.Drop = 1
	require.True(t, lost())
	sim.Faults.Drop = 0
	require.False(t, lost())
	sim.Cut = func(from, to *actor.PID, msg any) bool {
		_, ok := msg.(*number)
		return ok && from.Id == "source" && to.Id == "sink"
	}
	require.True(t, lost())
	sim.Cut = nil
	require.False(t, lost())
}
