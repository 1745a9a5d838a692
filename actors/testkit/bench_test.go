package testkit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-ml/troupe/actors/testkit"
)

// One delivery is one message received, 1,000 actors in play.
func BenchmarkDelivery(b *testing.B) {
	for _, faults := range []testkit.Faults{{}, {Delay: 0.1, MaxDelay: time.Second, Except: []string{"word"}}} {
		b.Run(fmt.Sprintf("faulty=%v", faults.Delay > 0), func(b *testing.B) {
			sim := testkit.New(b, 1)
			sim.Faults, sim.Limit = faults, 1<<60
			sim.Check(func() error { return nil })
			ball := &number{}
			player := actor.PropsFromFunc(func(ctx actor.Context) {
				if _, ok := ctx.Message().(*number); ok && ctx.Sender() != nil {
					ctx.Request(ctx.Sender(), ball)
				}
			})
			for i := range 500 {
				left, right := sim.Spawn(fmt.Sprint("left", i), player), sim.Spawn(fmt.Sprint("right", i), player)
				sim.System().Root.RequestWithCustomSender(left, ball, right)
			}
			start := sim.Counts().Delivered
			b.ReportAllocs()
			b.ResetTimer()
			sim.RunUntil(func() bool { return sim.Counts().Delivered-start >= uint64(b.N) }, 1<<62)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		testkit.New(b, 1)
	}
}
