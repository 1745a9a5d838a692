package train

import (
	"context"
	"math"
	"sync"

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
	// first, and returns how the job ended. It returns early with ctx. Errors:
	// NotFound; Conflict: another process has taken the job over, naming it;
	// Corrupt, Unavailable (the store, of a job that is not here).
	WatchJob(ctx context.Context, id string, on func(*messages.JobEvent)) (*messages.JobResult, error)
}

// Submission is a job that was accepted.
type Submission struct {
	ID       string   // of the job
	Warnings []string // for a person
}

// TrainJob is a job as KubeML's package train knows it. It is a facade that sends
// messages to the actor of this package and holds no loop of its own. One from
// NewTrainJob is trained by a call of Train; one from NewBasicJob waits for its
// task over HTTP. It is safe for concurrent use, but for K.
type TrainJob struct {
	// K is how many batches a function trains between two merges: -1 for a
	// whole epoch, 0 for what the task says. Set it before the job starts.
	K int

	log *zap.Logger
	on  func(*messages.JobEvent) // called with each event

	sizing sync.Mutex // held while the size changes; guards slots
	slots  uint32     // that the node offers; more than it has are all

	mu      sync.Mutex // guards the rest
	id      string     // "" until the company has given one
	task    *messages.TrainTask
	company Company
	host    Standalone    // the company, where it can do more; nil: it cannot, or there is none yet
	phase   startPhase    // how far the start has come; only a start that is refused goes back
	begun   chan struct{} // closed once the job has been accepted
	result  *messages.JobResult
	err     error
	told    chan struct{} // closed once somebody was told over HTTP how the job ended
	telling sync.Once     // closes told
}

// startPhase is how far the start of a job has come.
type startPhase uint8

const (
	waiting  startPhase = iota // for its task
	starting                   // the company has not answered
	accepted                   // what goes on with it is for the company to say
)

func newTrainJob(logger *zap.Logger, id string, task *messages.TrainTask) *TrainJob {
	return &TrainJob{log: logger, slots: math.MaxUint32, id: id, task: task, on: func(*messages.JobEvent) {}, begun: make(chan struct{}), told: make(chan struct{})}
}

// NewTrainJob returns a job for a task that is known. The task is copied.
func NewTrainJob(logger *zap.Logger, task *messages.TrainTask, company Company) *TrainJob {
	j := newTrainJob(logger, "", proto.CloneOf(task))
	j.company = company
	j.host, _ = company.(Standalone)
	return j
}

// NewBasicJob returns a job that gets its task over HTTP, from POST /start of its
// handler, and that company which Use names. The id names it in the company's
// store: 1 to 64 letters, digits, _ and -. A job that the store has goes on where
// it was.
func NewBasicJob(logger *zap.Logger, jobID string) *TrainJob {
	return newTrainJob(logger, jobID, nil)
}

// Use has the job run in that company, which stays the caller's to close. Call it
// before the job starts.
func (j *TrainJob) Use(company Standalone) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.company, j.host = company, company
}

// Watch has on called with each event of the job, in order, while Train, Serve or
// ServeOn waits for its end: one at a time if one of them is called. Call it before
// those.
func (j *TrainJob) Watch(on func(*messages.JobEvent)) { j.on = on }

// Train runs the job and returns when it has ended; Result and Err say how. A
// basic job is awaited first: it starts once its task has come over HTTP.
func (j *TrainJob) Train() {
	ctx := context.Background()
	if j.isBasic() {
		j.finish(j.await(ctx))
		return
	}
	j.finish(j.train(ctx))
}

func (j *TrainJob) isBasic() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.task == nil
}

// Result returns how the job ended: nil before it has, and when it could not be
// started.
func (j *TrainJob) Result() *messages.JobResult {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.result
}

// Err returns why the job did not succeed, nil when it did: the error that
// refused it, the failure that ended it, or Conflict when it was stopped.
func (j *TrainJob) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// name returns the id of the job, "" while it has none.
func (j *TrainJob) name() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.id
}

// tell remembers that somebody was told how the job ended.
func (j *TrainJob) tell() { j.telling.Do(func() { close(j.told) }) }

func (j *TrainJob) finish(result *messages.JobResult, err error) {
	j.mu.Lock()
	j.result, j.err = result, err
	j.mu.Unlock()
	if err != nil {
		j.log.Warn("job did not succeed", zap.Error(err))
	}
}

// train starts a job whose task is known, and watches it.
func (j *TrainJob) train(ctx context.Context) (*messages.JobResult, error) {
	if err := j.claimStart(); err != nil {
		return nil, err
	}
	submission, err := j.company.StartJob(ctx, j.withK(j.task))
	j.started(submission, err)
	if err != nil {
		return nil, err
	}
	return j.watch(ctx)
}

// withK returns a copy of a task whose K is that of the field.
func (j *TrainJob) withK(task *messages.TrainTask) *messages.TrainTask {
	task = proto.CloneOf(task)
	if j.K != 0 {
		if task.Options == nil {
			task.Options = &messages.TrainOptions{}
		}
		task.Options.K = int32(j.K)
	}
	return task
}

// claimStart lets one caller start the job. Conflict: another one has.
func (j *TrainJob) claimStart() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.phase != waiting {
		return fault.New("train.start", fault.Conflict, "job %s has its task: a job is started once", j.id)
	}
	j.phase = starting
	return nil
}

// started takes in what the company said to a start: one that it refused may be
// tried again.
func (j *TrainJob) started(submission Submission, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.phase = waiting
		return
	}
	j.id, j.phase = submission.ID, accepted
	close(j.begun)
	for _, warning := range submission.Warnings {
		j.log.Warn("job accepted with a warning", zap.String("job_id", submission.ID), zap.String("warning", warning))
	}
}

// watch returns how a job that was accepted ended.
func (j *TrainJob) watch(ctx context.Context) (*messages.JobResult, error) {
	result, err := j.company.WatchJob(ctx, j.id, j.on)
	if err != nil {
		return nil, err
	}
	switch result.GetPhase() {
	case messages.Phase_PHASE_FAILED:
		return result, wire.Error(result.GetFailure())
	case messages.Phase_PHASE_STOPPED:
		return result, fault.New("train.train", fault.Conflict, "job %s was stopped: %s", j.id, result.GetFailure().GetText())
	}
	return result, nil
}
