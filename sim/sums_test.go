package sim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// eight is a company that trains a static job of eight functions, on two nodes or
// one; change may change both.
type eight struct {
	*scene
	job   string
	node  *sim.Node
	sums  int // that the job's node fetched
	plain int // models and states of the other node that it fetched as they are
	// merged is the digests of what each merge has made, model and state.
	merged map[uint64][2]uint64
	plan   func() (lost bool) // unless nil, is called for each plan that is under way
}

func newEight(t *testing.T, nodes int, change func(*messages.TrainOptions)) *eight {
	e := &eight{merged: map[uint64][2]uint64{}, scene: newSceneOf(t, 11, func(c *sim.Config) { c.Slots, c.Data = 8/nodes, data(t, 500, 100) })}
	if nodes == 2 {
		e.node = e.join(t, "n1", 4)
	}
	e.Sim.Advance(3 * time.Second)
	e.listen()
	e.Fetched = func(by, key string) {
		switch {
		case by != "local":
		case strings.Contains(key, "/sum-"):
			e.sums++
		case strings.HasPrefix(key, e.job+"/1/0-0-"):
		default:
			e.plain++
		}
	}
	task := small(func(o *messages.TrainOptions) {
		o.DefaultParallelism, o.StaticParallelism, o.OptimizerState, o.K, o.Retries = 8, true, "reset", 3, proto.Uint32(3)
		change(o)
	})
	e.job = e.submit(t, task)
	return e
}

// listen hears what is said between actors; to be called after a node has joined.
func (e *eight) listen() {
	cut := e.Sim.Cut
	e.Sim.Cut = func(from, to *actor.PID, msg any) bool {
		switch m := msg.(type) {
		case *messages.KeepState:
			e.merged[m.GetState().GetModelVersion()] = [2]uint64{m.GetState().GetModel().GetDigest(), m.GetState().GetSharedOptimizer().GetDigest()}
		case *messages.MergePlan:
			if e.plan != nil && e.plan() {
				return true
			}
		}
		return cut != nil && cut(from, to, msg)
	}
}

// end returns what all merges have made.
func (e *eight) end(t *testing.T) map[uint64][2]uint64 {
	e.Sim.RunUntil(e.allEnded, time.Hour)
	e.verify(t, e.job)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, e.watches[e.job].Result.GetPhase(), "%v", e.watches[e.job].Result.GetFailure())
	e.leaves(t)
	for version, digests := range e.merged {
		require.NotZero(t, digests[0], version)
	}
	return e.merged
}

// What lies on another node is added up there: one sum a round goes to the job, of
// models, and where states are averaged another one. The model is that of one node.
func TestAnswersAreAddedUpWhereTheyLie(t *testing.T) {
	for _, merge := range []string{"average", "average:unweighted", "nesterov", "median"} {
		for _, state := range []string{"reset", "average"} {
			for _, clip := range []float64{0, 0.01} {
				t.Run(fmt.Sprintf("%s, %s, clip %v", merge, state, clip), func(t *testing.T) {
					change := func(o *messages.TrainOptions) { o.Merge, o.OptimizerState, o.Clip = merge, state, clip }
					want := newEight(t, 1, change).end(t)
					e := newEight(t, 2, change)
					require.Equal(t, want, e.end(t))
					rounds := len(merges(e.watches[e.job]))
					require.Positive(t, rounds)
					switch {
					case merge == "median" && state == "reset":
						require.Zero(t, e.sums)
						require.GreaterOrEqual(t, e.plain, 4*(rounds-1))
					case merge == "median":
						require.Zero(t, e.sums, "whether models move decides")
					case state == "reset":
						require.GreaterOrEqual(t, e.sums, rounds-1, "of the last round there may be little")
						require.LessOrEqual(t, e.plain, 4)
					default:
						require.GreaterOrEqual(t, e.sums, 2*(rounds-1)-1, "how large a sum of states is the first merge tells")
					}
				})
			}
		}
	}
}

