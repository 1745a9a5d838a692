package host

import (
	"container/list"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// job is what the host knows of one job: the latest step it has heard of, and
// the attempts of that step.
type job struct {
	step      *messages.AttemptRef // function and attempt mean nothing
	closed    bool                 // the step is released: nothing of it may start
	over      bool                 // the incarnation has ended: nothing of it may start
	vacated   uint64               // the incarnation that needs nothing of this node any more; 0: none has said so
	attempts  map[place]*attempt
	cancelled map[place]struct{} // attempts that must not start any more
	failedOn  map[uint32]int     // the slot on which a function failed last
	warnings  warnings           // of the node, while attempts of it were here
	adding    *addition          // of the step's answers; nil: none was planned
}

// place names an attempt within a step.
type place struct{ function, attempt uint32 }

func placeOf(ref *messages.AttemptRef) place { return place{ref.GetFunction(), ref.GetAttempt()} }

// attempt is one that has not been cancelled. It is queued, running or ended:
// exactly one of queued, run and end is set.
type attempt struct {
	job    *job
	inv    *messages.Invoke
	asker  *actor.PID // who sent the last Invoke
	heard  time.Time  // when that was
	queued *list.Element
	run    *run
	end    proto.Message // *messages.Invoked or *messages.InvokeFailed
}

// status is the answer to an Invoke of the attempt.
func (a *attempt) status() proto.Message {
	if a.end != nil {
		return a.end
	}
	return &messages.InvokeAccepted{Attempt: a.inv.GetAttempt(), Running: a.run != nil && !a.run.starting, Warnings: slices.Clone(a.job.warnings)}
}

func newJob() *job {
	return &job{attempts: map[place]*attempt{}, cancelled: map[place]struct{}{}, failedOn: map[uint32]int{}}
}

// isNews reports whether ref is of a later step than the job has reached here.
// Nothing of an ended incarnation is news.
func (j *job) isNews(ref *messages.AttemptRef) bool {
	if j.over && ref.GetJob().GetIncarnation() <= j.step.GetJob().GetIncarnation() {
		return false
	}
	return actorkit.CompareSteps(ref, j.step) > 0
}

// enter begins a step. Its attempts must have been dropped before.
func (j *job) enter(ref *messages.AttemptRef) {
	j.step, j.closed, j.over = ref, false, false
	clear(j.cancelled)
	clear(j.failedOn)
}

// refuse says why an attempt may not start, nil if it may.
func (j *job) refuse(ref *messages.AttemptRef) error {
	const op = "host.invoke"
	inc, reached := ref.GetJob().GetIncarnation(), j.step.GetJob().GetIncarnation()
	switch {
	case inc < reached:
		return fault.New(op, fault.Conflict, "incarnation %d of the job is over, %d runs", inc, reached)
	case j.over:
		return fault.New(op, fault.Conflict, "incarnation %d of the job has ended", inc)
	case actorkit.CompareSteps(ref, j.step) < 0:
		return fault.New(op, fault.Conflict, "%s is over: the job has reached %s", nameStep(ref), nameStep(j.step))
	case j.closed:
		return fault.New(op, fault.Conflict, "%s is over", nameStep(ref))
	}
	if _, ok := j.cancelled[placeOf(ref)]; ok {
		return fault.New(op, fault.Conflict, "attempt %d of function %d was cancelled", ref.GetAttempt(), ref.GetFunction())
	}
	return nil
}

func nameStep(ref *messages.AttemptRef) string {
	if ref.GetTask() == messages.Task_TASK_INIT {
		return "init"
	}
	name := fmt.Sprintf("epoch %d, round %d", ref.GetEpoch(), ref.GetRound())
	if ref.GetTask() == messages.Task_TASK_VALIDATE {
		return "validation after " + name
	}
	return name
}
