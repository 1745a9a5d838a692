package actors_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// start starts a company that keeps nothing, of so many slots.
func start(t *testing.T, slots int, own ...native.Function) *actors.Company {
	t.Helper()
	node := config.DefaultNode()
	node.Store, node.Slots = "mem://", slots
	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node, Functions: own})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func run(c *actors.Company, task *messages.TrainTask) (*messages.JobResult, error) {
	job := train.NewTrainJob(zap.NewNop(), task, c)
	job.Train()
	return job.Result(), job.Err()
}

// Reported: the loss of a model depends on how many workers measure it. With a
// learning rate that leaves the model as it is, every N measures the same one.
func TestTheLossOfAModelDoesNotDependOnN(t *testing.T) {
	c := start(t, 3)
	var want *messages.JobResult
	for n := uint32(1); n <= 8; n++ {
		got, err := run(c, &messages.TrainTask{
			FunctionName: "mlp", Dataset: "digits", Epochs: 1, BatchSize: 7, Lr: 1e-300,
			Options: &messages.TrainOptions{DefaultParallelism: n, StaticParallelism: true, K: 3},
		})
		require.NoError(t, err)
		require.EqualValues(t, 1437, got.GetEpochs()[0].GetSamples())
		if n == 1 {
			want = got
			continue
		}
		require.InEpsilon(t, want.GetValidationLoss(), got.GetValidationLoss(), 1e-9, "N=%d", n)
		require.InEpsilon(t, want.GetAccuracy(), got.GetAccuracy(), 1e-9, "N=%d", n)
	}
}

// broken is a function of a user that works as told.
func broken(train func(native.Batch) (float64, error)) native.Function {
	return native.Function{
		Name: "broken", NoAccuracy: true,
		Init: func(c *native.Call) error {
			_, err := c.Model.Float32("w", 2)
			return err
		},
		Open: func(*native.Call) (native.Model, error) { return model{train}, nil },
	}
}

type model struct {
	train func(native.Batch) (float64, error)
}

func (m model) Train(b native.Batch) (float64, error)       { return m.train(b) }
func (m model) Validate(native.Batch) (native.Score, error) { return native.Score{}, nil }

// Reported: user code that raises hangs everybody, or is tried for ever.
func TestAnErrorOfUserCodeEndsTheJobWithItsTrace(t *testing.T) {
	c := start(t, 2, broken(func(native.Batch) (float64, error) { panic(fmt.Sprint("row ", 5, " is odd")) }))
	result, err := run(c, &messages.TrainTask{FunctionName: "broken", Dataset: "digits"})
	require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
	require.Equal(t, fault.UserCode, fault.KindOf(err))
	require.ErrorContains(t, err, "row 5 is odd")
	require.Contains(t, fault.TraceOf(err), "company_test.go", "the trace names the user's line")
	require.Less(t, result.GetRetries(), uint32(3), "the second raise is enough")
}

// Reported by a user of Go functions: t.FailNow in one hung the job.
func TestAFunctionThatEndsItsGoroutineHasFailed(t *testing.T) {
	c := start(t, 2, broken(func(native.Batch) (float64, error) { runtime.Goexit(); return 0, nil }))
	_, err := run(c, &messages.TrainTask{FunctionName: "broken", Dataset: "digits"})
	require.Equal(t, fault.UserCode, fault.KindOf(err))
	require.ErrorContains(t, err, "runtime.Goexit")
}

// Functions that ignore the end of their context can take every slot; the job
// then ends with the reason.
func TestAJobWithoutAUsableSlotEnds(t *testing.T) {
	release := make(chan struct{})
	c := start(t, 2, broken(func(native.Batch) (float64, error) { <-release; return 0, nil }))
	defer close(release)
	result, err := run(c, &messages.TrainTask{
		FunctionName: "broken", Dataset: "digits", Options: &messages.TrainOptions{FunctionTimeoutMs: 100},
	})
	require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
	require.ErrorContains(t, err, "no slot is left")
}

func TestAStoreThatCannotBeWrittenIsSaidBeforeTraining(t *testing.T) {
	node := config.DefaultNode()
	node.Store = "file:///proc/troupe"
	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.StartJob(t.Context(), &messages.TrainTask{FunctionName: "mlp", Dataset: "digits"})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "--store")
}

func TestWhatDoesNotExistIsSaidBeforeThereIsAJob(t *testing.T) {
	c := start(t, 1)
	for name, task := range map[string]*messages.TrainTask{
		"function":   {FunctionName: "nosuch", Dataset: "digits"},
		"data set":   {FunctionName: "mlp", Dataset: "nosuch"},
		"model":      {FunctionName: "mlp", Dataset: "digits", Options: &messages.TrainOptions{Init: "nosuch"}},
		"model file": {FunctionName: "mlp", Dataset: "digits", Options: &messages.TrainOptions{Init: "no/such.safetensors"}},
		"program":    {FunctionName: "no/such.py", Dataset: "digits"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.StartJob(t.Context(), task)
			require.Equal(t, fault.NotFound, fault.KindOf(err), "%v", err)
		})
	}
}

// A job goes on from the values of another one: after no training at all it is
// as good.
func TestAJobStartsFromAnotherModel(t *testing.T) {
	c := start(t, 2)
	first, err := c.StartJob(t.Context(), &messages.TrainTask{FunctionName: "mlp", Dataset: "digits", BatchSize: 16, Lr: 0.1})
	require.NoError(t, err)
	trained, err := c.WatchJob(t.Context(), first.ID, func(*messages.JobEvent) {})
	require.NoError(t, err)
	again, err := run(c, &messages.TrainTask{
		FunctionName: "mlp", Dataset: "digits", Epochs: 1, Lr: 1e-300, Options: &messages.TrainOptions{Init: first.ID},
	})
	require.NoError(t, err)
	require.InEpsilon(t, trained.GetValidationLoss(), again.GetValidationLoss(), 1e-6)
	require.GreaterOrEqual(t, again.GetAccuracy(), 90.0)
}

func TestCloseEndsJobsAndLeavesNothing(t *testing.T) {
	testkit.LeakCheck(t)
	running := make(chan struct{}, 100)
	hang := broken(nil)
	hang.Open = func(c *native.Call) (native.Model, error) {
		return model{func(native.Batch) (float64, error) {
			running <- struct{}{}
			<-c.Context().Done()
			return 0, c.Context().Err()
		}}, nil
	}
	node := config.DefaultNode()
	node.Store = "mem://"
	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node, Functions: []native.Function{hang}})
	require.NoError(t, err)
	job, err := c.StartJob(t.Context(), &messages.TrainTask{FunctionName: "broken", Dataset: "digits"})
	require.NoError(t, err)
	<-running
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = c.WatchJob(context.Background(), job.ID, func(*messages.JobEvent) {})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	_, err = c.StartJob(context.Background(), &messages.TrainTask{FunctionName: "mlp", Dataset: "digits"})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}
