package sim_test

import (
	"fmt"
	"slices"
	"strings"
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

// join starts a node of so many slots, and waits until its slots count.
func (s *scene) join(t *testing.T, name string, slots int) *sim.Node {
	n, err := s.Join(name, slots, nil, 200*time.Millisecond)
	require.NoError(t, err)
	return n
}

// troubles has nodes join, leave, die and be cut off, as drawn.
func (s *scene) troubles(n int, within time.Duration) {
	draw := s.Sim.Rand()
	for range n {
		s.Sim.At(time.Duration(draw.Int64N(int64(within))), func() {
			nodes := s.Nodes()
			if len(nodes) == 0 || draw.IntN(4) == 0 {
				name := fmt.Sprintf("n%d", draw.IntN(5))
				for _, there := range nodes {
					if there.Name == name {
						return
					}
				}
				_, err := s.Join(name, 1+draw.IntN(3), nil, time.Duration(draw.Int64N(int64(2*time.Second))))
				if err != nil {
					s.Sim.Fail("%v", err)
				}
				return
			}
			victim := nodes[draw.IntN(len(nodes))]
			found := time.Duration(draw.Int64N(int64(4 * time.Second)))
			switch draw.IntN(4) {
			case 0:
				s.LeaveNode(victim)
			case 1:
				s.CutNode(victim, time.Duration(draw.Int64N(int64(30*time.Second))), found)
			case 2: // it is back before anybody has noticed
				s.KillNode(victim, time.Minute)
				if _, err := s.Join(victim.Name, victim.Slots, nil, 0); err != nil {
					s.Sim.Fail("%v", err)
				}
			default:
				s.KillNode(victim, found)
			}
		})
	}
}

// Whatever becomes of the nodes: every epoch trains each sample once, every job
// ends, functions never exceed slots, and nothing is left (invariants 1 to 4 and 7;
// reported cases 2, 7, 13, 18).
func TestNodesComeAndGo(t *testing.T) {
	ends, moved := map[messages.Phase]int{}, 0
	for seed := range testkit.Seeds(t, 200) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := comeAndGo(t, seed)
			for id, w := range s.watches {
				s.verify(t, id)
				ends[w.Result.GetPhase()]++
				moved += len(s.incarnations(id)) - 1
			}
			s.leaves(t)
		})
	}
	t.Logf("%v, jobs went on elsewhere %d times", ends, moved)
}

// comeAndGo has jobs run to their ends while nodes come and go.
func comeAndGo(t *testing.T, seed uint64) *scene {
	s := newScene(t, seed)
	s.Sim.Check(s.check)
	draw := s.Sim.Rand()
	for i := range 1 + draw.IntN(3) {
		s.join(t, fmt.Sprintf("n%d", i), 1+draw.IntN(3))
	}
	s.Sim.Faults = testkit.Faults{Drop: 0.02, Duplicate: 0.05, Delay: 0.1, MaxDelay: 2 * time.Second, Except: []string{"ReleaseTensors"}}
	for range 1 + draw.IntN(3) {
		s.submit(t, s.drawTask())
	}
	s.checkScratch()
	s.troubles(draw.IntN(8), 20*time.Second)
	s.crash(draw.IntN(3), 10*time.Second, s.Invokers)
	if draw.IntN(3) == 0 {
		s.Sim.At(time.Duration(draw.Int64N(int64(20*time.Second))), func() { s.RestartLeader(time.Duration(draw.Int64N(int64(15 * time.Second)))) })
	}
	s.Sim.RunUntil(s.allEnded, 24*time.Hour)
	return s
}

// Nodes that come and go, too, and a leader that is started again, are replayed from
// their seed: 1007 has had another run each time.
func TestNodesComeAndGoAlikeEachTime(t *testing.T) {
	for _, seed := range []uint64{356, 1007} {
		require.Equal(t, comeAndGo(t, seed).Sim.Hash(), comeAndGo(t, seed).Sim.Hash(), "seed %d", seed)
	}
}

// Where the functions of a static job run changes nothing about its model.
func TestAStaticJobGivesTheSameModelOnAnyNodes(t *testing.T) {
	for _, compress := range []string{"none", "int8"} {
		t.Run(compress, func(t *testing.T) { sameOnAnyNodes(t, compress) })
	}
}

