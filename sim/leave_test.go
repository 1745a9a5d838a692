package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// modelOf is the result of a job, to be compared bit by bit.
func (s *scene) modelOf(t *testing.T, id string) []byte {
	saved, ok := s.Models.Get(id)
	require.True(t, ok)
	return fmt.Append(nil, saved.Model)
}

// longer has functions take that long, and those beside the job three times that
// where slow says so.
func longer(t *testing.T, takes time.Duration, slow bool) func(*sim.Config) {
	return func(c *sim.Config) {
		c.Slots, c.Data = 2, data(t, 600, 0)
		c.Functions.Base, c.Functions.PerSample, c.Functions.Jitter = takes, 0, 0
		c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
			if slow && inv.Index < 2 {
				b.Took = 3 * takes
			}
			return b
		}
	}
}

// A node that leaves takes nothing with it: the optimizer states and the answers
// that lie there are taken over before it goes, what runs there ends there or is
// run elsewhere, and a static job gives the bits of one whose nodes all stay.
func TestANodeThatLeavesHandsOverWhatItHas(t *testing.T) {
	for name, c := range map[string]struct {
		takes   time.Duration // each function
		at      time.Duration // into a round
		answers bool          // those of the node have been given by then
		goes    time.Duration // at the latest
	}{
		"between two answers":                      {takes: 3 * time.Second, at: 500 * time.Millisecond, goes: 3 * time.Second},
		"with answers that wait for others":        {takes: 3 * time.Second, at: 4 * time.Second, answers: true, goes: time.Second},
		"with functions that outlast its patience": {takes: 15 * time.Second, at: time.Second, goes: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(leaves bool) (*scene, string) {
				s := newSceneOf(t, 3, longer(t, c.takes, c.answers))
				n := s.join(t, "n1", 2)
				s.Sim.Advance(3 * time.Second)
				id := s.submit(t, rounds(4))
				watch := s.watches[id]
				s.Sim.RunUntil(func() bool { return len(merges(watch)) == 2 }, 10*time.Minute)
				s.Sim.Advance(c.at)
				if leaves {
					require.Equal(t, c.answers, n.Runner.Running == 0)
					s.LeaveNode(n)
					s.Sim.Advance(c.goes + 500*time.Millisecond)
					require.Empty(t, s.Nodes(), "it has gone")
				}
				s.Sim.RunUntil(s.allEnded, time.Hour)
				s.verify(t, id)
				return s, id
			}
			stays, id := run(false)
			want := stays.modelOf(t, id)
			s, id := run(true)
			result := s.watches[id].Result
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), "%v", result.GetFailure())
			for _, e := range result.GetEpochs() {
				require.Empty(t, e.GetFreshOptimizers(), "epoch %d: no function starts anew", e.GetEpoch())
			}
			if c.goes < 10*time.Second {
				require.Zero(t, result.GetRetries(), "what ran there has ended there")
			}
			require.Equal(t, want, s.modelOf(t, id))
			s.leaves(t)
		})
	}
}

// However many nodes leave, and whatever becomes of messages: no state is lost, and
// the bits are those of a job whose nodes stay.
func TestNodesThatLeaveCostNothing(t *testing.T) {
	for seed := range testkit.Seeds(t, 60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			run := func(leaves bool) []byte {
				s := newSceneOf(t, seed, func(*sim.Config) {})
				s.Sim.Check(s.check)
				s.checkScratch()
				draw := s.Sim.Rand()
				nodes := 1 + draw.IntN(3)
				for i := range nodes {
					s.join(t, fmt.Sprintf("n%d", i), 1+draw.IntN(3))
				}
				s.Sim.Advance(3 * time.Second)
				task := small(func(o *messages.TrainOptions) {
					o.DefaultParallelism, o.OptimizerState, o.Seed = uint32(1+draw.IntN(8)), "keep", seed
				})
				task.Epochs = 8
				if leaves {
					s.Sim.Faults = testkit.Faults{Drop: 0.02, Duplicate: 0.05, Delay: 0.1, MaxDelay: time.Second, Except: []string{"ReleaseTensors"}}
				}
				id := s.submit(t, task)
				for range draw.IntN(6) {
					at, name, slots := time.Duration(draw.Int64N(int64(3*time.Second))), fmt.Sprintf("n%d", draw.IntN(nodes)), 1+draw.IntN(3)
					if leaves {
						s.Sim.At(at, func() { s.leaveOrJoin(name, slots) })
					}
				}
				s.Sim.RunUntil(s.allEnded, time.Hour)
				s.verify(t, id)
				result := s.watches[id].Result
				require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), "%v", result.GetFailure())
				for _, e := range result.GetEpochs() {
					require.Empty(t, e.GetFreshOptimizers(), "epoch %d", e.GetEpoch())
				}
				s.leaves(t)
				return s.modelOf(t, id)
			}
			require.Equal(t, run(false), run(true))
		})
	}
}

// leaveOrJoin has a node leave that is there, or join.
func (s *scene) leaveOrJoin(name string, slots int) {
	for _, n := range s.Nodes() {
		if n.Name == name {
			s.LeaveNode(n)
			return
		}
	}
	if _, err := s.Join(name, slots, nil, 100*time.Millisecond); err != nil {
		s.Sim.Fail("%v", err)
	}
}