// Whatever becomes of plans, of who makes sums and of the sums, the model is the
// same one.
func TestSumsThatDoNotCome(t *testing.T) {
	change := func(o *messages.TrainOptions) { o.OptimizerState = "average" }
	want := newEight(t, 1, change).end(t)
	only := []string{"MergePlan", "MergePlanReply"}
	for name, c := range map[string]struct {
		faults testkit.Faults
		// plan is called for each plan that is under way, with how many there were: it
		// says whether that is lost. Fetched is called for each sum that is fetched.
		plan    func(e *eight, n int) (lost bool)
		fetched func(e *eight, key string, n int)
		blame   bool // the node is lost
		sums    bool // are used at all
	}{
		"most of what is said is lost": {faults: testkit.Faults{Drop: 0.6, Only: only}, sums: true},
		"it is repeated, and late":     {faults: testkit.Faults{Duplicate: 1, Delay: 0.5, MaxDelay: 8 * time.Second, Only: only}, sums: true},
		"no plan arrives":              {faults: testkit.Faults{Drop: 1, Only: only[:1]}},
		"no reply arrives":             {faults: testkit.Faults{Drop: 1, Only: only[1:]}},
		"the host crashes over it": {sums: true, plan: func(e *eight, n int) bool {
			if n%3 == 1 {
				e.Sim.Crash(e.node.Tree.Host, errors.New("a bug of ours"))
			}
			return false
		}},
		"the host crashes while it is at work": {sums: true, plan: func(e *eight, n int) bool {
			if n%3 == 1 {
				e.Sim.CrashAfter(e.node.Tree.Host, errors.New("a bug of ours"))
			}
			return false
		}},
		"a sum is gone": {sums: true, fetched: func(e *eight, key string, n int) {
			if n%2 == 0 {
				_ = e.node.Space.Remove(key)
			}
		}},
		"the node is lost before it says anything": {blame: true, sums: true, plan: func(e *eight, n int) bool {
			if n == 3 {
				e.Sim.At(0, func() { e.KillNode(e.node, 2*time.Second) })
			}
			return n >= 3
		}},
		"the node is lost, and nobody knows": {blame: true, sums: true, plan: func(e *eight, n int) bool {
			if n == 3 {
				e.Sim.At(0, func() { e.KillNode(e.node, time.Minute) })
			}
			return n >= 3
		}},
		"the node is lost, and its sums with it": {blame: true, sums: true, fetched: func(e *eight, key string, n int) {
			if n == 3 {
				_ = e.node.Space.Remove(key)
				e.Sim.At(0, func() { e.KillNode(e.node, time.Second) })
			}
		}},
		"the node is started anew over it": {blame: true, sums: true, plan: func(e *eight, n int) bool {
			if n == 3 {
				e.Sim.At(0, func() {
					e.KillNode(e.node, time.Minute)
					e.node = e.join(t, "n1", 4)
					e.listen()
				})
			}
			return n == 3
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEight(t, 2, change)
			e.Sim.Faults = c.faults
			e.Sim.Check(e.check)
			e.checkScratch()
			n, fetched, hears := 0, 0, e.Fetched
			if c.plan != nil {
				e.plan = func() bool { n++; return c.plan(e, n) }
			}
			e.Fetched = func(by, key string) {
				hears(by, key)
				if c.fetched != nil && strings.Contains(key, "/sum-") {
					fetched++
					c.fetched(e, key, fetched)
				}
			}
			require.Equal(t, want, e.end(t))
			result := e.watches[e.job].Result
			require.Equal(t, c.sums, e.sums > 0)
			for _, event := range e.watches[e.job].Events {
				failed := event.GetFunctionFailed()
				require.True(t, failed == nil || c.blame, "no attempt is to blame: %v", failed)
			}
			require.Zero(t, result.GetLostFunctions())
		})
	}
}