func sameOnAnyNodes(t *testing.T, compress string) {
	var first []byte
	for nodes := range 3 {
		t.Run(fmt.Sprintf("%d nodes", nodes+1), func(t *testing.T) {
			s := newSceneOf(t, 7, func(c *sim.Config) { c.Slots, c.Data = 6/(nodes+1), data(t, 500, 100) })
			for i := range nodes {
				s.join(t, fmt.Sprintf("n%d", i), 6/(nodes+1))
			}
			s.Sim.Advance(3 * time.Second)
			task := small(func(o *messages.TrainOptions) {
				o.DefaultParallelism, o.StaticParallelism, o.OptimizerState, o.K, o.Compress = 6, true, "keep", 3, compress
			})
			id := s.submit(t, task)
			s.Sim.RunUntil(s.allEnded, time.Hour)
			s.verify(t, id)
			for _, n := range s.Nodes() {
				require.Positive(t, n.Runner.Started, "%s has had none of it", n.Name)
			}
			saved, ok := s.Models.Get(id)
			require.True(t, ok)
			bytes := fmt.Append(nil, saved.Model)
			if first == nil {
				first = bytes
			}
			require.Equal(t, first, bytes)
		})
	}
}

// steady is a company without faults of its own, whose functions take a second and
// more.
func steady(t *testing.T, slots int) *scene {
	return newSceneOf(t, 3, func(c *sim.Config) {
		c.Slots, c.Data = slots, data(t, 600, 0)
		c.Functions.Base, c.Functions.PerSample, c.Functions.Jitter = time.Second, 0, 0
	})
}

// rounds is a static task of N functions, a round an epoch.
func rounds(n uint32) *messages.TrainTask {
	task := small(func(o *messages.TrainOptions) {
		o.DefaultParallelism, o.StaticParallelism, o.K, o.OptimizerState, o.Retries = n, true, -1, "keep", proto.Uint32(0)
	})
	task.Epochs = 6
	return task
}

// Reported: the system knows that a node is dead, and a barrier waits for its full
// time-out. Here the assignments of the node run elsewhere within 100 ms of its
// being found dead: those that ran, and those that had been answered for, whose
// models went with it. Nothing else restarts.
func TestWhatANodeHadRunsElsewhereAtOnce(t *testing.T) {
	s := steady(t, 4)
	n := s.join(t, "n1", 2)
	s.Sim.Advance(3 * time.Second)
	id := s.submitTo(t, "local", rounds(6))
	watch := s.watches[id]
	s.Sim.RunUntil(func() bool { return len(merges(watch)) == 2 }, time.Minute)
	s.Sim.Advance(500 * time.Millisecond)
	require.Equal(t, 2, n.Runner.Running)
	started := s.Runner.Started
	const found = 1300 * time.Millisecond // the other four have answered by then
	s.KillNode(n, found)
	s.Sim.Advance(found + 100*time.Millisecond)
	require.Equal(t, started+2, s.Runner.Started, "the two of the node, and no other")
	require.Equal(t, 2, s.Runner.Running)
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.verify(t, id)
	result := watch.Result
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), "though it has no retries: %v", result.GetFailure())
	require.Len(t, result.GetEpochs()[2].GetFreshOptimizers(), 2, "whose states went with the node, and the history names them")
}

// Reported: a machine is taken away 5 s after a notice. On SIGTERM its node leaves:
// what it runs is run elsewhere before the 5 s are over, in the same round, and no
// sample is lost (reported case 37).
func TestANodeThatIsGivenNoticeLosesNothing(t *testing.T) {
	s := steady(t, 4)
	n := s.join(t, "n1", 2)
	s.Sim.Advance(3 * time.Second)
	id := s.submitTo(t, "local", rounds(6))
	watch := s.watches[id]
	s.Sim.RunUntil(func() bool { return len(merges(watch)) == 2 }, time.Minute)
	s.Sim.Advance(500 * time.Millisecond)
	require.Equal(t, 2, n.Runner.Running)
	s.LeaveNode(n)
	s.Sim.Advance(5 * time.Second)
	require.Greater(t, len(merges(watch)), 2, "the round has gone on")
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.verify(t, id)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, watch.Result.GetPhase(), "though it has no retries: %v", watch.Result.GetFailure())
	require.Zero(t, watch.Result.GetLostFunctions(), "what it ran is run elsewhere in the same round")
}

// The answers of a node that dies before they are merged are made again elsewhere,
// whether that is known when they are to be merged or not.
func TestAnswersThatWentWithTheirNodeAreMadeAgain(t *testing.T) {
	for _, found := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		t.Run(found.String(), func(t *testing.T) {
			s := newSceneOf(t, 3, func(c *sim.Config) {
				c.Slots, c.Data = 2, data(t, 600, 0)
				c.Functions.Base, c.Functions.PerSample, c.Functions.Jitter = time.Second, 0, 0
				c.Functions.Script = func(inv functions.Invocation, b fake.Behaviour) fake.Behaviour {
					if inv.Index == 5 { // which runs beside the job
						b.Took = 3 * time.Second
					}
					return b
				}
			})
			n := s.join(t, "n1", 4)
			s.Sim.Advance(3 * time.Second)
			id := s.submitTo(t, "local", rounds(6))
			watch := s.watches[id]
			s.Sim.RunUntil(func() bool { return len(merges(watch)) == 2 }, time.Minute)
			s.Sim.Advance(1500 * time.Millisecond)
			require.Zero(t, n.Runner.Running, "those of the node have answered")
			require.Positive(t, n.Runner.Started)
			s.KillNode(n, found)
			s.Sim.RunUntil(s.allEnded, time.Hour)
			s.verify(t, id)
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, watch.Result.GetPhase(), "%v", watch.Result.GetFailure())
		})
	}
}

