package sim_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/scheduler"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions/fake"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
)

// wild is a policy that answers anything.
type wild struct{ draw *rand.Rand }

func (wild) Name() string { return "wild" }

func (w wild) Parallelism([]scheduler.Measurement) float64 {
	answers := []float64{0, -1, 1e9, math.NaN(), math.Inf(1), math.Inf(-1), 0.4}
	if i := w.draw.IntN(3 * len(answers)); i < len(answers) {
		return answers[i]
	}
	return float64(1 + w.draw.IntN(9))
}

// scene is a company and its jobs, all drawn from a seed.
type scene struct {
	*sim.Company
	config  sim.Config
	tasks   map[string]*messages.TrainTask
	watches map[string]*sim.Watch
}

func newScene(t *testing.T, seed uint64) *scene {
	s := testkit.New(t, seed)
	draw := s.Rand()
	data, err := sim.NewData(t.TempDir(), 1+draw.IntN(300), draw.IntN(1200))
	require.NoError(t, err)
	config := sim.Config{
		Slots: 1 + draw.IntN(6), Data: data, Log: zap.NewNop(),
		Policy: wild{draw},
		Functions: fake.Config{
			Seed: seed, Base: 20 * time.Millisecond, PerSample: time.Millisecond, Jitter: 2,
			Crash: 0.05, Hang: 0.01, NaN: 0.02, WrongShape: 0.01, WrongDType: 0.01, WrongName: 0.01, FewSamples: 0.01,
		},
	}
	company, err := sim.New(s, config)
	require.NoError(t, err)
	return &scene{Company: company, config: config, tasks: map[string]*messages.TrainTask{}, watches: map[string]*sim.Watch{}}
}

func (s *scene) drawTask() *messages.TrainTask {
	draw := s.Sim.Rand()
	k := int32(1 + draw.IntN(4))
	if draw.IntN(4) == 0 {
		k = -1
	}
	return &messages.TrainTask{
		FunctionName: fake.Ledger, Dataset: "zeros", Epochs: uint32(1 + draw.IntN(3)),
		BatchSize: uint32(1 + draw.IntN(24)), Lr: 0.1,
		Options: &messages.TrainOptions{
			DefaultParallelism: uint32(1 + draw.IntN(8)), MaxParallelism: 8,
			StaticParallelism: draw.IntN(3) == 0, K: k, Seed: draw.Uint64(),
			Retries:           proto.Uint32(uint32(draw.IntN(6))),
			OptimizerState:    []string{"keep", "reset", "average"}[draw.IntN(3)],
			Merge:             []string{"average", "average:unweighted"}[draw.IntN(2)],
			ValidateEvery:     []float64{1, 2, 0.25, -1}[draw.IntN(4)],
			FunctionTimeoutMs: 20_000,
		},
	}
}

func (s *scene) submit(t *testing.T, task *messages.TrainTask) string {
	id, err := s.Submit(task)
	require.NoError(t, err)
	s.tasks[id], s.watches[id] = task, s.Watch(id)
	return id
}

// check holds after every message: what the whole company promises.
func (s *scene) check() error {
	if s.Runner.Running > s.config.Slots {
		return fmt.Errorf("%d functions run on %d slots", s.Runner.Running, s.config.Slots)
	}
	return nil
}

func (s *scene) allEnded() bool {
	for _, w := range s.watches {
		if !w.Ended() {
			return false
		}
	}
	return true
}

