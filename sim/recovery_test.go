package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/sim"
	"github.com/troupe-ml/troupe/tensor"
)

// Reported: the coordinator dies after round r, and what was trained is lost, or
// trained again as another job. Here the next round anywhere is r+1 of the same
// job, its history is whole, and there is one result.
func TestAnotherCompanyGoesOnWithTheNextRound(t *testing.T) {
	for seed := range testkit.Seeds(t, 30) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := newRivals(t, seed, func(*sim.Config) {})
			task := r.drawWhole()
			task.Epochs, task.Options.Retries, task.Options.K = 3, proto.Uint32(100), 1
			r.begin(t, task)
			first := r.lives[0][0]
			merges := func(w *sim.Watch) (out []*messages.RoundMerged) {
				for _, e := range w.Events {
					if m := e.GetRoundMerged(); m != nil {
						out = append(out, m)
					}
				}
				return out
			}
			after := 1 + r.Sim.Rand().IntN(20)
			r.Sim.RunUntil(func() bool { return first.Ended() || len(merges(first)) >= after }, time.Hour)
			if first.Ended() {
				return
			}
			r.Sim.Drain() // the store has it
			r.companies[0].Kill()
			last := merges(first)[len(merges(first))-1]
			r.resume(1)
			second := r.lives[1][0]
			r.Sim.RunUntil(second.Ended, time.Hour)
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, second.Result.GetPhase(), "%v", second.Result)
			next := merges(second)
			switch whole := last.GetEpochSamples() == uint64(r.config.Data.Train); {
			case whole && last.GetEpoch() == task.GetEpochs():
				require.Empty(t, next)
			case whole:
				require.Equal(t, []uint32{last.GetEpoch() + 1, 1}, []uint32{next[0].GetEpoch(), next[0].GetRound()})
			default:
				require.Equal(t, []uint32{last.GetEpoch(), last.GetRound() + 1}, []uint32{next[0].GetEpoch(), next[0].GetRound()})
			}
			if len(next) > 0 {
				require.Equal(t, last.GetModelVersion()+1, next[0].GetModelVersion())
			}
			r.proves(t, r.id, task, second.Result)
			ids, err := r.companies[1].JobIDs()
			require.NoError(t, err)
			require.Equal(t, []string{r.id}, ids, "no second job")
		})
	}
}

// A static job that dies or is stopped at any time, any number of times, and goes
// on anywhere gives the model and the numbers of one that nothing happened to.
func TestAResumedJobGivesTheSameModel(t *testing.T) {
	for seed := range testkit.Seeds(t, 30) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			run := func(name string, trouble bool) (model tensor.StateDict, result *messages.JobResult) {
				t.Run(name, func(t *testing.T) {
					r := newRivals(t, seed, func(*sim.Config) {})
					task := r.drawWhole()
					task.Epochs, task.Options.Retries, task.Options.StaticParallelism = 4, proto.Uint32(1000), true
					every := []uint64{0, 0, 700}[r.Sim.Rand().IntN(3)]
					r.begin(t, task)
					if trouble {
						task.Options.CheckpointEveryMs = every
						r.interrupt()
					}
					for range 10 {
						r.Sim.RunUntil(r.idle, time.Hour)
						if len(r.succeeded()) > 0 {
							break
						}
						r.Sim.Advance(20 * time.Second)
						r.resume(1)
					}
					require.NotEmpty(t, r.succeeded(), "%v", r.ends())
					result = r.succeeded()[0]
					r.proves(t, r.id, task, result)
					saved, _ := r.Models.Get(r.id)
					model = saved.Model
				})
				return model, result
			}
			calm, plain := run("calm", false)
			troubled, result := run("troubled", true)
			require.Equal(t, calm, troubled)
			require.Len(t, result.GetEpochs(), len(plain.GetEpochs()))
			for i, e := range result.GetEpochs() {
				want := plain.GetEpochs()[i]
				require.Equal(t, want.GetTrainLoss(), e.GetTrainLoss())
				require.Equal(t, want.ValidationLoss, e.ValidationLoss)
				require.Equal(t, want.Accuracy, e.Accuracy)
				require.Equal(t, want.GetRounds(), e.GetRounds())
				require.Equal(t, want.GetFreshOptimizers(), e.GetFreshOptimizers())
				require.Equal(t, want.GetRoundParallelism(), e.GetRoundParallelism())
			}
		})
	}
}

// interrupt stops and freezes the job of the first company at drawn times, and
// has either go on with it.
func (r *rivals) interrupt() {
	draw := r.Sim.Rand()
	for range 1 + draw.IntN(4) {
		r.Sim.Advance(time.Duration(draw.Int64N(int64(5 * time.Second))))
		switch i := draw.IntN(2); draw.IntN(3) {
		case 0:
			r.Sim.Send(r.companies[i].Tree.Scheduler, &messages.StopJob{JobId: r.id, Reason: "enough"})
		case 1:
			if alive := r.companies[i].Jobs(); len(alive) > 0 {
				r.Sim.Crash(alive[0], errBug)
			}
		case 2:
			r.companies[i].Freeze(time.Duration(draw.Int64N(int64(30 * time.Second))))
		}
		r.Sim.Advance(time.Duration(draw.Int64N(int64(15 * time.Second))))
		r.resume(draw.IntN(2))
	}
}
