package paramserver

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/actors/actorkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	store "github.com/troupe-ml/troupe/store/job"
)

// phase is where a job stands. Waiting and running alternate; ended is final.
type phase uint8

const (
	waiting phase = iota // for its next incarnation to be owned, after a back-off unless it is the first
	running              // its child lives, or is being stopped after a crash
	ending               // it has no child, and how it ends is decided: the store is to have that first
	ended
)

// job is what the ParameterServer knows of a job.
type job struct {
	id          string
	start       *messages.StartJob // with the newest size; shared with messages, never changed
	started     time.Time
	incarnation uint64 // of the child, or of the last one; 0 before the first
	phase       phase
	owned       *Owned          // the incarnation of the child, or of the last one; nil: none yet
	released    bool            // and it is let go of, or being so
	asking      bool            // the store is being asked for the next one
	leaving     int             // works that let go of this job, or store its end, and have not ended
	alive       bool            // a child exists
	respawns    int             // since the job last got further
	version     uint64          // of its model, where it was furthest
	lives       map[string]bool // keys of the submissions and resumes that it began by, ended lives included
	crash       error           // of the running incarnation; nil: none
	final       bool            // it is why no further one can be owned

	seen   store.Sighting // of another owner, while there is one
	seenAt time.Time      // since when it is as seen

	obstacle error           // why it is not owned; nil: nothing is in the way
	told     actorkit.Sparse // of that

	stop     *messages.StopJob   // asked for; nil: not
	result   *messages.JobResult // how it ends, or has ended
	end      *messages.JobResult // as this decided it, for the store; nil: it did not
	decided  time.Time           // when that was
	sealing  bool                // the store has it not, and is to
	unsealed error               // why the last try failed; nil: none has
	over     uint64              // what it is stored under is above that
	reported bool                // the Scheduler has the result, or is not to have it
	ceded    bool                // another node has it: it is forgotten once its child is gone
}

// resize keeps a size for the next incarnation if it is newer than the one known.
func (j *job) resize(size *messages.JobSize) {
	known := j.start.GetSize()
	if size.GetTerm() < known.GetTerm() || size.GetTerm() == known.GetTerm() && size.GetSeq() <= known.GetSeq() {
		return
	}
	j.restart(size, j.start.GetQueuedMs())
}

// waited takes in for how long the job waited to be owned: it was queued so long.
func (j *job) waited(d time.Duration) {
	j.restart(j.start.GetSize(), j.start.GetQueuedMs()+uint64(max(0, d.Milliseconds())))
}

func (j *job) restart(size *messages.JobSize, queuedMs uint64) {
	j.start = &messages.StartJob{JobId: j.id, Task: j.start.GetTask(), Size: size, QueuedMs: queuedMs, Key: j.start.GetKey(), AfterIncarnation: j.start.GetAfterIncarnation()}
}

// reach takes in how far the job has come. One that dies again and again, but
// each time further on, is started again each time.
func (j *job) reach(version uint64) {
	if version > j.version {
		j.version, j.respawns = version, 0
	}
}

// blocks reports whether a life of the job that is over keeps another one from
// beginning: its child is still there.
func (j *job) blocks(next *messages.StartJob) bool {
	return j != nil && j.phase == ended && j.alive && !j.lives[next.GetKey()]
}

// delay returns how long a waiting job waits.
func (j *job) delay() time.Duration { return backOff << (j.respawns - 1) }

// conclude ends a job that nobody runs: as stopped if it was to be, else as
// failed for its last crash. Its end belongs to an incarnation of its own, which
// whoever stores it claims.
func (j *job) conclude(now time.Time) {
	j.over = max(j.incarnation, j.start.GetAfterIncarnation())
	j.phase, j.decided, j.sealing, j.seen, j.told = ending, now, true, store.Sighting{}, actorkit.Sparse{}
	j.end = &messages.JobResult{
		Phase:   messages.Phase_PHASE_FAILED,
		Failure: wire.Failure(j.verdict()),
		WallS:   now.Sub(j.started).Seconds(),
		Merge:   j.start.GetTask().GetOptions().GetMerge(),
	}
	if j.stop != nil {
		j.end.Phase = messages.Phase_PHASE_STOPPED
		j.end.Failure = &messages.Failure{Op: "paramserver.stop", Text: j.stop.GetReason()}
	}
	j.result = j.end
}

// tell has a concluded job's end known, under an incarnation.
func (j *job) tell(incarnation uint64, result *messages.JobResult) {
	j.phase, j.incarnation, j.result = ended, incarnation, result
}

// tellUnsealed is tell for an end that the store does not have, and says so.
func (j *job) tellUnsealed() {
	told := proto.CloneOf(j.end)
	told.Failure.Text += fmt.Sprintf("; the store has not taken this end: %v; it is tried again", j.unsealed)
	j.tell(j.over+1, told)
}

// verdict says why the job is not started again.
func (j *job) verdict() error {
	kind := fault.KindOf(j.crash)
	if j.final || !respawnHelps(kind) {
		return fault.New("paramserver.supervise", kind, "the job cannot go on: %w", j.crash)
	}
	return fault.New("paramserver.supervise", kind, "the job died %d times, at last of: %w", j.respawns+1, j.crash)
}

// complains takes in why the job is not owned, and reports whether to say it: each
// kind at once, and then once a minute.
func (j *job) complains(now time.Time, why error) bool {
	if fault.KindOf(why) != fault.KindOf(j.obstacle) {
		j.told = actorkit.Sparse{}
	}
	j.obstacle = why
	return j.told.Due(now)
}

// complaint is what people should know of the obstacle.
func (j *job) complaint() string {
	cannot, does := "begin", "begins"
	if j.incarnation > 0 {
		cannot, does = "go on", "goes on"
	}
	return fmt.Sprintf("job %s cannot %s: %v; mend that, by making room on a disk that is full: it is tried each second, and %s then", j.id, cannot, j.obstacle, does)
}

// ref names the job's incarnation.
func (j *job) ref() *messages.JobRef { return &messages.JobRef{Id: j.id, Incarnation: j.incarnation} }

// known reports whether there is something to say about the job.
func (j *job) known() bool { return j.incarnation > 0 || j.phase == ended }

// status answers a StartJob, on a node.
func (j *job) status(node string) *messages.StartJobReply {
	reply := &messages.StartJobReply{Job: j.ref(), Phase: messages.Phase_PHASE_RUNNING, Node: node}
	if j.phase == ended {
		reply.Phase, reply.Result = j.result.GetPhase(), j.how()
	}
	return reply
}

// how is what the Scheduler is told of the end: it has no use for what was trained,
// which may be long.
func (j *job) how() *messages.JobResult {
	if len(j.result.GetEpochs()) == 0 {
		return j.result
	}
	return &messages.JobResult{Phase: j.result.GetPhase(), Failure: j.result.GetFailure()}
}
