package actors_test

import (
	"encoding/binary"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/tensor"
)

// begin opens a company of four slots with a store and scratch of its own. At
// the test's end it is closed, and nothing of it may be left.
func begin(t *testing.T, own ...native.Function) *actors.Company {
	testkit.LeakCheck(t)
	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node(t), Functions: own})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func node(t *testing.T) config.Node {
	n := config.DefaultNode()
	dir := t.TempDir()
	n.Slots, n.Store = 4, "file://"+filepath.Join(dir, "store")
	n.Scratch.Dir = filepath.Join(dir, "scratch")
	require.NoError(t, os.MkdirAll(n.Scratch.Dir, 0o700))
	t.Cleanup(func() { // runs after Close
		left, err := os.ReadDir(n.Scratch.Dir)
		require.NoError(t, err)
		require.Empty(t, left, "scratch is empty")
	})
	return n
}

// outcome is how a job went.
type outcome struct {
	*messages.JobResult
	events []*messages.JobEvent
	id     string
}

// outcomeOf runs a job to its end.
func outcomeOf(t *testing.T, c *actors.Company, task *messages.TrainTask) outcome {
	submission, err := c.StartJob(t.Context(), task)
	require.NoError(t, err)
	o := outcome{id: submission.ID}
	o.JobResult, err = c.WatchJob(t.Context(), o.id, func(e *messages.JobEvent) { o.events = append(o.events, e) })
	require.NoError(t, err)
	return o
}

// failures returns the events of failed attempts.
func (o outcome) failures() (out []*messages.FunctionFailed) {
	for _, e := range o.events {
		if f := e.GetFunctionFailed(); f != nil {
			out = append(out, f)
		}
	}
	return out
}

// model reads the stored model of a job.
func (o outcome) model(t *testing.T) tensor.StateDict {
	u, err := url.Parse(o.GetModel())
	require.NoError(t, err)
	file := openFile(t, u.Path)
	dict, err := tensor.Read(file.R, file.Size)
	require.NoError(t, err)
	return dict
}

// storeOf returns the folder of the store that a job's model is in.
func (o outcome) storeOf(t *testing.T) string {
	u, err := url.Parse(o.GetModel())
	require.NoError(t, err)
	return filepath.Dir(filepath.Dir(u.Path)) // store/models/id.1.safetensors
}

// dataset writes a data set of two classes, told apart by the first of three
// features, into a folder and returns its path. The first training sample is of
// class 1, so that one sample already says that there are two.
func dataset(t *testing.T, train, test int) string {
	dir := filepath.Join(t.TempDir(), "tiny")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for part, samples := range map[string]int{"train": train, "test": test} {
		x, y := make([]float32, 0, 3*samples), make([]int64, 0, samples)
		for i := range samples {
			label := (i + 1) % 2
			x = append(x, float32(label)+float32(i%7)/10, float32(i%5), float32(i%3)-1)
			y = append(y, int64(label))
		}
		writeNpy(t, filepath.Join(dir, "x_"+part+".npy"), tensor.NpyFloat32, []int64{int64(samples), 3}, x)
		writeNpy(t, filepath.Join(dir, "y_"+part+".npy"), tensor.NpyInt64, []int64{int64(samples)}, y)
	}
	return dir
}

// openFile opens a file as a runtime's input.
func openFile(t *testing.T, path string) functions.Input {
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	info, err := f.Stat()
	require.NoError(t, err)
	return functions.Input{R: f, Size: info.Size(), Path: path}
}

func writeNpy(t *testing.T, path string, dtype tensor.NpyType, shape []int64, values any) {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, tensor.WriteNpyHeader(f, dtype, shape))
	require.NoError(t, binary.Write(f, binary.LittleEndian, values))
}

// scripted is a function of a user: its model has the tensor "w", F32 [2], and
// what first adds; step says what a batch does to it.
type scripted struct {
	first func(c *native.Call) error
	step  func(c *native.Call, w []float32, b native.Batch) (float64, error)
}

func (s scripted) function() native.Function {
	return native.Function{
		Name: "scripted",
		Init: func(c *native.Call) error {
			_, err := c.Model.Float32("w", 2)
			if err == nil && s.first != nil {
				err = s.first(c)
			}
			return err
		},
		Open: func(c *native.Call) (native.Model, error) {
			w, err := c.Model.Float32("w", 2)
			return scriptedModel{s, c, w}, err
		},
	}
}

type scriptedModel struct {
	scripted
	call *native.Call
	w    []float32
}

func (m scriptedModel) Train(b native.Batch) (float64, error) { return m.step(m.call, m.w, b) }
func (m scriptedModel) Validate(b native.Batch) (native.Score, error) {
	return native.Score{Loss: float64(b.N), Correct: b.N}, nil
}
