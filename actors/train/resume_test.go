package train_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// told is all that an invocation depends on.
type told struct {
	seed      uint64
	spans     [][2]uint64
	n         uint32
	lr        float64
	version   uint64
	model     float32
	optimizer float32
	residual  float32
	order     uint64
}

// course plays a job to its end with answers that depend on all that they were
// asked for, and returns what each invocation was told.
func (s *stage) course() (map[string]told, *messages.JobResult) {
	all := map[string]told{}
	for s.finished == nil {
		invs := s.next()
		if len(invs) == 0 && s.finished == nil {
			s.sim.Advance(100 * time.Millisecond)
		}
		for _, inv := range invs {
			at, plan := inv.GetAttempt(), inv.GetPlan()
			d := told{
				seed: inv.GetSeed(), spans: spans(inv), n: plan.GetParallelism(), lr: plan.GetLr(),
				version: plan.GetModelVersion(), optimizer: s.optimizers([]*messages.Invoke{inv})[0], order: plan.GetOrderSeed(),
				residual: s.residuals([]*messages.Invoke{inv})[0],
			}
			if plan.GetModel() != nil {
				d.model = s.value(plan.GetModel())
			}
			all[fmt.Sprintf("epoch %d, round %d, %v, function %d", at.GetEpoch(), at.GetRound(), at.GetTask(), at.GetFunction())] = d
			value := d.model/2 + d.optimizer/64 + d.residual/32 + float32(d.seed%97) + float32(at.GetFunction())
			a := s.answer(inv, value)
			a.Loss = float64(value) + float64(d.version)
			a.Metrics = map[string]*messages.WeightedSum{"m": {Sum: float64(value), Weight: 2}}
			s.sim.Send(s.job, &messages.FunctionFinished{Answer: a})
		}
		s.sim.Drain()
		require.Nil(s.t, s.crash)
	}
	return all, s.finished.GetResult()
}

// answersSizes has the Scheduler answer each request with an N that the epoch
// decides.
func answersSizes(s *stage) {
	seq := uint64(1)
	s.scheduler.Answer = func(msg any) any {
		m, ok := msg.(*messages.RequestParallelism)
		if !ok {
			return nil
		}
		seq++
		return &messages.RequestParallelismReply{Job: m.GetJob(), Epoch: m.GetEpoch(), Size: sizeOf(seq, 1+(m.GetEpoch()*3)%4, 4)}
	}
}

// keeper has the host keep copies of all that it is told to keep.
type keeper struct {
	states []*messages.JobState
	files  []map[string][]byte // by key, of each
}

func (k *keeper) listen(s *stage) {
	answer := s.host.Answer
	s.host.Answer = func(msg any) any {
		m, ok := msg.(*messages.KeepState)
		if !ok {
			return answer(msg)
		}
		files := map[string][]byte{}
		for _, place := range train.Tensors(m.GetState()) {
			blob, err := s.space.Open(s.t.Context(), wire.PlaneRef(place.Ref))
			if err != nil && len(m.GetState().GetTodo()) == 0 && m.GetState().GetEpoch() == s.epochs {
				return nil // the job has ended meanwhile, and its tensors are gone
			}
			require.NoError(s.t, err, "what a host is told to keep is there: %v", place.Name)
			files[place.Ref.GetKey()], err = io.ReadAll(io.NewSectionReader(blob, 0, blob.Size()))
			require.NoError(s.t, err)
			require.NoError(s.t, blob.Close())
		}
		k.states, k.files = append(k.states, proto.CloneOf(m.GetState())), append(k.files, files)
		return nil
	}
}

// put puts the tensors of a kept state where they were.
func (k *keeper) put(i int) func(*stage) {
	return func(s *stage) {
		for key, content := range k.files[i] {
			draft, err := s.space.Create(key, int64(len(content)))
			require.NoError(s.t, err)
			_, err = io.Copy(draft, bytes.NewReader(content))
			require.NoError(s.t, err)
			_, err = draft.Seal()
			require.NoError(s.t, err)
		}
	}
}

