package sim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// Reported: a worker that always fails is restarted for ever. Here each
// assignment has its retries, and a round without an answer ends the job with
// the reason, within seconds.
func TestAWorkerThatAlwaysFailsIsGivenUp(t *testing.T) {
	attempts := map[int]int{} // by function
	s := newSceneOf(t, 1, func(c *sim.Config) {
		c.Slots, c.Data = 4, data(t, 64, 0)
		c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
			if b.Crash = inv.Task == functions.Train; b.Crash {
				attempts[inv.Index] = max(attempts[inv.Index], inv.Attempt+1)
			}
			return b
		}
	})
	id := s.submit(t, small(func(o *messages.TrainOptions) { o.Retries = proto.Uint32(3) }))
	s.Sim.RunUntil(s.allEnded, 10*time.Second)
	require.Equal(t, map[int]int{0: 4, 1: 4, 2: 4, 3: 4}, attempts)
	result := s.watches[id].Result
	require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
	require.Contains(t, result.GetFailure().GetText(), "0 of 4 functions answered, at least 1 must")
	require.Contains(t, result.GetFailure().GetText(), "its worker crashed")
	require.EqualValues(t, 12, result.GetRetries())
	require.EqualValues(t, 4, result.GetLostFunctions())
	s.leaves(t)
}

// One of many that always fails is made up for by the others, until it has
// failed more often than they have succeeded: a job has a budget, too.
func TestAJobThatMostlyFailsIsGivenUp(t *testing.T) {
	s := newSceneOf(t, 1, func(c *sim.Config) {
		c.Slots, c.Data = 2, data(t, 200, 0)
		c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
			b.Crash = inv.Task == functions.Train && inv.Index == 1
			return b
		}
	})
	task := small(func(o *messages.TrainOptions) { o.DefaultParallelism, o.Retries = 2, proto.Uint32(3) })
	task.Epochs = 1000
	id := s.submit(t, task)
	s.Sim.RunUntil(s.allEnded, time.Hour)
	result := s.watches[id].Result
	require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
	require.Contains(t, result.GetFailure().GetText(), "functions fail more often than they succeed; the last: function \"ledger\": its worker crashed")
	require.Less(t, len(result.GetEpochs()), 10)
	for _, e := range result.GetEpochs() {
		require.EqualValues(t, 200, e.GetSamples(), "epoch %d", e.GetEpoch())
	}
	s.leaves(t)
}
