// Package board is how the jobs of a node look to people: it adds up their
// events to one messages.JobView each, and keeps the latest events of all jobs
// in the order in which they came, for those who follow them all.
//
// It is no actor: the Journal tells it what it shows to watchers, in order and
// each event once, and whoever asks is answered at once.
package board

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/messages"
)

const (
	endedKept    = 1000   // views of jobs that have ended
	eventsKept   = 10_000 // of all jobs together
	warningsKept = 100    // of a job
)

// freeSlot is what a job waits for as a rule.
const freeSlot = "a free slot"

// Board is safe for concurrent use.
type Board struct {
	now func() time.Time

	mu      sync.Mutex // guards the rest
	jobs    map[string]*job
	ended   []string // ids, oldest first
	events  []*messages.JobEvent
	dropped uint64        // events that came before those
	changed chan struct{} // closed at the next event
}

// New returns an empty board; now dates what is not dated by an event.
func New(now func() time.Time) *Board {
	return &Board{now: now, jobs: map[string]*job{}, changed: make(chan struct{})}
}

// Submitted puts a job on the board that waits for a slot since then. Of the view
// counts what is no news: id, origin, task, when it was submitted, which life this
// is, and of earlier ones epochs and times.
func (b *Board) Submitted(v *messages.JobView, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := v.GetId()
	if j := b.jobs[id]; j != nil && !j.over() {
		return
	}
	b.ended = slices.DeleteFunc(b.ended, func(other string) bool { return other == id })
	b.jobs[id] = newJob(v, since)
}

// Waits says what a job waits for that is queued; "": a slot.
func (b *Board) Waits(id, what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[id]; j != nil && j.view.GetPhase() == messages.Phase_PHASE_QUEUED {
		j.view.WaitingFor = cmp.Or(what, slotFor(j.view.GetTask()))
	}
}

// Drop takes a job off the board, as when it could not be queued after all.
func (b *Board) Drop(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.jobs, id)
	b.ended = slices.DeleteFunc(b.ended, func(other string) bool { return other == id })
}