// A job that is taken up from any of the states that it ever stored, or had hosts
// keep, goes on with the invocations, the numbers and the model that it would
// have had: from its first model, in the middle of an epoch, with a validation or
// a new N due, after the last epoch; whatever becomes of optimizer states,
// momentum and learning rate (reported: counters begin anew with each resume).
func TestAnyStateGoesOnAsIfNothingHadBeen(t *testing.T) {
	states := 0
	for seed := range testkit.Seeds(t, 60) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			draw := testkit.New(t, seed).Rand()
			n := uint32(1 + draw.IntN(4))
			task := func() *messages.TrainTask { return taskOf(0, nil) }()
			task.Epochs, task.BatchSize, task.TrainSamples, task.TestSamples = uint32(1+draw.IntN(3)), uint32(1+draw.IntN(3)), uint64(1+draw.IntN(30)), uint64(draw.IntN(20))
			o := task.GetOptions()
			o.K, o.StaticParallelism = []int32{1, 2, -1}[draw.IntN(3)], draw.IntN(2) == 0
			o.OptimizerState = []string{"keep", "average", "reset"}[draw.IntN(3)]
			o.Merge = []string{"average", "nesterov"}[draw.IntN(2)]
			o.ValidateEvery = []float64{1, 0.4, 2, -1}[draw.IntN(4)]
			o.LrScale, o.Warmup = []string{"none", "linear"}[draw.IntN(2)], []float64{0, 1.5}[draw.IntN(2)]
			o.Seed = draw.Uint64()
			o.Compress = []string{"none", "int8"}[draw.IntN(2)]

			k := &keeper{}
			first := newStageFrom(t, seed, sizeOf(1, n, 4), task, &vault{}, nil, answersSizes, k.listen)
			want, result := first.course()
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), "%v", result.GetFailure())
			check := func(name string, from *messages.JobState, resumed *stage) {
				got, again := resumed.course()
				for at, what := range got {
					require.Equal(t, want[at], what, "%s: %s", name, at)
				}
				require.Equal(t, first.models.saved, resumed.models.saved, name)
				require.Len(t, again.GetEpochs(), len(result.GetEpochs()))
				for i, e := range again.GetEpochs() {
					plain := proto.CloneOf(result.GetEpochs()[i])
					e = proto.CloneOf(e)
					plain.DurationS, plain.TrainingS, e.DurationS, e.TrainingS = 0, 0, 0, 0
					require.True(t, proto.Equal(plain, e), "%s: %v, not %v", name, e, plain)
				}
				started := resumed.beginning()
				require.Equal(t, []uint64{from.GetJob().GetIncarnation(), from.GetEvents()}, []uint64{started.GetAfterIncarnation(), started.GetAfterSeq()}, name)
				require.Equal(t, stepsOf(first.events), stepsOf(first.events[:started.GetAfterSeq()], resumed.events), "%s: each once, for who leaves out what came after", name)
				left := 0
				for at := range want {
					var epoch, round uint32
					_, err := fmt.Sscanf(at, "epoch %d, round %d", &epoch, &round)
					require.NoError(t, err)
					if epoch > from.GetEpoch() || epoch == from.GetEpoch() && round > from.GetRound() {
						left++
					}
				}
				require.GreaterOrEqual(t, len(got), left, name)
				resumed.gone()
				states++
			}
			for i, saved := range first.vault.saves {
				if saved.GetModel() == nil {
					continue // it has SUCCEEDED
				}
				check(fmt.Sprintf("stored state %d", i), saved,
					newStageFrom(t, seed, sizeOf(1, saved.GetParallelism(), 4), task, &vault{from: saved, files: first.vault.files}, nil, answersSizes))
			}
			for i, kept := range k.states {
				check(fmt.Sprintf("kept state %d", i), kept,
					newStageFrom(t, seed, sizeOf(1, kept.GetParallelism(), 4), task, &vault{}, kept, answersSizes, k.put(i)))
			}
		})
	}
	t.Log(states, "states")
}

// beginning returns what the job says as it starts, or goes on.
func (s *stage) beginning() *messages.JobStarted {
	for _, e := range s.events {
		if m := e.GetStarted(); m != nil {
			return m
		}
	}
	return nil
}

