package actors_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/messages"
)

// Reported: user code raises in one function at step 5, the others wait for it
// for ever, and the traceback is lost. Here it is in an event, and the second
// raise has ended the job, within 2 s of each.
func TestAPanicAtStepFiveIsSeenAndEndsTheJob(t *testing.T) {
	for name, fail := range map[string]func() error{
		"a panic":  func() error { panic("index out of range") },
		"an error": func() error { return errors.New("index out of range") },
	} {
		t.Run(name, func(t *testing.T) {
			raised := make(chan struct{}, 10)
			c := begin(t, scripted{step: func(c *native.Call, _ []float32, b native.Batch) (float64, error) {
				if c.Index == 1 && b.Index == 4 {
					raised <- struct{}{}
					return 0, fail()
				}
				return 1, nil
			}}.function())
			submission, err := c.StartJob(t.Context(), &messages.TrainTask{
				FunctionName: "scripted", Dataset: dataset(t, 64, 1), BatchSize: 2,
				Options: &messages.TrainOptions{DefaultParallelism: 4, StaticParallelism: true, K: -1},
			})
			require.NoError(t, err)
			seen := make(chan *messages.Failure, 10)
			ended := make(chan *messages.JobResult, 1)
			go func() {
				result, _ := c.WatchJob(t.Context(), submission.ID, func(e *messages.JobEvent) {
					if f := e.GetFunctionFailed(); f != nil {
						seen <- f.GetFailure()
					}
				})
				ended <- result
			}()
			<-raised
			first := within(t, seen)
			require.Equal(t, messages.FailureKind_FAILURE_KIND_USER_CODE, first.GetKind())
			require.NotEmpty(t, first.GetTrace())
			<-raised
			within(t, seen)
			result := within(t, ended)
			require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
			require.Contains(t, result.GetFailure().GetText(), "index out of range")
			require.Contains(t, result.GetFailure().GetText(), "epoch 1, round 1, function 1")
			require.Contains(t, result.GetFailure().GetTrace(), map[string]string{"a panic": "raised_error_test.go", "an error": "index out of range"}[name])
			require.Empty(t, raised, "it was tried twice")
		})
	}
}

// within receives within two seconds.
func within[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(2 * time.Second):
		require.Fail(t, "nothing came within 2 s")
		panic("unreachable")
	}
}

// Reported: a worker that always fails is restarted for ever. Attempts that
// fail each in its own way are no deterministic error, but they are counted.
func TestAFunctionThatAlwaysFailsEndsTheJob(t *testing.T) {
	var attempts atomic.Int64
	c := begin(t, scripted{step: func(*native.Call, []float32, native.Batch) (float64, error) {
		return 0, fmt.Errorf("failure %d", attempts.Add(1))
	}}.function())
	o := outcomeOf(t, c, &messages.TrainTask{
		FunctionName: "scripted", Dataset: dataset(t, 8, 1),
		Options: &messages.TrainOptions{DefaultParallelism: 2, StaticParallelism: true, K: -1, Retries: proto.Uint32(2)},
	})
	require.Equal(t, messages.Phase_PHASE_FAILED, o.GetPhase())
	require.Contains(t, o.GetFailure().GetText(), "0 of 2 functions answered, at least 1 must")
	require.EqualValues(t, 6, attempts.Load())
	require.EqualValues(t, 4, o.GetRetries())
	require.Len(t, o.failures(), 6)
}
