package testkit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
)

// What is to happen to a frozen actor waits, in its order; others go on.
func TestAFrozenActorGoesOnWhereItWas(t *testing.T) {
	for seed := range testkit.Seeds(t, 50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			sim := testkit.New(t, seed)
			sleeper, other := sim.Probe("a.sleeper"), sim.Probe("b.other")
			sim.Freeze(20*time.Second, func(id string) bool { return strings.HasPrefix(id, "a.") })
			sim.Spawn("source", actor.PropsFromFunc(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*actor.Started); ok {
					for _, n := range numbers(5) {
						ctx.Send(sleeper.PID, n)
						ctx.Send(other.PID, n)
					}
				}
			}))
			worked := false
			sim.Rim().Go(sleeper.PID, func() any { worked = true; return &word{"done"} })
			sim.Rim().SendAfter(time.Second, sleeper.PID, &tick{})
			sim.Advance(19 * time.Second)
			require.Empty(t, sleeper.Messages())
			require.False(t, worked)
			require.Len(t, other.Messages(), 5)
			sim.Advance(time.Second)
			require.True(t, worked)
			require.Len(t, sleeper.Messages(), 7)
			for i := range 5 {
				require.Equal(t, i, testkit.Expect[*number](sleeper).n)
			}
		})
	}
}

// Slow work may take its time, and is done at the end of it.
func TestWorkTakesAsLongAsItIsTold(t *testing.T) {
	sim := testkit.New(t, 1)
	sim.Work = func(*actor.PID) time.Duration { return 3 * time.Second }
	probe := sim.Probe("probe")
	var done time.Time
	sim.Rim().Go(probe.PID, func() any { done = sim.Now(); return &word{"done"} })
	testkit.Expect[*word](probe)
	require.Equal(t, testkit.Epoch.Add(3*time.Second), done)
}
