package train

import (
	"context"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// Company starts jobs and tells how they go. actors.Start returns one.
type Company interface {
	// StartJob queues a job. Errors: Invalid (the task), NotFound (its function
	// or data set), Unavailable (no answer before ctx ended).
	StartJob(ctx context.Context, task *messages.TrainTask) (Submission, error)
	// WatchJob calls on with each event of the job, in order and from its
	// first, and returns how the job ended. It returns early with ctx.
	WatchJob(ctx context.Context, id string, on func(*messages.JobEvent)) (*messages.JobResult, error)
}

// Submission is a job that was accepted.
type Submission struct {
	ID       string   // of the job
	Warnings []string // for a person
}

// TrainJob is a job as KubeML's package train knows it: made from a task,
// trained by one call. It is a facade that sends messages to the actor of this
// package and holds no loop of its own.
type TrainJob struct {
	// K is how many batches a function trains between two merges: -1 for a
	// whole epoch, 0 for what the task says. Set it before Train.
	K int

	log     *zap.Logger
	task    *messages.TrainTask
	company Company
	result  *messages.JobResult
	err     error
}

// NewTrainJob returns a job for a task that is known. The task is copied.
func NewTrainJob(logger *zap.Logger, task *messages.TrainTask, company Company) *TrainJob {
	return &TrainJob{log: logger, task: proto.CloneOf(task), company: company}
}

// Train runs the job and returns when it has ended; Result and Err say how.
func (j *TrainJob) Train() {
	j.result, j.err = j.train(context.Background())
	if j.err != nil {
		j.log.Warn("job did not succeed", zap.Error(j.err))
	}
}

// Result returns how the job ended: nil before Train has returned, and when
// the job could not be started.
func (j *TrainJob) Result() *messages.JobResult { return j.result }

// Err returns why the job did not succeed, nil when it did: the error that
// refused it, the failure that ended it, or Conflict when it was stopped.
func (j *TrainJob) Err() error { return j.err }

func (j *TrainJob) train(ctx context.Context) (*messages.JobResult, error) {
	task := proto.CloneOf(j.task)
	if j.K != 0 {
		if task.Options == nil {
			task.Options = &messages.TrainOptions{}
		}
		task.Options.K = int32(j.K)
	}
	submission, err := j.company.StartJob(ctx, task)
	if err != nil {
		return nil, err
	}
	for _, warning := range submission.Warnings {
		j.log.Warn("job accepted with a warning", zap.String("job_id", submission.ID), zap.String("warning", warning))
	}
	result, err := j.company.WatchJob(ctx, submission.ID, func(*messages.JobEvent) {})
	if err != nil {
		return nil, err
	}
	switch result.GetPhase() {
	case messages.Phase_PHASE_FAILED:
		return result, wire.Error(result.GetFailure())
	case messages.Phase_PHASE_STOPPED:
		return result, fault.New("train.train", fault.Conflict, "job %s was stopped: %s", submission.ID, result.GetFailure().GetText())
	}
	return result, nil
}
