package train

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// state is what a job knows; it decides, and touches nothing else. Invariants,
// held between messages and checked by check:
//   - every sample of the epoch is in exactly one place: still to do, in the
//     running round, or merged
//   - N is in [1, maxParallelism]
//   - the running round has no more functions open than assignments
type state struct {
	node string // where the job is
	ref  *messages.JobRef
	task *messages.TrainTask // resolved
	opts *messages.TrainOptions

	size    *messages.JobSize
	epoch   uint32 // from 1; 0 while the first model is made
	round   uint32 // the latest of the epoch, from 1
	todo    ranges // positions of the epoch that no round has taken yet
	step    *step  // functions that run; nil while nothing does
	merging *step  // the round whose answers are being merged, or the init whose answer is being adopted
	sums    *sums  // what hosts add up of that round; nil: nobody was asked
	plans   uint64 // that hosts were sent, in this incarnation
	wide    sizes  // of sums

	model      *messages.TensorRef // the reference model; nil before init
	version    uint64              // merges since init
	optimizers perFunction         // of the last accepted answer, by function
	residuals  perFunction         // what that answer lacks, where answers are encoded
	bereft     map[uint32]bool     // functions whose state went with its node
	shared     *messages.TensorRef // the merged one, with optimizer_state average
	momentum   *messages.TensorRef // of the outer optimizer; nil: none yet, or there is none

	best    *messages.Best // of what was validated so far; nil: nothing was
	early   string         // why training ends before its last epoch; "": it does not
	checked uint64         // the version that was validated last, or given up; 0: none in this incarnation

	drops drops

	restoring bool // what an earlier incarnation left is being taken up
	validate  bool // the model is to be validated next
	sizing    bool // the Scheduler is asked for the next N
	saving    bool // the result is being stored
	adopting  bool // the first model is being brought here, and given the values of another if asked for

	marked *messages.JobState // the latest point from which the job can go on; nil: its beginning

	history   history
	paces     paces                // of the last round and the last validation
	budget    int                  // failures that the job may still have
	nextCheck float64              // epochs after which the next validation is due
	events    []*messages.JobEvent // to be posted
	warned    map[string]bool      // what functions warned of
	emitted   uint64               // those that were, too
	after     uint64               // incarnations up to this one are of earlier lives
	nodes     map[string]bool      // whose hosts may hold tensors of the job; false: not there at the last look
	before    []*messages.EventEnd // of earlier incarnations: where their events end
	standings standings            // how nodes do
	fatal     *messages.Failure    // why the job cannot go on
}

const maxParallelism = task.MaxParallelism

func newState(node string, ref *messages.JobRef, start *messages.StartJob) *state {
	s := &state{
		node:       node,
		ref:        ref,
		task:       start.GetTask(),
		opts:       start.GetTask().GetOptions(),
		size:       start.GetSize(),
		optimizers: perFunction{},
		residuals:  perFunction{},
		bereft:     map[uint32]bool{},
		paces:      paces{},
		warned:     map[string]bool{},
		standings:  standings{of: map[string]standing{}},
		nodes:      map[string]bool{},
		after:      start.GetAfterIncarnation(),
	}
	s.history.queued = time.Duration(start.GetQueuedMs()) * time.Millisecond
	s.budget = s.fullBudget()
	s.nextCheck = s.opts.GetValidateEvery()
	return s
}

// hosts returns the nodes whose hosts may hold tensors of the job, in an order: so
// that what is sent to all of them is sent alike each time a simulation is replayed.
func (s *state) hosts() []string { return slices.Sorted(maps.Keys(s.nodes)) }

// parallelism is the N of the next round, whatever the Scheduler said.
func (s *state) parallelism() uint32 { return min(max(s.size.GetParallelism(), 1), maxParallelism) }

func (s *state) fullBudget() int { return budgetBase + budgetPerFunction*int(s.parallelism()) }

// slots is how many functions may run at once.
func (s *state) slots() uint32 { return slots(s.size.GetGrants()) }

// resize takes a size unless a newer one is known.
func (s *state) resize(size *messages.JobSize) error {
	if n := size.GetParallelism(); n < 1 || n > maxParallelism {
		return fault.New("train.resize", fault.Invalid, "parallelism %d is not in [1, %d]", n, maxParallelism)
	}
	if size.GetTerm() > s.size.GetTerm() || size.GetTerm() == s.size.GetTerm() && size.GetSeq() > s.size.GetSeq() {
		s.size = size
		s.forgive()
	}
	return nil
}

// effect is what the job has to do next in the world.
type effect int

