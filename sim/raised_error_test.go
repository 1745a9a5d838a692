package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// Reported: user code raises in one function, its peers hang in the barrier,
// and the traceback is nowhere to be seen. Here function 1 raises in the second
// round: the traceback is in an event within 2 s of the raise, the job has
// FAILED with it within 2 s of the second one, and nothing runs on.
func TestAnErrorInOneFunctionIsSeenAtOnceAndHangsNobody(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			var s *scene
			var raised []time.Time // by virtual time: when each attempt ends
			s = newSceneOf(t, seed, func(c *sim.Config) {
				c.Slots = 4
				c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
					if inv.Task == functions.Train && inv.Index == 1 && inv.Round == 1 {
						b.Raise = true
						if inv.Attempt == len(raised) {
							raised = append(raised, s.Sim.Now().Add(b.Took))
						}
					}
					return b
				}
				c.Data = data(t, 100, 0)
			})
			id := s.submit(t, small(func(o *messages.TrainOptions) { o.K, o.DefaultParallelism = 1, 4 }))
			w := s.watches[id]
			failures := func() (seen []*messages.FunctionFailed) {
				for _, e := range w.Events {
					if f := e.GetFunctionFailed(); f != nil {
						seen = append(seen, f)
					}
				}
				return seen
			}
			s.Sim.RunUntil(func() bool { return len(failures()) == 1 }, time.Minute)
			require.LessOrEqual(t, s.Sim.Now().Sub(raised[0]), 2*time.Second)
			require.Equal(t, "fake.go: raise", failures()[0].GetFailure().GetTrace())
			require.EqualValues(t, 1, failures()[0].GetAttempt().GetFunction())
			s.Sim.RunUntil(w.Ended, time.Minute)
			require.Len(t, raised, 2)
			require.LessOrEqual(t, s.Sim.Now().Sub(raised[1]), 2*time.Second)
			require.Equal(t, messages.Phase_PHASE_FAILED, w.Result.GetPhase())
			require.Equal(t, messages.FailureKind_FAILURE_KIND_USER_CODE, w.Result.GetFailure().GetKind())
			require.Equal(t, "fake.go: raise", w.Result.GetFailure().GetTrace())
			require.Contains(t, w.Result.GetFailure().GetText(), "epoch 1, round 2, function 1")
			s.leaves(t)
		})
	}
}

// The same with messages that get lost: it may take longer, but it ends.
func TestAnErrorEndsTheJobThoughMessagesAreLost(t *testing.T) {
	for seed := range testkit.Seeds(t, 20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newSceneOf(t, seed, func(c *sim.Config) {
				c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
					b.Raise = b.Raise || inv.Epoch == 2
					return b
				}
			})
			s.Sim.Faults = testkit.Faults{Drop: 0.2, Duplicate: 0.1, Delay: 0.2, MaxDelay: 2 * time.Second}
			id := s.submit(t, small(func(*messages.TrainOptions) {}))
			s.Sim.RunUntil(s.allEnded, time.Hour)
			require.Equal(t, messages.FailureKind_FAILURE_KIND_USER_CODE, s.watches[id].Result.GetFailure().GetKind())
			require.Len(t, s.watches[id].Result.GetEpochs(), 1)
			s.leaves(t)
		})
	}
}

// data returns a data set of so many samples.
func data(t *testing.T, train, test int) sim.Data {
	d, err := sim.NewData(t.TempDir(), train, test)
	require.NoError(t, err)
	return d
}

// small is a task of three epochs.
func small(change func(*messages.TrainOptions)) *messages.TrainTask {
	o := &messages.TrainOptions{DefaultParallelism: 4, MaxParallelism: 8, StaticParallelism: true, K: 2, Retries: proto.Uint32(3), ValidateEvery: 1}
	change(o)
	return &messages.TrainTask{FunctionName: fake.Ledger, Dataset: "zeros", Epochs: 3, BatchSize: 4, Lr: 0.1, Options: o}
}
