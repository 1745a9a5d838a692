//go:build !invariants

package sim_test

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
	"github.com/troupe-ml/troupe/tensor"
)

// tiny is a function with a small model and a small optimizer state.
const tiny = "tiny"

type stateful struct{ *fake.Runtime }

func (stateful) Has(function string) bool { return function == tiny }

func (s stateful) Run(ctx context.Context, inv functions.Invocation) (functions.Answer, error) {
	inv.Function = fake.NoOp
	answer, err := s.Runtime.Run(ctx, inv)
	if err == nil && inv.OptimizerOut != nil {
		answer.HasOptimizer = true
		err = functions.WriteDict(inv.OptimizerOut, tensor.StateDict{tensor.NewInt64("n", []int64{1}, []int64{1})})
	}
	return answer, err
}

// The job with the most functions that there may be, on the slots of another
// node, each of which keeps an optimizer state: no message between the nodes is
// above 1 MiB, all that is said arrives, and in the end nothing is left. It runs
// without the checks of invariants, which look at 65,536 functions after each message.
func TestTheLargestJobRunsOnAnotherNode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const most = 65536
	s := testkit.New(t, 1)
	pieces := map[string]int{}
	company, err := sim.New(s, sim.Config{
		Slots: 1, Data: data(t, most, 0), Log: zap.NewNop(), MaxMessage: actorkit.MaxMessage,
		Functions: fake.Config{Base: 10 * time.Millisecond}, Runtimes: []functions.Runtime{stateful{fake.New(fake.Config{})}},
	})
	require.NoError(t, err)
	n, err := company.Join("n1", 300, nil, 0)
	require.NoError(t, err)
	s.Cut = func(_, _ *actor.PID, msg any) bool {
		if p, ok := msg.(*messages.Piece); ok {
			require.LessOrEqual(t, proto.Size(p), actorkit.MaxMessage)
			pieces[p.GetType()]++
		}
		return false
	}
	s.Advance(2 * time.Second)
	id, err := company.Submit(&messages.TrainTask{
		FunctionName: tiny, Dataset: "zeros", Epochs: 1, BatchSize: 1, Lr: 0.1,
		Options: &messages.TrainOptions{
			DefaultParallelism: most, MaxParallelism: most, StaticParallelism: true, K: 1, ValidateEvery: -1,
		},
	})
	require.NoError(t, err)
	watch := company.Watch(id)
	s.RunUntil(watch.Ended, time.Hour)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, watch.Result.GetPhase(), "%v", watch.Result.GetFailure())
	require.Greater(t, n.Runner.Started, most*9/10)
	for _, e := range watch.Result.GetEpochs() {
		require.EqualValues(t, most, e.GetSamples())
	}
	t.Logf("pieces: %v", pieces)
	for _, kind := range []string{"ReleaseTensors", "KeepState"} {
		require.Greater(t, pieces["troupe.messages."+kind], 1, kind)
	}
	s.Advance(time.Minute)
	require.Empty(t, n.Space.List(id+"/"))
	require.Empty(t, company.Space.List(id+"/"))
}