// Add takes in events. They are kept, and must not change any more.
func (b *Board) Add(events []*messages.JobEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range events {
		if e.GetWhat() == nil {
			continue // stands for one that is gone
		}
		b.add(e)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *Board) add(e *messages.JobEvent) {
	id := e.GetJob().GetId()
	j := b.jobs[id]
	if j == nil { // of a company without Submitted
		j = newJob(&messages.JobView{Id: id, SubmittedMs: e.GetTimeMs()}, time.UnixMilli(e.GetTimeMs()))
		b.jobs[id] = j
	}
	j.add(e)
	if e.GetTakenOver() != nil { // it is another process's
		delete(b.jobs, id)
	}
	if e.GetEnded() != nil && !slices.Contains(b.ended, id) {
		b.ended = append(b.ended, id)
		for len(b.ended) > endedKept {
			delete(b.jobs, b.ended[0])
			b.ended = b.ended[1:]
		}
	}
	b.events = append(b.events, e)
	if len(b.events) > 2*eventsKept { // now and then, not each time
		gone := len(b.events) - eventsKept
		b.events, b.dropped = slices.Clone(b.events[gone:]), b.dropped+uint64(gone)
	}
}

// Job returns a job, which the caller may change.
func (b *Board) Job(id string) (*messages.JobView, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[id]
	if j == nil {
		return nil, false
	}
	return j.look(b.now()), true
}

// Latest says which event of a job came last; zeros: none.
func (b *Board) Latest(id string) (incarnation, seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j := b.jobs[id]
	if j == nil || j.last == nil {
		return 0, 0
	}
	return j.last.GetJob().GetIncarnation(), j.last.GetSeq()
}

// Running returns the jobs that have not ended, oldest first.
func (b *Board) Running() []*messages.JobView {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*messages.JobView
	for _, j := range b.jobs {
		if !j.over() {
			out = append(out, j.look(b.now()))
		}
	}
	slices.SortFunc(out, func(a, b *messages.JobView) int {
		return cmp.Or(cmp.Compare(a.GetSubmittedMs(), b.GetSubmittedMs()), cmp.Compare(a.GetId(), b.GetId()))
	})
	return out
}

// Cursor names an event, and the place behind it.
func Cursor(e *messages.JobEvent) string {
	return fmt.Sprintf("%s:%d:%d", e.GetJob().GetId(), e.GetJob().GetIncarnation(), e.GetSeq())
}

// Place is a place between two events of all jobs, as a reader of them has one.
type Place uint64

// End is the place behind all events.
func (b *Board) End() Place {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Place(b.dropped + uint64(len(b.events)))
}

// Find returns the place behind the event that a cursor names; false where it
// is gone, or never was.
func (b *Board) Find(cursor string) (Place, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range slices.Backward(b.events) {
		if Cursor(e) == cursor {
			return Place(b.dropped + uint64(i) + 1), true
		}
	}
	return 0, false
}

// After returns the events behind a place, the place behind those, and a channel
// that is closed once there are more. Lost reports that some are gone.
func (b *Board) After(at Place) (events []*messages.JobEvent, next Place, more <-chan struct{}, lost bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := uint64(at)
	if from < b.dropped {
		from, lost = b.dropped, true
	}
	events = slices.Clone(b.events[from-b.dropped:])
	return events, Place(b.dropped + uint64(len(b.events))), b.changed, lost
}

// job is a view under way.
type job struct {
	view    *messages.JobView // its times are those of earlier lives, or once it has ended of all
	queued  time.Time         // this life begins
	started time.Time         // the first model begins
	running time.Time         // the first epoch begins
	ended   time.Time
	last    *messages.JobEvent // nil: none
	rate    rate
}

func newJob(v *messages.JobView, since time.Time) *job {
	return &job{queued: since, view: &messages.JobView{
		Id: v.GetId(), Origin: v.GetOrigin(), Task: v.GetTask(), Life: v.GetLife(), Node: v.GetNode(), Phase: messages.Phase_PHASE_QUEUED, SubmittedMs: v.GetSubmittedMs(),
		WaitingFor: slotFor(v.GetTask()), Epochs: slices.Clone(v.GetEpochs()), QueuedS: v.QueuedS, StartingS: v.StartingS, RunningS: v.RunningS,
	}}
}

// slotFor says which slot a job waits for.
func slotFor(task *messages.TrainTask) string {
	labels := task.GetOptions().GetRequireLabels()
	if len(labels) == 0 {
		return freeSlot
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, name+"="+labels[name])
	}
	return freeSlot + " on a node with " + strings.Join(pairs, ", ")
}

func (j *job) over() bool { return j.view.GetResult() != nil }

// look returns the view as it is now, a copy.
func (j *job) look(now time.Time) *messages.JobView {
	v := proto.CloneOf(j.view)
	v.SamplesPerS = j.rate.perSecond()
	if left := j.left(); left >= 0 && v.SamplesPerS > 0 && !j.over() {
		v.EtaS = proto.Float64(left / v.SamplesPerS)
	}
	if j.over() && j.view.GetResult().QueuedS != nil { // which says them all
		return v
	}
	if !j.ended.IsZero() {
		now = j.ended
	}
	until := func(t time.Time) time.Time {
		if t.IsZero() || t.After(now) {
			return now
		}
		return t
	}
	var starting, running time.Duration
	if !j.started.IsZero() {
		starting = until(j.running).Sub(j.started)
	}
	if !j.running.IsZero() {
		running = now.Sub(j.running)
	}
	v.QueuedS = more(v.QueuedS, until(j.started).Sub(j.queued))
	v.StartingS, v.RunningS = more(v.StartingS, starting), more(v.RunningS, running)
	return v
}

func more(s *float64, d time.Duration) *float64 {
	sum := max(0, d.Seconds())
	if s != nil {
		sum += *s
	}
	return &sum
}
