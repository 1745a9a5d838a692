package bench_test

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

const (
	images     = 8192 // of the data set: at N=1 four rounds
	imageBatch = 128  // images
	turns      = 5    // of which the least counts: what else the machine does only adds
	starts     = 8    // of processes that are compared: each runs at a speed of its own
	epochs     = 3    // of each, the first of which does not count
)

// studio is a company that trains bench/testdata/lenet.py.
type studio struct {
	*actors.Company
	data, program string

	mu      sync.Mutex // guards batches
	batches func(batch)
}

// batch is what the program says in some of its batches.
type batch struct {
	index int // in its round
	at    time.Time
	pid   int
}

// newStudio starts one, with a store of its own.
func newStudio(b *testing.B, slots int, data string) *studio {
	b.Helper()
	program, err := filepath.Abs("testdata/lenet.py")
	require.NoError(b, err)
	s := &studio{data: data, program: program}
	n := config.DefaultNode()
	n.Store, n.Slots = "file://"+b.TempDir(), slots
	n.Threads = n.ThreadsPerSlot()
	s.Company, err = actors.Start(actors.Config{Log: zap.NewNop(), Node: n, Lines: s.line})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

func (s *studio) line(l python.Line) {
	var said batch
	var at int64
	if _, err := fmt.Sscanf(l.Text, "batch %d %d %d", &said.index, &at, &said.pid); err != nil {
		return
	}
	said.at = time.Unix(0, at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.batches != nil {
		s.batches(said)
	}
}

// hear has what the program says go to f.
func (s *studio) hear(f func(batch)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = f
}

// train runs a job to its end.
func (s *studio) train(b *testing.B, n, epochs int, items bool, on func(*messages.JobEvent)) *messages.JobResult {
	b.Helper()
	options := &messages.TrainOptions{DefaultParallelism: uint32(n), StaticParallelism: true, ValidateEvery: -1}
	if items {
		options.Env = map[string]string{"ITEMS": "1"}
	}
	ctx := context.Background()
	job, err := s.StartJob(ctx, &messages.TrainTask{
		FunctionName: s.program, Dataset: s.data, Epochs: uint32(epochs), BatchSize: imageBatch, Lr: 0.01, Options: options,
	})
	require.NoError(b, err)
	result, err := s.WatchJob(ctx, job.ID, on)
	require.NoError(b, err)
	require.Equal(b, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), result.GetFailure().GetText())
	return result
}

func ignore(*messages.JobEvent) {}

// BenchmarkPythonFirstBatch says how long it takes from the submission of a
// PyTorch program to its first batch: cold, with no process of Python, and warm,
// with the workers of an earlier job.
func BenchmarkPythonFirstBatch(b *testing.B) {
	data := noiseImages(b)
	for range b.N {
		var cold, warm []float64
		for range turns {
			s := newStudio(b, 1, data)
			for _, seconds := range []*[]float64{&cold, &warm} {
				first := make(chan time.Time, 1)
				s.hear(func(said batch) {
					select {
					case first <- said.at:
					default:
					}
				})
				submitted := time.Now()
				s.train(b, 1, 1, false, ignore)
				*seconds = append(*seconds, (<-first).Sub(submitted).Seconds())
			}
			require.NoError(b, s.Close())
		}
		b.ReportMetric(slices.Min(cold), "s-cold")
		b.ReportMetric(slices.Min(warm), "s-warm")
	}
}

// BenchmarkPythonKilledWorker says how many round times pass from the kill -9 of
// one of two workers, in the middle of a round, to the merge of that round. Half
// a round is lost, and done again.
func BenchmarkPythonKilledWorker(b *testing.B) {
	data := noiseImages(b)
	for range b.N {
		s := newStudio(b, 2, data)
		var mu sync.Mutex // guards what follows
		var killed time.Time
		var middles int
		s.hear(func(said batch) {
			mu.Lock()
			defer mu.Unlock()
			if said.index != 8 || !killed.IsZero() {
				return
			}
			if middles++; middles%7 == 0 {
				killed = time.Now()
				_ = syscall.Kill(said.pid, syscall.SIGKILL)
			}
		})
		var waits, rounds []float64 // seconds
		result := s.train(b, 2, 20, false, func(e *messages.JobEvent) {
			merged := e.GetRoundMerged()
			if merged == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if killed.IsZero() {
				rounds = append(rounds, float64(merged.GetDurationUs())/1e6)
				return
			}
			waits = append(waits, time.UnixMilli(e.GetTimeMs()).Sub(killed).Seconds())
			killed = time.Time{}
		})
		require.Positive(b, result.GetRetries())
		round := median(rounds)
		b.ReportMetric(round, "s/round")
		b.ReportMetric(median(waits)/round, "rounds-to-merge")
		b.ReportMetric(float64(len(waits)), "kills")
		require.NoError(b, s.Close())
	}
}

// BenchmarkPythonEpoch compares an epoch of one function on one slot with that of
// the plain PyTorch loop, in one process with as many threads, on the same data
// set class and batches; and with that of two functions on two slots. Each runs
// alone, in turns.
func BenchmarkPythonEpoch(b *testing.B) {
	data := noiseImages(b)
	for _, items := range []bool{true, false} {
		b.Run(fmt.Sprintf("items=%v", items), func(b *testing.B) {
			for range b.N {
				var plain, one, two []float64
				for range starts {
					plain = append(plain, plainEpochs(b, data, items)...)
					one = append(one, troupeEpochs(b, data, 1, items)...)
					two = append(two, troupeEpochs(b, data, 2, items)...)
				}
				b.Logf("plain %.3f\nN=1 %.3f\nN=2 %.3f", plain, one, two)
				b.ReportMetric(slices.Min(plain), "s-plain")
				b.ReportMetric(slices.Min(one), "s-N=1")
				b.ReportMetric(slices.Min(two), "s-N=2")
				b.ReportMetric(slices.Min(one)/slices.Min(plain), "of-plain")
				b.ReportMetric(slices.Min(one)/slices.Min(two), "speedup-N=2")
			}
		})
	}
}

// troupeEpochs returns the seconds of epochs of n functions on n slots.
func troupeEpochs(b *testing.B, data string, n int, items bool) (seconds []float64) {
	b.Helper()
	s := newStudio(b, n, data)
	result := s.train(b, n, epochs, items, ignore)
	require.NoError(b, s.Close())
	for _, record := range result.GetEpochs()[1:] {
		seconds = append(seconds, record.GetTrainingS())
	}
	return seconds
}

// plainEpochs returns the seconds of epochs of testdata/plain.py.
func plainEpochs(b *testing.B, data string, items bool) (seconds []float64) {
	b.Helper()
	interpreter, err := python.Find("", os.Getenv)
	require.NoError(b, err)
	args := []string{"testdata/plain.py", data, strconv.Itoa(imageBatch), strconv.Itoa(config.Cores()), strconv.Itoa(epochs)}
	if items {
		args = append(args, "items")
	}
	cmd := exec.Command(interpreter, args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH=../python")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(b, err)
	for _, text := range strings.Fields(string(out))[1:] {
		s, err := strconv.ParseFloat(text, 64)
		require.NoError(b, err)
		seconds = append(seconds, s)
	}
	return seconds
}

// noiseImages makes a data set of images of noise: x uint8 [n, 28, 28], y int64 in 0..9.
func noiseImages(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "noise.npz")
	f, err := os.Create(path)
	require.NoError(b, err)
	archive := zip.NewWriter(f)
	for part, n := range map[string]int64{"train": images, "test": 100} {
		write := func(name string, t tensor.NpyType, shape []int64, content io.Reader) {
			w, err := archive.CreateHeader(&zip.FileHeader{Name: name + "_" + part + ".npy", Method: zip.Store})
			require.NoError(b, err)
			require.NoError(b, tensor.WriteNpyHeader(w, t, shape))
			_, err = io.Copy(w, content)
			require.NoError(b, err)
		}
		random := rand.NewChaCha8([32]byte{byte(n)})
		write("x", tensor.NpyUint8, []int64{n, 28, 28}, io.LimitReader(random, n*28*28))
		labels := make([]byte, 8*n)
		for i := range n {
			labels[8*i] = byte(random.Uint64() % 10)
		}
		write("y", tensor.NpyInt64, []int64{n}, strings.NewReader(string(labels)))
	}
	require.NoError(b, archive.Close())
	require.NoError(b, f.Close())
	return path
}
