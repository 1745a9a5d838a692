package sim_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
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
	stopped map[string]bool // jobs that were asked to stop
}

// newScene draws a company whose functions misbehave in every way.
func newScene(t *testing.T, seed uint64) *scene {
	return newSceneOf(t, seed, func(c *sim.Config) {
		c.Functions.Crash, c.Functions.Hang, c.Functions.NaN = 0.05, 0.01, 0.02
		c.Functions.WrongShape, c.Functions.WrongDType, c.Functions.WrongName, c.Functions.FewSamples = 0.01, 0.01, 0.01, 0.01
	})
}

// newSceneOf draws a company that change may change.
func newSceneOf(t *testing.T, seed uint64, change func(*sim.Config)) *scene {
	s := testkit.New(t, seed)
	draw := s.Rand()
	data, err := sim.NewData(t.TempDir(), 1+draw.IntN(300), draw.IntN(1200))
	require.NoError(t, err)
	config := sim.Config{
		Slots: 1 + draw.IntN(6), Data: data, Log: zap.NewNop(),
		Policy:    wild{draw},
		Functions: fake.Config{Seed: seed, Base: 20 * time.Millisecond, PerSample: time.Millisecond, Jitter: 2},
	}
	change(&config)
	company, err := sim.New(s, config)
	require.NoError(t, err)
	return &scene{Company: company, config: config, tasks: map[string]*messages.TrainTask{}, watches: map[string]*sim.Watch{}, stopped: map[string]bool{}}
}

func (s *scene) drawTask() *messages.TrainTask {
	draw := s.Sim.Rand()
	k := int32(1 + draw.IntN(4))
	if draw.IntN(4) == 0 {
		k = -1
	}
	task := &messages.TrainTask{
		FunctionName: fake.Ledger, Dataset: "zeros", Epochs: uint32(1 + draw.IntN(3)),
		BatchSize: uint32(1 + draw.IntN(24)), Lr: 0.1,
		Options: &messages.TrainOptions{
			DefaultParallelism: uint32(1 + draw.IntN(8)), MaxParallelism: 8,
			StaticParallelism: draw.IntN(3) == 0, K: k, Seed: draw.Uint64(),
			Retries:           proto.Uint32(uint32(draw.IntN(6))),
			OptimizerState:    []string{"keep", "reset", "average"}[draw.IntN(3)],
			Merge:             []string{"average", "average:unweighted", "nesterov", "trimmed-mean", "median"}[draw.IntN(5)],
			Clip:              []float64{0, 0.01}[draw.IntN(2)],
			ValidateEvery:     []float64{1, 2, 0.25, -1}[draw.IntN(4)],
			FunctionTimeoutMs: 20_000,
		},
	}
	if o := task.GetOptions(); draw.IntN(3) == 0 {
		task.Epochs += 3
		o.MaxTimeMs = []uint64{0, 500, 5000}[draw.IntN(3)]
		if o.GetValidateEvery() > 0 {
			o.GoalAccuracy = []float64{0, 40, 60}[draw.IntN(3)]
			o.Patience, o.Keep = min(uint32(draw.IntN(3)), uint32(float64(task.Epochs-1)/max(o.ValidateEvery, 1))-1), []string{"", "best"}[draw.IntN(2)]
		}
	}
	task.Options.Compress = []string{"none", "int8"}[draw.IntN(2)]
	return task
}

func (s *scene) submit(t *testing.T, task *messages.TrainTask) string { return s.submitTo(t, "", task) }

// submitTo submits a job that is to run at a node.
func (s *scene) submitTo(t *testing.T, home string, task *messages.TrainTask) string {
	id, err := s.SubmitTo(home, task)
	require.NoError(t, err)
	s.tasks[id], s.watches[id] = task, s.Watch(id)
	return id
}

// check holds after every message: what the whole company promises.
func (s *scene) check() error {
	if s.Runner.Running > s.config.Slots {
		return fmt.Errorf("%d functions run on %d slots", s.Runner.Running, s.config.Slots)
	}
	for _, n := range s.Nodes() {
		if n.Runner.Running > n.Slots {
			return fmt.Errorf("%d functions run on %d slots of %s", n.Runner.Running, n.Slots, n.Name)
		}
	}
	for id := range s.watches {
		if n := s.Space.Held(id).Merged; n > 2 && s.tasks[id].GetOptions().GetKeep() != "best" || n > 3 {
			return fmt.Errorf("job %s has %d reference models", id, n)
		}
	}
	return nil
}

// checkScratch looks at scratch every so often, between two moments of virtual
// time. ReleaseTensors must meet no faults then.
func (s *scene) checkScratch() {
	const often = 7*time.Millisecond + 1 // no other timer fires then
	s.Sim.At(often, func() {
		if err := s.CheckScratch(); err != nil {
			s.Sim.Fail("%v", err)
		}
		if !s.allEnded() {
			s.checkScratch()
		}
	})
}

// crash makes n actors die within a time, as a bug of ours would make them.
func (s *scene) crash(n int, within time.Duration, living func() []*actor.PID) {
	draw := s.Sim.Rand()
	for range n {
		s.Sim.At(time.Duration(draw.Int64N(int64(within))), func() {
			if alive := living(); len(alive) > 0 {
				s.Sim.Crash(alive[draw.IntN(len(alive))], errors.New("a bug of ours"))
			}
		})
	}
}

