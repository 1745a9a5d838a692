package train

import (
	"fmt"
	"maps"
	"math"
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
	ref  *messages.JobRef
	task *messages.TrainTask // resolved
	opts *messages.TrainOptions

	size    *messages.JobSize
	epoch   uint32 // from 1; 0 while the first model is made
	round   uint32 // the latest of the epoch, from 1
	todo    ranges // positions of the epoch that no round has taken yet
	step    *step  // functions that run; nil while nothing does
	merging *step  // the round whose answers are being merged

	model      *messages.TensorRef            // the reference model; nil before init
	version    uint64                         // merges since init
	optimizers map[uint32]*messages.TensorRef // of the last accepted answer, by function
	shared     *messages.TensorRef            // the merged one, with optimizer_state average

	validate bool // the model is to be validated next
	sizing   bool // the Scheduler is asked for the next N
	saving   bool // the result is being stored
	adopting bool // the first model is being given the values of another

	history   history
	budget    int                  // failures that the job may still have
	nextCheck float64              // epochs after which the next validation is due
	events    []*messages.JobEvent // to be posted
	fatal     *messages.Failure    // why the job cannot go on
}

const maxParallelism = task.MaxParallelism

func newState(ref *messages.JobRef, start *messages.StartJob) *state {
	s := &state{
		ref:        ref,
		task:       start.GetTask(),
		opts:       start.GetTask().GetOptions(),
		size:       start.GetSize(),
		optimizers: map[uint32]*messages.TensorRef{},
	}
	s.budget = s.fullBudget()
	s.nextCheck = s.opts.GetValidateEvery()
	return s
}

// parallelism is the N of the next round, whatever the Scheduler said.
func (s *state) parallelism() uint32 { return min(max(s.size.GetParallelism(), 1), maxParallelism) }

func (s *state) fullBudget() int { return budgetBase + budgetPerFunction*int(s.parallelism()) }

// slots is how many functions may run at once.
func (s *state) slots() (n uint32) {
	for _, g := range s.size.GetGrants() {
		n += g.GetSlots()
	}
	return n
}

// resize takes a size unless a newer one is known.
func (s *state) resize(size *messages.JobSize) error {
	if n := size.GetParallelism(); n < 1 || n > maxParallelism {
		return fault.New("train.resize", fault.Invalid, "parallelism %d is not in [1, %d]", n, maxParallelism)
	}
	if size.GetTerm() > s.size.GetTerm() || size.GetTerm() == s.size.GetTerm() && size.GetSeq() > s.size.GetSeq() {
		s.size = size
	}
	return nil
}

// effect is what the job has to do next in the world.
type effect int

const (
	wait   effect = iota // for a message
	again                // nothing: the state has moved, ask again
	adopt                // give the first model the values of another one
	merge                // merge the answers of the round in merging
	save                 // store the result
	giveUp               // end the job: fatal says why
)

// String says what the effect is, for warnings.
func (e effect) String() string {
	return [...]string{"waiting", "going on", "starting from a model", "merging", "storing the result", "ending"}[e]
}

// advance moves the job on as far as it can go by itself.
func (s *state) advance(now time.Time) effect {
	switch {
	case s.fatal != nil:
		return giveUp
	case s.step != nil && s.step.open > 0:
		return wait
	case s.step != nil:
		return s.stepEnded()
	case s.merging != nil || s.saving || s.adopting:
		return wait
	case s.model == nil:
		s.beginInit(now)
	case s.epoch == 0:
		s.beginEpoch(now)
	case s.validate:
		s.beginValidation(now)
	case s.todo.total() > 0:
		s.beginRound(now)
	case s.sizing:
		return wait
	default:
		s.epochEnded(now)
		if s.epoch == s.task.GetEpochs() {
			s.saving = true
			return save
		}
		s.beginEpoch(now)
	}
	return again
}

func (s *state) stepEnded() effect {
	switch s.step.ref.GetTask() {
	case messages.Task_TASK_INIT:
		if s.initialised(); s.model != nil && s.opts.GetInit() != "" {
			s.adopting = true
			return adopt
		}
	case messages.Task_TASK_TRAIN:
		if s.roundEnded(); s.fatal == nil {
			return merge
		}
	default:
		s.validated()
	}
	return again
}

// nextRound is where a change of size takes effect.
func (s *state) nextRound() (epoch, round uint32) {
	if s.step == nil && s.merging == nil && s.todo.total() == 0 || s.epoch == 0 {
		return s.epoch + 1, 1
	}
	return s.epoch, s.round + 1
}

