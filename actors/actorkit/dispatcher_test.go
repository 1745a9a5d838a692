package actorkit_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/actorkit"
)

// Actors with the options of a company get their messages in order, and one
// that panics is supervised as ever.
func TestActorsOfACompanyAreDispatched(t *testing.T) {
	system, _ := open(t)
	got := make(chan int, 500)
	pid := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		if n, ok := ctx.Message().(int); ok {
			got <- n
			if n%100 == 0 {
				panic("restart me")
			}
		}
	}, actorkit.Options(zap.NewNop())...))
	for n := range cap(got) {
		system.Root.Send(pid, n)
	}
	for n := range cap(got) {
		require.Equal(t, n, <-got)
	}
}
