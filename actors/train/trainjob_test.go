package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// company plays one that ends every job the same way.
type company struct {
	refuses error
	ends    *messages.JobResult
	asked   *messages.TrainTask
}

func (c *company) StartJob(_ context.Context, task *messages.TrainTask) (train.Submission, error) {
	c.asked = task
	return train.Submission{ID: "j", Warnings: []string{"mind the gap"}}, c.refuses
}

func (c *company) WatchJob(_ context.Context, _ string, on func(*messages.JobEvent)) (*messages.JobResult, error) {
	on(&messages.JobEvent{})
	return c.ends, nil
}

// The facade says how a job ended, whichever way that was.
func TestTrainSaysHowTheJobEnded(t *testing.T) {
	failure := &messages.Failure{Kind: messages.FailureKind_FAILURE_KIND_USER_CODE, Text: "boom", Trace: "line 7"}
	for name, c := range map[string]struct {
		company company
		kind    fault.Kind
		text    string
	}{
		"it was refused":   {company{refuses: fault.New("x", fault.Invalid, "no such thing")}, fault.Invalid, "no such thing"},
		"it failed":        {company{ends: &messages.JobResult{Phase: messages.Phase_PHASE_FAILED, Failure: failure}}, fault.UserCode, "boom"},
		"it was stopped":   {company{ends: &messages.JobResult{Phase: messages.Phase_PHASE_STOPPED, Failure: &messages.Failure{Text: "enough"}}}, fault.Conflict, "enough"},
		"it has succeeded": {company{ends: &messages.JobResult{Phase: messages.Phase_PHASE_SUCCEEDED}}, fault.Unknown, ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := train.NewTrainJob(zap.NewNop(), &messages.TrainTask{}, &c.company)
			require.Nil(t, job.Result())
			job.Train()
			require.True(t, proto.Equal(c.company.ends, job.Result()))
			if c.text == "" {
				require.NoError(t, job.Err())
				return
			}
			require.ErrorContains(t, job.Err(), c.text)
			require.Equal(t, c.kind, fault.KindOf(job.Err()))
		})
	}
}

// K is a field, as in KubeML; the task that was given stays as it is.
func TestKIsTheTasksUnlessSet(t *testing.T) {
	for _, c := range []struct{ field, task, want int }{{0, 7, 7}, {3, 7, 3}, {-1, 7, -1}, {5, 0, 5}} {
		task := &messages.TrainTask{}
		if c.task != 0 {
			task.Options = &messages.TrainOptions{K: int32(c.task)}
		}
		before := proto.CloneOf(task)
		to := &company{ends: &messages.JobResult{Phase: messages.Phase_PHASE_SUCCEEDED}}
		job := train.NewTrainJob(zap.NewNop(), task, to)
		job.K = c.field
		job.Train()
		require.EqualValues(t, c.want, to.asked.GetOptions().GetK())
		require.True(t, proto.Equal(before, task))
	}
}