// beginInit opens the step that makes the first model.
func (s *state) beginInit(now time.Time) {
	s.history.start(now)
	s.step = newStep(&messages.AttemptRef{Job: s.ref, Task: messages.Task_TASK_INIT}, s.plan(messages.Task_TASK_INIT), []ranges{nil}, now)
	s.step.work[0].seed = derive(s.opts.GetSeed(), "init", 0, 0, 0)
}

// beginEpoch opens the next epoch: every sample is to do.
func (s *state) beginEpoch(now time.Time) {
	s.epoch++
	s.round = 0
	s.todo = all(s.task.GetTrainSamples())
	s.history.beginEpoch(s.epoch, now)
	s.emit(&messages.JobEvent{What: &messages.JobEvent_EpochStarted{EpochStarted: &messages.EpochStarted{
		Epoch: s.epoch, Parallelism: s.parallelism(),
	}}})
}

// beginRound cuts the next round and opens its step. The states of functions
// that a smaller N leaves without work go, lest scratch hold more than N: should
// they come back they start from none, as new ones do.
func (s *state) beginRound(now time.Time) {
	s.round++
	n, k := s.parallelism(), s.opts.GetK()
	parts, rest := cut(s.todo, uint64(n), uint64(max(k, 0)), uint64(s.task.GetBatchSize()), k < 0)
	s.todo = rest
	maps.DeleteFunc(s.optimizers, func(function uint32, _ *messages.TensorRef) bool { return function >= n })
	ref := &messages.AttemptRef{Job: s.ref, Epoch: s.epoch, Round: s.round, Task: messages.Task_TASK_TRAIN}
	s.step = newStep(ref, s.plan(ref.GetTask()), parts, now)
	for i, a := range s.step.work {
		function := uint32(i)
		a.seed = derive(s.opts.GetSeed(), drawFunction, s.epoch, s.round, function)
		a.optimizer = s.optimizerFor(function)
	}
	s.history.beginRound(n)
}

// optimizerFor returns the state that a function starts from, and notes when a
// function lacks the one it should have.
func (s *state) optimizerFor(function uint32) *messages.TensorRef {
	switch s.opts.GetOptimizerState() {
	case "reset":
		return nil
	case "average":
		return s.shared
	}
	kept, ok := s.optimizers[function]
	if !ok && len(s.optimizers) > 0 {
		s.history.freshOptimizer(function)
	}
	return kept
}

// beginValidation opens a validation of the reference model.
func (s *state) beginValidation(now time.Time) {
	s.validate = false
	ref := &messages.AttemptRef{Job: s.ref, Epoch: s.epoch, Round: s.round, Task: messages.Task_TASK_VALIDATE}
	s.step = newStep(ref, s.plan(ref.GetTask()), blocks(s.task.GetTestSamples(), uint64(s.task.GetBatchSize())), now)
}

// plan is what the invocations of the step that begins now share.
func (s *state) plan(task messages.Task) *messages.RoundPlan {
	p := &messages.RoundPlan{
		FunctionName:  s.task.GetFunctionName(),
		Dataset:       s.task.GetDatasetName(),
		DatasetDigest: s.task.GetDatasetDigest(),

		FunctionVersion: s.task.GetFunctionVersion(),
		Env:             s.opts.GetEnv(),

		Parallelism:  s.parallelism(),
		K:            s.opts.GetK(),
		BatchSize:    s.task.GetBatchSize(),
		Lr:           s.rate(),
		Model:        s.model,
		ModelVersion: s.version,
		Args:         s.opts.GetArgs(),
		TimeoutMs:    s.opts.GetFunctionTimeoutMs(),
		OrderSize:    s.task.GetTrainSamples(),
	}
	switch task {
	case messages.Task_TASK_TRAIN:
		p.Shuffle = s.opts.GetShuffle()
		p.OrderSeed = derive(s.opts.GetSeed(), drawOrder, s.epoch, 0, 0)
		p.Chaos = s.opts.GetChaos()
		p.WantOptimizer = s.opts.GetOptimizerState() != "reset"
	case messages.Task_TASK_VALIDATE:
		p.OrderSize = s.task.GetTestSamples()
	}
	return p
}

// rate is the learning rate of the round that begins.
func (s *state) rate() float64 {
	if s.epoch == 0 {
		return s.task.GetLr()
	}
	return rate(s.task.GetLr(), s.opts.GetLrScale(), s.parallelism(), s.opts.GetWarmup(), s.epochsDone())
}

// epochsDone is how many epochs are trained once the running round is.
func (s *state) epochsDone() float64 {
	return float64(s.epoch) - float64(s.todo.total())/float64(s.task.GetTrainSamples())
}

