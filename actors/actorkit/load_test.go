package actorkit_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
)

func TestLoadTellsWhatWaitsAndWhatIsLost(t *testing.T) {
	system := actorkit.NewSystem(zap.NewNop())
	defer system.Shutdown()
	load := &actorkit.Load{}
	load.Watch(system)
	require.Empty(t, load.Depths())

	entered, leave := make(chan string), make(chan struct{})
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if text, ok := ctx.Message().(string); ok {
			entered <- text
			<-leave
		}
	}, load.Mailbox("slow")))
	for _, text := range []string{"a", "b", "c"} {
		system.Root.Send(pid, text)
	}
	require.Equal(t, "a", <-entered)
	require.Equal(t, map[string]int{"slow": 2}, load.Depths(), "one is being worked on, two wait")
	for _, text := range []string{"b", "c"} {
		leave <- struct{}{}
		require.Equal(t, text, <-entered)
	}
	leave <- struct{}{}
	require.NoError(t, system.Root.StopFuture(pid).Wait())
	require.Equal(t, map[string]int{"slow": 0}, load.Depths())

	before := load.DeadLetters()
	system.Root.Send(pid, "late")
	require.Equal(t, before+1, load.DeadLetters())
}
