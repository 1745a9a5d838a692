package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// phase is how far the Scheduler has got with a job. A job that runs starts again
// with each home.
type phase uint8

const (
	queued   phase = iota // waits for a slot
	starting              // StartJob is not yet answered by its home
	running
)

// job is what the Scheduler knows of a job that has not ended.
type job struct {
	id, key    string
	earlier    []string            // keys of lives that are over, oldest first
	task       *messages.TrainTask // resolved; shared with messages, never changed
	submission uint64              // orders jobs of one priority
	submitted  time.Time
	warnings   []string // of its submission
	warned     bool     // that its N exceeds the slots

	phase       phase
	incarnation uint64 // the highest heard of; 0 before the first
	after       uint64 // incarnations up to this one were over when the job was submitted
	queuedFor   time.Duration
	polled      time.Time         // when StartJob was last sent
	home        string            // node whose ParameterServer is to run it; "" while queued
	homes       []string          // that it had before, each once
	stranger    time.Time         // since when its owner is no node of the cluster; zero: it is one, or none is known
	stop        *messages.StopJob // asked for, not yet obeyed; nil: none

	n        uint32            // N; 0 while queued
	wanted   uint32            // N without regard to losses and to what is free, in [min, cap]
	loss     *loss             // not yet made good; nil: none
	grants   map[string]uint32 // slots by node, each at least 1
	hopeless bool              // no slot will come: see barren
	seq      uint64            // of the size
	acked    uint64            // the newest seq that the job is known to know

	past      []Measurement                     // comparable epochs, oldest first, at most maxPast
	disturbed bool                              // slots were gained within the epoch that runs
	answered  *messages.RequestParallelismReply // the last one; nil: none
	clamped   bool                              // one warning about the policy has been given
}

// loss is what a job had before it lost slots.
type loss struct {
	n     uint32
	slots uint32
}

// maxPast bounds what is kept of a job's past. A policy that sees it cut sees a
// job that began maxPast epochs ago.
const maxPast = 4096

// order sorts jobs: higher priority first, then earlier submission.
func order(a, b *job) int {
	return cmp.Or(
		cmp.Compare(b.task.GetOptions().GetPriority(), a.task.GetOptions().GetPriority()),
		cmp.Compare(a.submission, b.submission),
	)
}

// insert adds a job to a sorted list.
func insert(jobs []*job, j *job) []*job {
	i, _ := slices.BinarySearchFunc(jobs, j, order)
	return slices.Insert(jobs, i, j)
}

// remove takes a job out of a sorted list, should it be there.
func remove(jobs []*job, j *job) []*job {
	if i, found := slices.BinarySearchFunc(jobs, j, order); found {
		return slices.Delete(jobs, i, i+1)
	}
	return jobs
}

// ref names the job's incarnation as far as it is known.
func (j *job) ref() *messages.JobRef {
	return &messages.JobRef{Id: j.id, Incarnation: j.incarnation}
}

// means reports whether a command is about this life of the job: it may come
// late, and have been sent to an earlier one.
func (j *job) means(key string) bool { return key == "" || key == j.key }

func (j *job) resumed(op string) error {
	return fault.New(op, fault.Conflict, "job %s was resumed meanwhile: look at it, and ask again", j.id)
}

// slots returns how many slots are granted to the job.
func (j *job) slots() uint32 {
	total := uint32(0)
	for _, n := range j.grants {
		total += n
	}
	return total
}

// size returns the job's size as a message.
func (j *job) size(term uint64, nodes outlook) *messages.JobSize {
	size := &messages.JobSize{Term: term, Seq: j.seq, Parallelism: j.n, Hopeless: j.hopeless, Gone: nodes.gone, Leaving: nodes.leaving}
	for _, node := range slices.Sorted(maps.Keys(j.grants)) {
		size.Grants = append(size.Grants, &messages.SlotGrant{Node: node, Slots: j.grants[node]})
	}
	return size
}

// give adds slots to the job's grants.
func (j *job) give(grants map[string]uint32) {
	for node, n := range grants {
		j.grants[node] += n
	}
}

// take takes n of the job's slots on a node away, or all it has there.
func (j *job) take(node string, n uint32) {
	if j.grants[node] <= n {
		delete(j.grants, node)
		return
	}
	j.grants[node] -= n
}

// release takes slots away until the job has n, those of the node where it has
// the fewest first, so that it ends up on few nodes.
func (j *job) release(n uint32) {
	for total := j.slots(); total > n; total = j.slots() {
		node := slices.MinFunc(slices.Collect(maps.Keys(j.grants)), func(a, b string) int {
			return cmp.Or(cmp.Compare(j.grants[a], j.grants[b]), cmp.Compare(a, b))
		})
		j.take(node, total-n)
	}
}
