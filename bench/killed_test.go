package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

const (
	killedRounds = 100 // of a job of the benchmark
	killEvery    = 10  // rounds
	killedN      = 4   // functions, and slots
	sleepBatches = 16  // of a function in a round
	sleepBatch   = 2   // samples
	sleepFor     = time.Second / sleepBatches
)

// BenchmarkKilledWorkers compares a job of rounds of a second with the same job
// when in every ten rounds a worker process is killed, at a moment that is drawn
// evenly.
func BenchmarkKilledWorkers(b *testing.B) {
	s := newStudio(b, killedN, numbers(b, killedRounds*killedN*sleepBatches*sleepBatch, 3))
	program, err := filepath.Abs("testdata/sleeper.py")
	require.NoError(b, err)
	s.program = program
	k := &killer{draws: rand.New(rand.NewPCG(1, 2)), started: map[int]time.Time{}}
	s.hear(k.hear)
	s.sleep(b, 1, ignore) // so that workers are warm
	for range b.N {
		calm := s.sleep(b, killedRounds, ignore)
		k.kills, k.lost = 0, 0
		stormy := s.sleep(b, killedRounds, k.watch)
		require.Equal(b, killedRounds/killEvery, k.kills)
		lost := k.lost.Seconds() / killedN // of the whole capacity
		b.ReportMetric(calm.Seconds()/killedRounds, "s/round")
		b.ReportMetric(stormy.Seconds()/killedRounds, "s/round-killed")
		b.ReportMetric(float64(k.kills), "kills")
		b.ReportMetric(k.lost.Seconds(), "s-lost")
		b.ReportMetric(calm.Seconds()/stormy.Seconds(), "of-calm-raw")
		b.ReportMetric(calm.Seconds()/(stormy.Seconds()-lost), "of-calm-counted")
	}
}

// sleep runs a job of so many rounds and returns how long they took.
func (s *studio) sleep(b *testing.B, rounds int, on func(*messages.JobEvent)) time.Duration {
	b.Helper()
	ctx := context.Background()
	job, err := s.StartJob(ctx, &messages.TrainTask{
		FunctionName: s.program, Dataset: s.data, Epochs: 1, BatchSize: sleepBatch, Lr: 0.01,
		Options: &messages.TrainOptions{
			DefaultParallelism: killedN, StaticParallelism: true, ValidateEvery: -1, K: int32(sleepBatches * killedRounds / rounds),
			Env: map[string]string{"BATCH_S": fmt.Sprint(sleepFor.Seconds() * float64(rounds) / killedRounds)},
		},
	})
	require.NoError(b, err)
	result, err := s.WatchJob(ctx, job.ID, on)
	require.NoError(b, err)
	require.Equal(b, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), result.GetFailure().GetText())
	record := result.GetEpochs()[0]
	require.EqualValues(b, killedRounds*killedN*sleepBatches*sleepBatch, record.GetSamples())
	require.EqualValues(b, rounds, record.GetRounds())
	return time.Duration(record.GetTrainingS() * float64(time.Second))
}

// killer kills a worker in every ten rounds.
type killer struct {
	mu      sync.Mutex // guards all
	draws   *rand.Rand
	started map[int]time.Time // when workers began their assignments, by process id
	order   []int             // those of the running round
	target  int               // round, from 0, in which the next one dies
	merged  int
	kills   int
	lost    time.Duration // what killed attempts had worked
}

func (k *killer) hear(said batch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.started[said.pid] = said.at
	k.order = append(k.order, said.pid)
}

func (k *killer) watch(e *messages.JobEvent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case e.GetEpochStarted() != nil:
		k.merged, k.target = 0, k.draws.IntN(killEvery)
	case e.GetRoundMerged() != nil:
		k.merged++
		k.order = nil
		if k.merged%killEvery == 0 {
			k.target = k.merged + k.draws.IntN(killEvery)
		}
	default:
		return
	}
	if k.merged == k.target && k.merged < killedRounds {
		time.AfterFunc(time.Duration(k.draws.Float64()*float64(time.Second)), k.kill)
	}
}

// kill kills one of those that are at work, or as good as.
func (k *killer) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	var at []int
	for _, pid := range k.order {
		if syscall.Kill(pid, 0) == nil {
			at = append(at, pid)
		}
	}
	if len(at) == 0 { // the round is just about to begin
		time.AfterFunc(10*time.Millisecond, k.kill)
		return
	}
	victim := at[k.draws.IntN(len(at))]
	if syscall.Kill(victim, syscall.SIGKILL) == nil {
		k.kills++
		k.lost += min(time.Since(k.started[victim]), time.Second)
	}
}

// numbers makes a data set of so many samples to train with, of two classes.
func numbers(b *testing.B, samples, columns int) string {
	b.Helper()
	var text bytes.Buffer
	for i := range samples * 5 / 4 { // a fifth is for testing
		for column := range columns {
			fmt.Fprintf(&text, "%d,", i%(7+column%5))
		}
		fmt.Fprintf(&text, "%d\n", i%2)
	}
	path := filepath.Join(b.TempDir(), "numbers.csv")
	require.NoError(b, os.WriteFile(path, text.Bytes(), 0o600))
	return path
}