// finish takes the answer of an open attempt and reports whether it counts. The
// error, Rejected, says why an open attempt's answer may not: it is that
// attempt's failure.
func (s *state) finish(answer *messages.Invoked) (accepted bool, err error) {
	a, ok := s.step.find(answer.GetAttempt())
	if !ok {
		return false, nil // late, repeated or forged
	}
	if err := s.acceptable(a, answer); err != nil {
		return false, err
	}
	s.history.ran(ranFor(answer))
	s.step.end(a)
	s.step.open--
	a.answer = answer
	s.budget = min(s.budget+1, s.fullBudget())
	return true, nil
}

// ranFor returns for how long an answer's function ran.
func ranFor(answer *messages.Invoked) time.Duration {
	return time.Duration(answer.GetDurationUs()) * time.Microsecond
}

// acceptable says why an answer may not count. Hosts have looked at the
// weights; these are the promises that need no look at them.
func (s *state) acceptable(a *assignment, answer *messages.Invoked) error {
	task := s.step.ref.GetTask()
	switch {
	case task != messages.Task_TASK_VALIDATE && answer.GetModel() == nil:
		return fault.New("train.accept", fault.Rejected, "the answer has no model")
	case task != messages.Task_TASK_INIT && answer.GetSamples() != a.samples:
		return fault.New("train.accept", fault.Rejected, "the answer counts %d samples of an assignment of %d", answer.GetSamples(), a.samples)
	case math.IsNaN(answer.GetLoss()) || math.IsInf(answer.GetLoss(), 0):
		return fault.New("train.accept", fault.Rejected, "the loss is %v", answer.GetLoss())
	}
	return nil
}

// fail notes that an open attempt failed after it ran for a while, and decides
// what comes of it. It reports whether it was an open attempt.
func (s *state) fail(attempt *messages.AttemptRef, failure *messages.Failure, ran time.Duration) (verdict, bool) {
	a, ok := s.step.find(attempt)
	if !ok {
		return verdict{}, false
	}
	s.step.end(a)
	s.history.ran(ran)
	a.failures = append(a.failures, failure)
	if failure.GetKind() == messages.FailureKind_FAILURE_KIND_REJECTED {
		s.history.rejected()
	}
	v := judge(a.failures, s.opts.GetRetries(), derive(s.opts.GetSeed(), drawJitter, attempt.GetEpoch(), attempt.GetRound(), attempt.GetFunction()))
	if !failure.GetChaos() {
		if s.budget--; s.budget < 0 && v.fatal == nil {
			v.fatal = wire.Failure(fault.New("train.fail", fault.Unavailable,
				"functions fail more often than they succeed; the last: %s", failure.GetText()))
		}
	}
	switch {
	case v.fatal != nil:
		s.fatal = s.explain(a, attempt, v.fatal)
	case v.lost:
		a.givenUp = true
		s.step.open--
		s.history.lost()
	default:
		s.history.retried()
	}
	s.emit(&messages.JobEvent{What: &messages.JobEvent_FunctionFailed{FunctionFailed: &messages.FunctionFailed{
		Attempt: attempt, Failure: failure, GivenUp: v.lost, RetryMs: uint64(v.after.Milliseconds()),
	}}})
	return v, true
}

// explain makes of the failure that ends the job what a person can act on.
func (s *state) explain(a *assignment, attempt *messages.AttemptRef, failure *messages.Failure) *messages.Failure {
	out := &messages.Failure{Kind: failure.GetKind(), Op: failure.GetOp(), Trace: failure.GetTrace()}
	where := fmt.Sprintf("epoch %d, round %d, function %d", attempt.GetEpoch(), attempt.GetRound(), attempt.GetFunction())
	switch failure.GetKind() {
	case messages.FailureKind_FAILURE_KIND_REJECTED:
		var positions string
		for _, r := range a.ranges {
			positions += fmt.Sprintf(" [%d,%d)", r.lo, r.hi)
		}
		out.Text = fmt.Sprintf("diverged: %s, %s, positions%s, lr %v; lower --lr, or look at the data at these positions",
			failure.GetText(), where, positions, s.task.GetLr())
	case messages.FailureKind_FAILURE_KIND_USER_CODE:
		out.Text = fmt.Sprintf("the function raised the same error twice (%s): %s", where, failure.GetText())
	default:
		out.Text = failure.GetText()
	}
	return out
}

// retryDue lets an assignment run again if it still waits for that.
func (s *state) retryDue(step *step, function uint32, attempt uint32) {
	if step != s.step {
		return
	}
	if a := step.work[function]; a.attempt == attempt && !a.running && !a.over() {
		step.again(function)
	}
}

