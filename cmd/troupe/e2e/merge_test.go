package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/tensor"
)

// Every way to merge trains a network as well as the average does, clipped or not.
func TestE2EEveryStrategyLearns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	job := func(flags ...string) result {
		return h.train(t, append([]string{"-e", "10", "-b", "16", "-p", "4", "--static", "--lr", "0.1"}, flags...)...)
	}
	average := job().model(t)
	for _, merge := range []string{"average:unweighted", "nesterov", "trimmed-mean", "median"} {
		for _, clip := range [][]string{nil, {"--clip", "1"}} {
			r := job(append([]string{"--merge", merge}, clip...)...)
			require.GreaterOrEqual(t, r.Accuracy, 93.0, "%s %v", merge, clip)
			require.NotEqual(t, average, r.model(t), "%s %v is another merge", merge, clip)
		}
	}
	require.Equal(t, average, job("--merge", "nesterov:1,0").model(t))
	require.Equal(t, average, job("--clip", "1e6").model(t), "nothing has changed that much")
}

// An outer optimizer steps the parameters of a PyTorch program and leaves the
// statistics of its BatchNorm layers what the average makes of them: it knows
// them by the names that the program's first model came with, and that its last
// one has still.
func TestE2EPythonNesterovLeavesBatchNormAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	train := func(flags ...string) result {
		return h.run(t, append([]string{program(t, "norm"), "-d", "digits", "-b", "32", "--lr", "0.05", "-p", "2", "--static"}, flags...)...)
	}
	average := tensors(t, train("-e", "1", "-K", "-1").path(t))
	once := train("-e", "1", "-K", "-1", "--merge", "nesterov:0.5,0.9")
	var buffers, stepped int
	for i, x := range tensors(t, once.path(t)) {
		switch name := filepath.Ext(x.Name); {
		case name == ".running_mean" || name == ".running_var" || name == ".num_batches_tracked":
			buffers++
			require.Equal(t, average[i], x, "what the average makes of it")
		case x.DType.IsFloat():
			stepped++
			require.NotEqual(t, average[i], x, x.Name)
		}
	}
	require.Equal(t, 6, buffers)
	require.Positive(t, stepped)

	r := train("-e", "8", "--merge", "nesterov:1,0.5")
	require.GreaterOrEqual(t, r.Accuracy, 93.0)
	for _, x := range tensors(t, r.path(t)) {
		if filepath.Ext(x.Name) == ".running_var" {
			for _, v := range x.Float64() {
				require.GreaterOrEqual(t, v, 0.0, "%s: no variance is negative", x.Name)
			}
		}
	}
	exported := filepath.Join(h.dir, "out.safetensors")
	require.Zero(t, h.troupe(t, "model", "export", "-n", r.JobID, "-o", exported).code)
	require.Contains(t, metadata(t, exported)[tensor.BuffersKey], `running_var`)
}

// metadata reads those of a model file.
func metadata(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	layout, err := tensor.ReadLayout(bytes.NewReader(file), int64(len(file)))
	require.NoError(t, err)
	return layout.Metadata
}