// verify checks a job that has ended against the invariants of the design.
func (s *scene) verify(t *testing.T, id string) {
	task, watch := s.tasks[id], s.watches[id]
	result := watch.Result
	var starts int
	for _, e := range watch.Events {
		if e.GetStarted() != nil {
			starts++
		}
		if m := e.GetRoundMerged(); m != nil {
			require.GreaterOrEqual(t, m.GetParallelism(), uint32(1))
			require.LessOrEqual(t, m.GetParallelism(), task.GetOptions().GetMaxParallelism())
			if task.GetOptions().GetStaticParallelism() {
				require.Equal(t, task.GetOptions().GetDefaultParallelism(), m.GetParallelism(), "a static job keeps its N")
			}
		}
	}
	require.Equal(t, 1, starts, "the job started once")
	for i, e := range result.GetEpochs() {
		require.EqualValues(t, i+1, e.GetEpoch(), "epochs are 1..E without a gap")
		require.EqualValues(t, s.config.Data.Train, e.GetSamples(), "every sample of epoch %d once", i+1)
	}
	if result.GetPhase() != messages.Phase_PHASE_SUCCEEDED {
		require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
		require.NotEmpty(t, result.GetFailure().GetText(), "a reason a person can act on")
		return
	}
	require.Len(t, result.GetEpochs(), int(task.GetEpochs()))
	saved, ok := s.Models.Get(id)
	require.True(t, ok)
	counts, err := fake.Counts(saved.Model)
	require.NoError(t, err)
	require.Len(t, counts, s.config.Data.Train)
	for p, n := range counts {
		require.EqualValues(t, task.GetEpochs(), n, "sample %d was trained %d times in %d epochs", p, n, task.GetEpochs())
	}
	weight, ok := saved.Model.Get("weight")
	require.True(t, ok)
	for _, w := range weight.Float64() {
		require.False(t, math.IsNaN(w) || math.IsInf(w, 0), "the model is finite")
	}
}

// leaves checks that nothing is left once all jobs have ended.
func (s *scene) leaves(t *testing.T) {
	s.Sim.Faults = testkit.Faults{}
	s.Sim.Advance(time.Minute)
	require.Zero(t, s.Runner.Running, "no function runs")
	require.Empty(t, s.Space.List(""), "no tensor is left")
}

// Messages get lost, repeated and late, functions crash, hang and answer
// garbage, invokers and hosts die, the policy answers nonsense: still every
// epoch trains each sample once, and every job ends.
func TestInvariantsHold(t *testing.T) {
	var succeeded, failed int
	for seed := range testkit.Seeds(t, 200) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			s := newScene(t, seed)
			s.Sim.Check(s.check)
			s.Sim.Faults = testkit.Faults{Drop: 0.03, Duplicate: 0.05, Delay: 0.1, MaxDelay: 3 * time.Second}
			draw := s.Sim.Rand()
			for range 1 + draw.IntN(3) {
				s.submit(t, s.drawTask())
			}
			for range draw.IntN(4) {
				s.Sim.At(time.Duration(draw.IntN(20_000))*time.Millisecond, func() {
					s.Sim.Crash(s.Tree.Host, errors.New("the host dies"))
				})
			}
			s.crashInvokers(draw.IntN(6))
			s.Sim.RunUntil(s.allEnded, 24*time.Hour)
			for id, w := range s.watches {
				s.verify(t, id)
				if w.Result.GetPhase() == messages.Phase_PHASE_SUCCEEDED {
					succeeded++
				} else {
					failed++
				}
			}
			s.leaves(t)
		})
	}
	t.Logf("%d jobs succeeded, %d failed", succeeded, failed)
}

// crashInvokers makes n invokers die, as a bug of ours would make them.
func (s *scene) crashInvokers(n int) {
	draw := s.Sim.Rand()
	for range n {
		s.Sim.At(time.Duration(draw.IntN(10_000))*time.Millisecond, func() {
			if alive := s.Invokers(); len(alive) > 0 {
				s.Sim.Crash(alive[draw.IntN(len(alive))], errors.New("the invoker dies"))
			}
		})
	}
}

// One seed, one run: to the last delivery.
func TestASimulationReplaysFromItsSeed(t *testing.T) {
	run := func(seed uint64) string {
		var trace string
		t.Run("run", func(t *testing.T) {
			s := newScene(t, seed)
			s.Sim.Faults = testkit.Faults{Drop: 0.05, Duplicate: 0.05, Delay: 0.1, MaxDelay: time.Second}
			s.submit(t, s.drawTask())
			s.Sim.RunUntil(s.allEnded, 24*time.Hour)
			trace = fmt.Sprint(s.Sim.Hash())
		})
		return trace
	}
	require.Equal(t, run(11), run(11))
	require.NotEqual(t, run(11), run(12))
}