// roundEnded takes the round that has ended off the stage: what was given up
// goes back into the epoch. It fails the job when too few functions answered.
func (s *state) roundEnded() {
	s.merging, s.step = s.step, nil
	s.todo = s.todo.union(s.merging.unfinished())
	answers := len(s.merging.answers())
	if need := min(int(s.opts.GetMinFunctions()), len(s.merging.work)); answers < need {
		s.fatal = wire.Failure(fault.New("train.round", fault.Unavailable,
			"epoch %d, round %d: %d of %d functions answered, %d are needed; the last failure: %s",
			s.epoch, s.round, answers, len(s.merging.work), need, lastFailure(s.merging)))
	}
}

func lastFailure(st *step) string {
	for i := len(st.work) - 1; i >= 0; i-- {
		if f := st.work[i].failures; st.work[i].givenUp && len(f) > 0 {
			return f[len(f)-1].GetText()
		}
	}
	return "none"
}

// merged takes the new reference model.
func (s *state) merged(m *merged, now time.Time) {
	s.model, s.version = m.model, s.version+1
	if m.optimizer != nil {
		s.shared = m.optimizer
	}
	answers := s.merging.answers()
	for _, a := range answers {
		if s.opts.GetOptimizerState() == "keep" && a.GetOptimizer() != nil {
			s.optimizers[a.GetAttempt().GetFunction()] = a.GetOptimizer()
		}
	}
	round := s.history.merged(answers, now)
	s.emit(&messages.JobEvent{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{
		Epoch: s.epoch, Round: s.round, Parallelism: s.merging.plan.GetParallelism(), Answers: uint32(len(answers)),
		Samples: round.samples, EpochSamples: s.history.record.GetSamples(), Loss: round.loss, ModelVersion: s.version,
		DurationUs: uint64(now.Sub(s.merging.started).Microseconds()), MergeUs: uint64(m.took.Microseconds()),
	}}})
	s.merging = nil
	s.validate = s.validationDue()
	s.sizing = s.todo.total() == 0 && !s.opts.GetStaticParallelism() && s.epoch < s.task.GetEpochs()
}

// validationDue reports whether the model is to be validated now, after a
// merge, and if so plans the next one.
func (s *state) validationDue() bool {
	if s.task.GetTestSamples() == 0 {
		return false
	}
	epochEnded := s.todo.total() == 0
	if epochEnded && s.epoch == s.task.GetEpochs() {
		return true // the result's numbers
	}
	every := s.opts.GetValidateEvery()
	if every < 0 {
		return false
	}
	done := s.epochsDone()
	const rounding = 1e-9
	if done+rounding < s.nextCheck {
		return false
	}
	for s.nextCheck <= done+rounding {
		s.nextCheck += every
	}
	return true
}

// validated takes what the validation measured.
func (s *state) validated() {
	ended := s.step
	s.step = nil
	for _, a := range ended.work {
		if a.givenUp {
			s.history.unmeasured()
			s.warn(fmt.Sprintf("epoch %d was not validated: %s", s.epoch, lastFailure(ended)))
			return
		}
	}
	s.history.measured(ended.answers(), s.task.GetTestSamples())
}

// epochEnded closes the epoch's record.
func (s *state) epochEnded(now time.Time) {
	record := s.history.endEpoch(now)
	s.emit(&messages.JobEvent{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: record}}})
}

// initialised takes the first model.
func (s *state) initialised() {
	answers := s.step.answers()
	if len(answers) == 0 {
		s.fatal = wire.Failure(fault.New("train.init", fault.Unavailable, "no first model: %s", lastFailure(s.step)))
	} else {
		s.model = answers[0].GetModel()
	}
	s.step = nil
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

// keep names the tensors of hosts that the job still needs.
func (s *state) keep() []string {
	var keys []string
	if s.version == 0 && s.model != nil {
		keys = append(keys, s.model.GetKey())
	}
	for _, ref := range s.optimizers {
		keys = append(keys, ref.GetKey())
	}
	return keys
}

func (s *state) warn(text string) {
	s.emit(&messages.JobEvent{What: &messages.JobEvent_Warned{Warned: &messages.JobWarned{Text: text}}})
}

func (s *state) emit(e *messages.JobEvent) { s.events = append(s.events, e) }

// check says which invariant is broken.
func (s *state) check() error {
	if !s.todo.sound() {
		return fault.New("train.check", fault.Unknown, "positions to do overlap: %v", s.todo)
	}
	if s.epoch > 0 && s.history.record != nil && s.fatal == nil {
		seen := s.todo.total() + s.history.record.GetSamples()
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
		for _, a := range s.step.work {
			if !a.over() {
				open++
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
