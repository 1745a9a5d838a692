package bench_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

const (
	longRounds = 5000
	longBatch  = 8  // images
	longEpochs = 10 // of images/(2*longBatch) = 512 rounds
)

// BenchmarkPythonManyRounds trains a tiny PyTorch program for 5,000 rounds of two
// functions, and says what this process, its workers, the scratch and the store
// hold at its start (after 500 rounds, when all is warm), half-way, and at its
// end. What grows shows as a ratio above 1.
func BenchmarkPythonManyRounds(b *testing.B) {
	program, err := filepath.Abs("testdata/tiny.py")
	require.NoError(b, err)
	data := noiseImages(b)
	for range b.N {
		scratch, bucket := b.TempDir(), b.TempDir()
		n := config.DefaultNode()
		n.Store, n.Slots, n.Scratch.Dir = "file://"+bucket, 2, scratch
		n.Threads = 1
		c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: n})
		require.NoError(b, err)
		job, err := c.StartJob(context.Background(), &messages.TrainTask{
			FunctionName: program, Dataset: data, Epochs: longEpochs, BatchSize: longBatch, Lr: 0.01,
			Options: &messages.TrainOptions{DefaultParallelism: 2, StaticParallelism: true, K: 1},
		})
		require.NoError(b, err)
		var rounds int
		marks := map[int]holding{}
		result, err := c.WatchJob(context.Background(), job.ID, func(e *messages.JobEvent) {
			if e.GetRoundMerged() == nil {
				return
			}
			if rounds++; rounds == 500 || rounds == 2750 || rounds == longRounds {
				marks[rounds] = look(b, scratch, bucket)
				b.Logf("round %d: %v", rounds, marks[rounds])
			}
		})
		require.NoError(b, err)
		require.Equal(b, messages.Phase_PHASE_SUCCEEDED, result.GetPhase(), result.GetFailure().GetText())
		require.NoError(b, c.Close())
		b.Logf("closed: %v", look(b, scratch, bucket))
		first, last := marks[500], marks[longRounds]
		for i, name := range holdings() {
			b.ReportMetric(float64(last[i])/float64(max(first[i], 1)), name+"-ratio")
		}
		b.ReportMetric(float64(last[0])/1024, "anon-MiB")
		b.ReportMetric(float64(last[1])/1024, "workers-MiB")
		b.ReportMetric(result.GetWallS()*1000/float64(rounds), "ms/round")
	}
}

// holding is what there is at one moment, as holdings names it.
type holding [8]int

func holdings() [8]string {
	return [8]string{"anon", "workers", "workers-anon", "fds", "goroutines", "processes", "scratch", "store"}
}

func (h holding) String() string {
	var parts []string
	for i, name := range holdings() {
		unit := ""
		if i < 3 {
			unit = " KiB"
		}
		parts = append(parts, fmt.Sprintf("%s %d%s", name, h[i], unit))
	}
	return strings.Join(parts, ", ")
}

// look reads memory that is really held (garbage is given back first), open files,
// goroutines, descendants, and the files of two folders.
func look(b *testing.B, scratch, bucket string) (h holding) {
	b.Helper()
	debug.FreeOSMemory()
	h[0] = kilobytes(b, "/proc/self/status", "RssAnon:")
	for _, pid := range descendants(b) {
		rollup := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
		h[1] += kilobytes(b, rollup, "Pss:")
		h[2] += kilobytes(b, rollup, "Pss_Anon:")
		h[5]++
	}
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(b, err)
	h[3], h[4] = len(open), runtime.NumGoroutine()
	h[6], h[7] = count(b, scratch), count(b, bucket)
	return h
}

// kilobytes reads one line of a file in /proc, 0 where there is none.
func kilobytes(b *testing.B, path, line string) int {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return 0 // it has ended
	}
	for l := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(l, line); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			require.NoError(b, err)
			return n
		}
	}
	return 0
}

// descendants returns the processes that we started, and those that they did.
func descendants(b *testing.B) (pids []int) {
	b.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(b, err)
	parents := map[int]int{}
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid := range parents {
		for p := parents[pid]; p > 1; p = parents[p] {
			if p == os.Getpid() {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// count counts the files below a folder.
func count(b *testing.B, folder string) (n int) {
	b.Helper()
	err := filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil // what goes meanwhile does not count
	})
	require.NoError(b, err)
	return n
}