const (
	wait    effect = iota // for a message
	again                 // nothing: the state has moved, ask again
	adopt                 // bring the first model here, with the values of another one if asked for
	merge                 // merge the answers of the round in merging
	skip                  // leave the round in merging unmerged: all of it was dropped
	save                  // store the result
	restore               // take up what an earlier incarnation left
	giveUp                // end the job: fatal says why
)

// String says what the effect is, for warnings.
func (e effect) String() string {
	return [...]string{
		"waiting", "going on", "taking the first model", "merging", "skipping a round", "storing the result", "taking up the job", "ending",
	}[e]
}

// advance moves the job on as far as it can go by itself.
func (s *state) advance(now time.Time) effect {
	switch {
	case s.fatal != nil:
		return giveUp
	case s.step != nil && s.step.open > 0:
		if s.size.GetHopeless() {
			s.fatal = wire.Failure(fault.New("train.wait", fault.Unavailable, "no slot is left to run functions on: "+
				"functions that ignore the end of their context hold them all; have the function heed its context"))
			return giveUp
		}
		return wait
	case s.step != nil:
		return s.stepEnded(now)
	case s.merging != nil || s.saving || s.adopting || s.restoring:
		return wait
	case s.model == nil:
		s.beginInit(now)
	case s.epoch == 0:
		s.beginEpoch(now)
	case s.validate:
		s.beginValidation(now)
	case s.endsEarly(now):
	case s.early == "" && s.todo.total() > 0:
		s.beginRound(now)
	case s.sizing:
		return wait
	default:
		if s.history.record != nil { // else it was restored after its last epoch
			s.epochEnded(now)
		}
		if s.early != "" || s.epoch == s.task.GetEpochs() {
			s.saving = true
			return save
		}
		s.beginEpoch(now)
	}
	return again
}

func (s *state) stepEnded(now time.Time) effect {
	switch s.step.ref.GetTask() {
	case messages.Task_TASK_INIT:
		if s.initialised(); s.adopting {
			return adopt
		}
	case messages.Task_TASK_TRAIN:
		switch s.roundEnded(); {
		case s.fatal != nil:
		case len(s.merging.answers()) == 0:
			return skip
		default:
			return merge
		}
	default:
		s.validated()
		s.mark(now)
	}
	return again
}

// abandon gives up what runs, as the job ends: its positions are still to do.
func (s *state) abandon() {
	if s.step != nil && s.step.ref.GetTask() == messages.Task_TASK_TRAIN {
		for _, a := range s.step.work {
			s.todo = s.todo.union(a.ranges)
		}
	}
	s.step = nil
}

func (s *state) warn(text string) {
	s.emit(&messages.JobEvent{What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{Text: text}}})
}

// maxWarned bounds of how many things functions may warn in an incarnation: what
// comes after is for their logs.
const maxWarned = 100

// warnOnce tells what a function warned of, unless one has before.
func (s *state) warnOnce(texts []string) {
	for _, text := range texts {
		if !s.warned[text] && len(s.warned) < maxWarned {
			s.warned[text] = true
			s.warn(text)
		}
	}
}

func (s *state) emit(e *messages.JobEvent) {
	s.events = append(s.events, e)
	s.emitted++
}

// check says which invariant is broken.
func (s *state) check() error {
	if !s.todo.sound() {
		return fault.New("train.check", fault.Unknown, "positions to do overlap: %v", s.todo)
	}
	if s.epoch > 0 && s.history.record != nil && s.fatal == nil {
		seen := s.todo.total() + s.history.record.GetSamples() + s.history.record.GetDroppedSamples()
		switch {
		case s.merging != nil:
			seen += s.merging.samples()
		case s.step != nil && s.step.ref.GetTask() == messages.Task_TASK_TRAIN:
			for _, a := range s.step.work {
				seen += a.samples
			}
		}
		if seen != s.task.GetTrainSamples() {
			return fault.New("train.check", fault.Unknown, "epoch %d: %d samples are accounted for, not %d", s.epoch, seen, s.task.GetTrainSamples())
		}
	}
	if s.step != nil {
		var open int
		for function, a := range s.step.work {
			if !a.over() {
				open++
			}
			if len(a.open) > lanes || a.over() && len(a.open) > 0 {
				return fault.New("train.check", fault.Unknown, "%d attempts at function %d run, over: %t", len(a.open), function, a.over())
			}
		}
		if open != s.step.open && s.fatal == nil {
			return fault.New("train.check", fault.Unknown, "%d assignments are open, not %d", open, s.step.open)
		}
	}
	return nil
}

// samples returns how many samples the accepted answers of a step cover.
func (s *step) samples() (n uint64) {
	for _, a := range s.answers() {
		n += a.GetSamples()
	}
	return n
}