// stepsOf returns the rounds and epochs that events tell of.
func stepsOf(parts ...[]*messages.JobEvent) (steps []string) {
	for _, e := range slices.Concat(parts...) {
		if m := e.GetRoundMerged(); m != nil {
			steps = append(steps, fmt.Sprintf("epoch %d, round %d", m.GetEpoch(), m.GetRound()))
		}
		if m := e.GetEpochFinished().GetRecord(); m != nil {
			steps = append(steps, fmt.Sprintf("epoch %d", m.GetEpoch()))
		}
	}
	return steps
}

// Of what the store has and what hosts keep the later counts: by incarnation,
// then by model. What a host keeps counts only whole, and who does not answer is
// not waited for.
func TestTheLatestWholeStateCounts(t *testing.T) {
	k := &keeper{}
	first := newStageFrom(t, 1, sizeOf(1, 2, 2), taskOf(20, keeping("average")), &vault{}, nil, k.listen)
	_, _ = first.course()
	saved := map[uint64]*messages.JobState{}
	for _, st := range first.vault.saves {
		saved[st.GetModelVersion()] = st
	}
	at := func(st *messages.JobState, incarnation uint64) *messages.JobState {
		st = proto.CloneOf(st)
		st.Job.Incarnation = incarnation
		return st
	}
	silent := func(s *stage) { s.host.Answer = nil }
	for name, c := range map[string]struct {
		stored, kept *messages.JobState
		before       func(*stage)
		round        uint32
	}{
		"the host's is later":                           {at(saved[3], 1), at(k.states[4], 1), k.put(4), 5},
		"the store's is later":                          {at(saved[7], 1), at(k.states[4], 1), k.put(4), 7},
		"they are of one model":                         {at(saved[5], 1), at(k.states[4], 1), k.put(4), 5},
		"the store's is of a higher incarnation":        {at(saved[3], 2), at(k.states[4], 1), k.put(4), 3},
		"the host's is of a higher incarnation":         {at(saved[7], 1), at(k.states[4], 2), k.put(4), 5},
		"the host's has lost its tensors":               {at(saved[3], 1), at(k.states[4], 1), func(*stage) {}, 3},
		"the store has none":                            {nil, at(k.states[4], 1), k.put(4), 5},
		"the host has none":                             {at(saved[3], 1), nil, func(*stage) {}, 3},
		"the host does not answer":                      {at(saved[3], 1), at(k.states[4], 1), silent, 3},
		"nobody has any":                                {nil, nil, func(*stage) {}, 0},
		"the host's has lost its tensors, and no other": {nil, at(k.states[4], 1), func(*stage) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStageFrom(t, 1, sizeOf(1, 2, 2), taskOf(20, keeping("average")), &vault{from: c.stored, files: first.vault.files}, c.kept, c.before)
			s.sim.Advance(1100 * time.Millisecond)
			require.Equal(t, c.round, s.beginning().GetRound())
			s.host.Answer = first.host.Answer // so that it lets go
			if c.round > 0 {
				require.Equal(t, c.round+1, s.next()[0].GetAttempt().GetRound())
			}
		})
	}
}

// A store that is away while a job takes up its state is waited for; the job is
// not lost for it.
func TestAJobWaitsForTheStoreThatHasItsState(t *testing.T) {
	first := newStage(t, 1, taskOf(5, nil))
	_, _ = first.course()
	v := &vault{from: first.vault.saves[2], files: first.vault.files, shut: fault.New("store.get", fault.Unavailable, "the store is away")}
	s := newStageFrom(t, 1, sizeOf(1, 1, 1), taskOf(5, nil), v, nil)
	s.sim.Advance(10 * time.Minute)
	require.Nil(t, s.finished)
	require.InDelta(t, 10, len(s.warnings()), 1, "one a minute")
	v.shut = nil
	s.sim.Advance(10 * time.Second)
	require.Equal(t, first.vault.saves[2].GetRound()+1, s.next()[0].GetAttempt().GetRound())
}