// stop asks for a job's stop at a time, each second until it has ended.
func (s *scene) stop(id string, at time.Duration) {
	client := s.Sim.Probe("stop-" + id)
	var again func()
	again = func() {
		if !s.watches[id].Ended() {
			s.stopped[id] = true
			client.Send(s.Tree.Scheduler, &messages.StopJob{JobId: id, Reason: "enough"})
			s.Sim.At(time.Second, again)
		}
	}
	s.Sim.At(at, again)
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
	starts := map[uint64]int{} // by incarnation
	for _, e := range watch.Events {
		if m := e.GetStarted(); m != nil && m.GetAfterIncarnation() < e.GetJob().GetIncarnation() { // else it is said again
			starts[e.GetJob().GetIncarnation()]++
		}
		if m := e.GetRoundMerged(); m != nil {
			require.GreaterOrEqual(t, m.GetParallelism(), uint32(1))
			require.LessOrEqual(t, m.GetParallelism(), task.GetOptions().GetMaxParallelism())
			if task.GetOptions().GetStaticParallelism() {
				require.Equal(t, task.GetOptions().GetDefaultParallelism(), m.GetParallelism(), "a static job keeps its N")
			}
		}
	}
	for incarnation, n := range starts {
		require.Equal(t, 1, n, "incarnation %d started once", incarnation)
	}
	epochs := len(result.GetEpochs())
	if result.GetEndedEarly() != "" {
		s.verifyEarly(t, id)
		epochs-- // complete, unless it ended with one
	}
	for i, e := range result.GetEpochs() {
		require.EqualValues(t, i+1, e.GetEpoch(), "epochs are 1..E without a gap")
		if i == epochs {
			break
		}
		require.EqualValues(t, s.config.Data.Train, e.GetSamples(), "every sample of epoch %d once", i+1)
	}
	if result.GetPhase() != messages.Phase_PHASE_SUCCEEDED {
		want := messages.Phase_PHASE_FAILED
		if s.stopped[id] {
			want = min(want, result.GetPhase())
		}
		require.Equal(t, want, result.GetPhase())
		require.NotEmpty(t, result.GetFailure().GetText(), "a reason a person can act on")
		return
	}
	if result.GetEndedEarly() != "" {
		return
	}
	s.proves(t, id, task, result)
}

// proves checks that the result of a job is that of its epochs, each sample once
// in each.
func (s *scene) proves(t *testing.T, id string, task *messages.TrainTask, result *messages.JobResult) {
	require.Len(t, result.GetEpochs(), int(task.GetEpochs()))
	for i, e := range result.GetEpochs() {
		require.EqualValues(t, i+1, e.GetEpoch(), "epochs are 1..E without a gap")
		require.EqualValues(t, s.config.Data.Train, e.GetSamples(), "every sample of epoch %d once", i+1)
	}
	saved, ok := s.Models.Get(id)
	require.True(t, ok)
	counts, err := fake.Counts(saved.Model)
	require.NoError(t, err)
	require.Len(t, counts, s.config.Data.Train)
	for p, n := range counts {
		if task.GetOptions().GetKeep() == "best" {
			require.LessOrEqual(t, n, int64(result.GetModelEpoch()))
			continue
		}
		require.EqualValues(t, task.GetEpochs(), n, "sample %d was trained %d times in %d epochs", p, n, task.GetEpochs())
	}
	weight, ok := saved.Model.Get("weight")
	require.True(t, ok)
	for _, w := range weight.Float64() {
		require.False(t, math.IsNaN(w) || math.IsInf(w, 0), "the model is finite")
	}
}

// verifyEarly checks a job that ended before its last epoch: it says why once in
// each incarnation that decides, no function trains after that, and the model is
// what the history says was trained. (Reported case 35: an end that one worker
// sees and the others do not.)
func (s *scene) verifyEarly(t *testing.T, id string) {
	task, result := s.tasks[id], s.watches[id].Result
	ended := map[uint64]bool{} // by incarnation
	for _, e := range s.watches[id].Events {
		at := e.GetJob().GetIncarnation()
		require.False(t, ended[at] && (e.GetTrainingEnded() != nil || e.GetRoundMerged() != nil || e.GetEpochStarted() != nil), "%v after the end", e)
		ended[at] = ended[at] || e.GetTrainingEnded() != nil
	}
	require.NotEmpty(t, ended)
	last := result.GetEpochs()[len(result.GetEpochs())-1]
	require.LessOrEqual(t, len(result.GetEpochs()), int(task.GetEpochs()))
	require.Positive(t, last.GetSamples())
	require.LessOrEqual(t, last.GetSamples(), uint64(s.config.Data.Train))
	if result.GetPhase() != messages.Phase_PHASE_SUCCEEDED || task.GetOptions().GetKeep() == "best" {
		return
	}
	saved, ok := s.Models.Get(id)
	require.True(t, ok)
	counts, err := fake.Counts(saved.Model)
	require.NoError(t, err)
	var trained uint64
	for _, n := range counts {
		trained += uint64(n)
	}
	for _, e := range result.GetEpochs() {
		trained -= e.GetSamples()
	}
	require.Zero(t, trained, "samples in the model that the history has not, or the other way round")
}

// leaves checks that nothing is left once all jobs have ended.
func (s *scene) leaves(t *testing.T) {
	s.Sim.Faults = testkit.Faults{}
	s.Sim.Advance(time.Minute)
	require.Zero(t, s.Runner.Running, "no function runs")
	for _, n := range s.Nodes() {
		require.Zero(t, n.Runner.Running, "no function runs on %s", n.Name)
		require.Empty(t, n.Space.List(""), "no tensor is left on %s", n.Name)
	}
	require.Empty(t, s.Jobs(), "no job lives")
	require.Empty(t, s.Invokers(), "no invoker lives")
	require.Empty(t, s.Space.List(""), "no tensor is left")
}
