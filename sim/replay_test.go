package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
	"github.com/troupe-ml/troupe/tensor"
)

// A static job gives the same model, bit for bit, whatever befalls it: lost and
// late messages, functions that crash and hang, chaos, actors that die, and
// another number of slots. Its history differs, its epochs do not.
func TestTroubleLeavesNoTraceInTheModel(t *testing.T) {
	for seed := range testkit.Seeds(t, 50) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			var task *messages.TrainTask
			run := func(name string, trouble bool) (model tensor.StateDict, result *messages.JobResult) {
				t.Run(name, func(t *testing.T) {
					s := newSceneOf(t, seed, func(c *sim.Config) {
						if trouble {
							c.Functions.Crash, c.Functions.Hang = 0.05, 0.01
							c.Slots = 1 + 3*c.Slots%7
						}
					})
					s.Sim.Check(s.check)
					task = s.drawTask()        // the same in both
					task.Options.MaxTimeMs = 0 // trouble takes time
					task.Options.StaticParallelism, task.Options.Retries = true, proto.Uint32(1000)
					if trouble {
						s.trouble(task)
					}
					id := s.submit(t, task)
					s.Sim.RunUntil(s.allEnded, 24*time.Hour)
					s.verify(t, id)
					saved, ok := s.Models.Get(id)
					require.True(t, ok, "%v", s.watches[id].Result)
					model, result = saved.Model, s.watches[id].Result
				})
				return model, result
			}
			calm, plain := run("calm", false)
			troubled, result := run("troubled", true)
			require.Equal(t, calm, troubled)
			require.Len(t, result.GetEpochs(), len(plain.GetEpochs()))
			for i, e := range result.GetEpochs() {
				want := plain.GetEpochs()[i]
				require.Equal(t, want.GetTrainLoss(), e.GetTrainLoss())
				require.Equal(t, want.ValidationLoss, e.ValidationLoss)
				require.Equal(t, want.Accuracy, e.Accuracy)
				require.Equal(t, want.GetRoundParallelism(), e.GetRoundParallelism())
			}
		})
	}
}

// trouble makes life hard for one job, but not so hard that it gives up.
func (s *scene) trouble(task *messages.TrainTask) {
	draw := s.Sim.Rand()
	s.Sim.Faults = testkit.Faults{Drop: 0.05, Duplicate: 0.05, Delay: 0.1, MaxDelay: 3 * time.Second}
	task.Options.Chaos = &messages.ChaosPlan{
		Kill: 0.1, Hang: 0.02, Nan: 0.1, Slow: 0.2, Freeze: 0.02, Corrupt: 0.1, DiskFull: 0.1, Seed: draw.Uint64(),
	}
	s.crash(draw.IntN(3), 20*time.Second, func() []*actor.PID { return []*actor.PID{s.Tree.Host} })
	s.crash(draw.IntN(4), 10*time.Second, s.Invokers)
	s.crash(draw.IntN(3), 10*time.Second, s.Jobs)
}
