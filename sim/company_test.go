package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
)

// Messages get lost, repeated and late, functions crash, hang and answer
// garbage, jobs, invokers and hosts die, people stop jobs, the policy answers
// nonsense: still every epoch trains each sample once, every job ends, and
// scratch holds no more than it may (invariants 1, 2, 3, 4 and 7).
func TestInvariantsHold(t *testing.T) {
	ends := map[messages.Phase]int{}
	for seed := range testkit.Seeds(t, 200) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newScene(t, seed)
			s.Sim.Check(s.check)
			s.Sim.Faults = testkit.Faults{Drop: 0.03, Duplicate: 0.05, Delay: 0.1, MaxDelay: 3 * time.Second}
			draw := s.Sim.Rand()
			if seed%2 == 0 { // nothing keeps ReleaseTensors from its host
				s.Sim.Faults.Except = []string{"ReleaseTensors"}
				s.checkScratch()
			} else {
				s.crash(draw.IntN(4), 20*time.Second, func() []*actor.PID { return []*actor.PID{s.Tree.Host} })
			}
			for range 1 + draw.IntN(3) {
				id := s.submit(t, s.drawTask())
				if draw.IntN(5) == 0 {
					s.stop(id, time.Duration(draw.IntN(10_000))*time.Millisecond)
				}
			}
			s.crash(draw.IntN(6), 10*time.Second, s.Invokers)
			s.crash(draw.IntN(3), 10*time.Second, s.Jobs)
			s.Sim.RunUntil(s.allEnded, 24*time.Hour)
			for id, w := range s.watches {
				s.verify(t, id)
				ends[w.Result.GetPhase()]++
			}
			s.leaves(t)
		})
	}
	t.Log(ends)
}

// One seed, one run: to the last delivery.
func TestASimulationReplaysFromItsSeed(t *testing.T) {
	run := func(seed uint64) (hash uint64) {
		t.Run("run", func(t *testing.T) {
			s := newScene(t, seed)
			s.Sim.Faults = testkit.Faults{Drop: 0.05, Duplicate: 0.05, Delay: 0.1, MaxDelay: time.Second}
			s.submit(t, s.drawTask())
			s.Sim.RunUntil(s.allEnded, 24*time.Hour)
			hash = s.Sim.Hash()
		})
		return hash
	}
	require.Equal(t, run(11), run(11))
	require.NotEqual(t, run(11), run(12))
}
