package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// Reported: one node that cannot start a worker fails within milliseconds what it is
// given, draws every retry as it is always free, and so ends every job of the
// company. Here the others do the work, and the model is the same, bit for bit.
func TestASickNodeDrawsNoJobDown(t *testing.T) {
	for _, slots := range []int{1, 2, 3} {
		for seed := range testkit.Seeds(t, 5) {
			t.Run(fmt.Sprintf("slots=%d,seed=%d", slots, seed), func(t *testing.T) {
				var models []string
				for _, sick := range []bool{false, true} {
					models = append(models, besideSick(t, seed, slots, sick))
				}
				require.Equal(t, models[0], models[1])
			})
		}
	}
}

// besideSick trains beside a node of so many slots that may be sick, and returns
// the model.
func besideSick(t *testing.T, seed uint64, slots int, sick bool) string {
	s := newSceneOf(t, seed, func(c *sim.Config) { c.Slots, c.Data = 2, data(t, 400, 100) })
	n := s.join(t, "n1", slots)
	if sick {
		n.Runner.Fails = fault.New("worker.start", fault.Unavailable, "the worker ended before it was ready: exit status 1")
	}
	s.Sim.Advance(3 * time.Second)
	task := small(func(o *messages.TrainOptions) {
		o.DefaultParallelism, o.K, o.OptimizerState, o.Retries = 4, 4, "keep", proto.Uint32(1)
	})
	id := s.submitTo(t, "local", task)
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.verify(t, id)
	result := s.watches[id].Result
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), "%v", result.GetFailure())
	require.Zero(t, result.GetLostFunctions())
	require.LessOrEqual(t, result.GetRetries(), uint32(4+3+slots), "those of a round, and until it is left alone")
	warned := 0
	for _, e := range s.watches[id].Events {
		if text := e.GetWarned().GetText(); strings.Contains(text, `node "n1" is left alone`) {
			require.Contains(t, text, "exit status 1")
			warned++
		}
	}
	require.Equal(t, map[bool]int{true: 1}[sick], warned)
	require.Equal(t, !sick, result.GetRetries() == 0)
	s.leaves(t)
	saved, ok := s.Models.Get(id)
	require.True(t, ok)
	return fmt.Sprint(saved.Model)
}
