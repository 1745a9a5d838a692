package actorkit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
)

// listener returns an actor that hands on what it gets.
func listener(system *actor.ActorSystem) (*actor.PID, chan any) {
	got := make(chan any, 100_000)
	return system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started, *actor.Stopping, *actor.Stopped:
		default:
			got <- m
		}
	})), got
}

func open(t *testing.T) (*actor.ActorSystem, *actorkit.SystemRim) {
	system := actorkit.NewSystem(zap.NewNop())
	rim := actorkit.NewRim(system)
	t.Cleanup(func() {
		rim.Close()
		system.Shutdown()
	})
	return system, rim
}

// A timer of no length may fire before SendAfter has returned; it must not get
// lost over that.
func TestTimersOfNoLengthAreNotLost(t *testing.T) {
	system, rim := open(t)
	pid, got := listener(system)
	const n = 50_000
	for i := range n {
		rim.SendAfter(0, pid, i)
	}
	seen := map[any]bool{}
	for range n {
		seen[<-got] = true
	}
	require.Len(t, seen, n)
}

func TestACancelledTimerSendsNothing(t *testing.T) {
	system, rim := open(t)
	pid, got := listener(system)
	rim.SendAfter(time.Hour, pid, "never")()
	cancel := rim.SendAfter(0, pid, "sent")
	require.Equal(t, "sent", <-got)
	cancel()
	cancel()
}

func TestWorkComesBackAsAMessage(t *testing.T) {
	system, rim := open(t)
	pid, got := listener(system)
	rim.Go(pid, func() any { return 7 })
	require.Equal(t, 7, <-got)
	rim.Go(pid, func() any { panic("boom") })
	require.ErrorContains(t, (<-got).(*actorkit.WorkPanicked).Err, "boom")
}

func TestCloseWaitsForWorkAndEndsTimers(t *testing.T) {
	system, rim := open(t)
	pid, got := listener(system)
	release, ended := make(chan struct{}), false
	rim.Go(pid, func() any { <-release; ended = true; return "done" })
	rim.SendAfter(time.Hour, pid, "never")
	close(release)
	rim.Close()
	require.True(t, ended)
	rim.SendAfter(0, pid, "too late")
	require.Equal(t, "done", <-got)
	require.Empty(t, got)
}

func TestPanickedKeepsErrors(t *testing.T) {
	err := errors.New("x")
	require.Equal(t, err, actorkit.Panicked(err))
	require.ErrorContains(t, actorkit.Panicked("text"), "text")
}