// The first model is the job's, wherever it was made.
func TestTheFirstModelOutlivesTheNodeThatMadeIt(t *testing.T) {
	s := steady(t, 1)
	n := s.join(t, "n1", 3)
	s.Sim.Advance(3 * time.Second)
	id := s.submitTo(t, "local", rounds(4))
	watch := s.watches[id]
	s.Sim.RunUntil(func() bool { return n.Runner.Running == 3 }, time.Minute)
	require.Equal(t, 4, n.Runner.Started, "it has made the first model")
	s.KillNode(n, time.Second)
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.verify(t, id)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, watch.Result.GetPhase(), "%v", watch.Result.GetFailure())
}

// A node that joins in mid-epoch is used from the next round on, and what runs is
// left alone; one that joins and never says anything makes no difference (reported
// cases 2, 8 and 13).
func TestANodeThatJoinsIsUsedFromTheNextRoundOn(t *testing.T) {
	s := steady(t, 2)
	id := s.submit(t, func() *messages.TrainTask {
		task := rounds(2)
		task.Options.StaticParallelism, task.Options.MaxParallelism, task.Options.K = false, 4, 10
		return task
	}())
	watch := s.watches[id]
	s.Sim.RunUntil(func() bool { return len(merges(watch)) == 1 }, time.Minute)
	s.Sim.Advance(100 * time.Millisecond)
	mute := s.join(t, "mute", 4)
	s.Sim.Freeze(time.Hour, func(id string) bool { return id == mute.Tree.Host.GetId() })
	s.join(t, "n1", 2)
	s.Sim.RunUntil(s.allEnded, time.Hour)
	s.verify(t, id)
	var n []uint32
	for _, m := range merges(watch) {
		n = append(n, m.GetParallelism())
	}
	require.EqualValues(t, 2, n[1], "the round that ran keeps its N")
	require.Greater(t, slices.Max(n), uint32(2), "%v", n)
	require.LessOrEqual(t, slices.Max(n), uint32(4))
	require.Zero(t, watch.Result.GetRetries(), "nothing runs twice")
	require.Zero(t, mute.Runner.Started)
}

// A node that is started again under its name is used within 5 s, whether it was
// missed or not (reported case 18).
func TestANodeThatIsStartedAgainIsUsedAgain(t *testing.T) {
	for _, found := range []time.Duration{time.Second, time.Hour} {
		s := steady(t, 1)
		n := s.join(t, "n1", 2)
		s.Sim.Advance(3 * time.Second)
		id := s.submitTo(t, "local", rounds(3))
		s.Sim.RunUntil(func() bool { return len(merges(s.watches[id])) == 2 }, time.Minute)
		s.KillNode(n, found)
		s.Sim.Advance(2 * time.Second)
		again := s.join(t, "n1", 2)
		s.Sim.Advance(5 * time.Second)
		require.Positive(t, again.Runner.Started)
		s.Sim.RunUntil(s.allEnded, time.Hour)
		s.verify(t, id)
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, s.watches[id].Result.GetPhase())
	}
}

// Functions run where their optimizer states lie, as long as there is room.
func TestFunctionsStayWithTheirStates(t *testing.T) {
	s := steady(t, 2)
	for i := range 2 {
		s.join(t, fmt.Sprintf("n%d", i), 2)
	}
	s.Sim.Advance(3 * time.Second)
	s.Fetched = func(by, key string) {
		require.False(t, by != "local" && strings.Contains(key, "optimizer"), "%s fetched %s", by, key) // the job stores them
	}
	id := s.submitTo(t, "local", rounds(6))
	s.Sim.RunUntil(s.allEnded, time.Minute)
	for _, n := range s.Nodes() {
		require.Equal(t, 12, n.Runner.Started, "two functions in each of six epochs")
	}
	s.verify(t, id)
}

func merges(w *sim.Watch) (out []*messages.RoundMerged) {
	for _, e := range w.Events {
		if m := e.GetRoundMerged(); m != nil {
			out = append(out, m)
		}
	}
	return out
}
