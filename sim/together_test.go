package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// Reported: 30 workers die together and are replaced one after the other. Here
// all are tried again at the moment of their death, and the round costs one run
// more.
func TestThirtyThatDieTogetherRunAgainTogether(t *testing.T) {
	const n, run = 30, 2 * time.Second
	s := newSceneOf(t, 1, func(c *sim.Config) {
		c.Slots, c.Data = n, data(t, n, 0)
		c.Functions = fake.Config{Base: run, Script: func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
			b.Crash = inv.Task == functions.Train && inv.Epoch == 2 && inv.Attempt == 0
			return b
		}}
	})
	id := s.submit(t, small(func(o *messages.TrainOptions) { o.DefaultParallelism, o.MaxParallelism, o.K = n, n, -1 }))
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.verify(t, id)
	epochs := s.watches[id].Result.GetEpochs()
	require.EqualValues(t, n, epochs[1].GetRetries())
	require.InDelta(t, epochs[0].GetDurationS()+run.Seconds(), epochs[1].GetDurationS(), 0.01)
	s.leaves(t)
}
