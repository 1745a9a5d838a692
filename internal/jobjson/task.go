package jobjson

import "github.com/troupe-ml/troupe/messages"

// Task is a job as GET /tasks shows it: request and job as KubeML has them, and
// beside them what else there is to say.
type Task struct {
	Request TrainRequest `json:"request" doc:"as asked for, with its defaults"`
	Job     JobInfo      `json:"job"`

	Phase           string   `json:"phase" doc:"QUEUED, STARTING, RUNNING, SAVING, STOPPED, FAILED or SUCCEEDED"`
	Reason          *string  `json:"reason" doc:"why it ended like that"`
	Life            uint64   `json:"life" doc:"another one each time that it is resumed: for DELETE /tasks/{id}"`
	Incarnation     uint64   `json:"incarnation" doc:"how often it has been started"`
	Origin          string   `json:"origin" doc:"run, server, or job: started over an interface of its own"`
	Epoch           uint32   `json:"epoch" doc:"that is being trained, from 1; 0: none yet"`
	Round           uint32   `json:"round" doc:"the latest that was merged"`
	EpochSamples    uint64   `json:"epoch_samples" doc:"of the epoch, merged so far"`
	TrainSamples    uint64   `json:"train_samples" doc:"of an epoch"`
	TestSamples     uint64   `json:"test_samples"`
	DatasetDigest   string   `json:"dataset_digest"`
	FunctionVersion string   `json:"function_version" doc:"empty: a built-in function"`
	Slots           uint32   `json:"slots" doc:"granted at its start"`
	Node            string   `json:"node" doc:"where its TrainJob is, or was last; empty: not started yet, or not known"`
	Loss            *float64 `json:"loss" doc:"of the latest merge"`
	Accuracy        *float64 `json:"accuracy" doc:"the last measured, percent"`
	SamplesPerS     float64  `json:"samples_per_s" doc:"of late; 0: not known"`
	SubmittedMs     int64    `json:"submitted_ms" doc:"since 1970"`
	QueuedS         *float64 `json:"queued_s" doc:"waited for a slot; null, as the next two: not known"`
	StartingS       *float64 `json:"starting_s" doc:"until the first epoch"`
	RunningS        *float64 `json:"running_s" doc:"since then"`
	ETAS            *float64 `json:"eta_s" doc:"until the end"`
	WaitingFor      *string  `json:"waiting_for"`
	Retries         uint32   `json:"retries"`
	LostFunctions   uint32   `json:"lost_functions"`
	RejectedResults uint32   `json:"rejected_results"`
}

// JobInfo is KubeML's.
type JobInfo struct {
	ID    string   `json:"id"`
	State JobState `json:"state"`
}

// JobState is KubeML's.
type JobState struct {
	Parallelism uint32  `json:"parallelism"`
	ElapsedTime float64 `json:"elapsed_time" doc:"seconds since the first epoch began"`
}

// TaskDetails is a job as GET /tasks/{id} shows it.
type TaskDetails struct {
	Task
	Epochs   []Epoch  `json:"epochs" doc:"complete ones"`
	Warnings []string `json:"warnings" doc:"the latest, at most 100"`
	Result   *Result  `json:"result" doc:"once the job has ended"`
}

// NewTask returns a job as GET /tasks shows it. It shares the view's options.
func NewTask(v *messages.JobView) Task { return newTask(v, nil) }

// NewTasks returns jobs as GET /tasks shows them, as NewTask does.
func NewTasks(views []*messages.JobView) []Task {
	tasks := make([]Task, 0, len(views)) // [], never null
	fields := optionFields()
	for _, v := range views {
		tasks = append(tasks, newTask(v, fields))
	}
	return tasks
}

func newTask(v *messages.JobView, fields []optionField) Task {
	t := v.GetTask()
	return Task{
		Request: newTrainRequest(t, fields),
		Job:     JobInfo{ID: v.GetId(), State: JobState{Parallelism: v.GetParallelism(), ElapsedTime: finite(v.GetRunningS())}},
		Phase:   StateName(v.GetPhase()), Reason: unlessEmpty(reason(v.GetResult().GetFailure())),
		Incarnation: v.GetIncarnation(), Origin: v.GetOrigin(),
		Epoch: v.GetEpoch(), Round: v.GetRound(), EpochSamples: v.GetEpochSamples(),
		TrainSamples: t.GetTrainSamples(), TestSamples: t.GetTestSamples(),
		DatasetDigest: t.GetDatasetDigest(), FunctionVersion: t.GetFunctionVersion(), Slots: v.GetSlots(), Node: v.GetNode(),
		Loss: measured(v.Loss), Accuracy: measured(v.Accuracy), SamplesPerS: finite(v.GetSamplesPerS()), SubmittedMs: v.GetSubmittedMs(),
		QueuedS: measured(v.QueuedS), StartingS: measured(v.StartingS), RunningS: measured(v.RunningS), Life: v.GetLife(), ETAS: measured(v.EtaS),
		WaitingFor: unlessEmpty(v.GetWaitingFor()),
		Retries:    v.GetRetries(), LostFunctions: v.GetLostFunctions(), RejectedResults: v.GetRejectedResults(),
	}
}

// View returns the job as its JSON tells.
func (t Task) View() *messages.JobView {
	task := t.Request.Task()
	task.TrainSamples, task.TestSamples = t.TrainSamples, t.TestSamples
	task.DatasetDigest, task.FunctionVersion = t.DatasetDigest, t.FunctionVersion
	v := &messages.JobView{
		Id: t.Job.ID, Phase: phase(t.Phase), Incarnation: t.Incarnation, Task: task, Origin: t.Origin,
		Parallelism: t.Job.State.Parallelism, Slots: t.Slots, Node: t.Node, Epoch: t.Epoch, Round: t.Round, EpochSamples: t.EpochSamples,
		Loss: t.Loss, Accuracy: t.Accuracy, SamplesPerS: t.SamplesPerS, SubmittedMs: t.SubmittedMs,
		Life: t.Life, QueuedS: t.QueuedS, StartingS: t.StartingS, RunningS: t.RunningS, EtaS: t.ETAS,
		Retries: t.Retries, LostFunctions: t.LostFunctions, RejectedResults: t.RejectedResults,
	}
	if t.WaitingFor != nil {
		v.WaitingFor = *t.WaitingFor
	}
	return v
}

// NewTaskDetails returns a job as GET /tasks/{id} shows it.
func NewTaskDetails(v *messages.JobView) TaskDetails {
	records := v.GetEpochs()
	if len(records) == 0 { // of a job that is known by its result only
		records = v.GetResult().GetEpochs()
	}
	d := TaskDetails{Task: NewTask(v), Epochs: newEpochs(records), Warnings: v.GetWarnings()}
	if d.Warnings == nil {
		d.Warnings = []string{}
	}
	if v.GetResult() != nil {
		d.Result = NewResult(v.GetId(), v.GetTask(), v.GetResult())
	}
	return d
}

// View returns the job as its JSON tells.
func (d TaskDetails) View() *messages.JobView {
	v := d.Task.View()
	v.Epochs, v.Warnings, v.Result = records(d.Epochs), d.Warnings, d.Result.result()
	return v
}
