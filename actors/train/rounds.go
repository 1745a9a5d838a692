package train

import (
	"cmp"
	"maps"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// beginInit opens the step that makes the first model.
func (s *state) beginInit(now time.Time) {
	s.history.start(now)
	s.step = newStep(&messages.AttemptRef{Job: s.ref, Task: messages.Task_TASK_INIT}, s.plan(messages.Task_TASK_INIT), []ranges{nil}, now)
	s.step.work[0].seed = derive(s.opts.GetSeed(), "init", 0, 0, 0)
}

// initialised takes the first model.
func (s *state) initialised() {
	answers := s.step.answers()
	if len(answers) == 0 {
		s.fatal = wire.Failure(fault.New("train.init", fault.Unavailable, "no first model: %s", lastFailure(s.step)))
		s.step = nil
		return
	}
	s.model = answers[0].GetModel()
	if s.adopting = s.opts.GetInit() != "" || s.model.GetNode() != s.node; s.adopting {
		s.merging = s.step // which has the model until the job has one of its own
	}
	s.step = nil
}

// adopted takes the first model as the job has it here.
func (s *state) adopted(model *messages.TensorRef) {
	s.model, s.adopting, s.merging = model, false, nil
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
	s.mark(now)
}

// beginRound cuts the next round and opens its step. The states of functions
// that a smaller N leaves without work go, lest scratch hold more than N: should
// they come back they start from none, as new ones do.
func (s *state) beginRound(now time.Time) {
	s.round++
	n, k := s.parallelism(), s.opts.GetK()
	parts, rest := cut(s.todo, uint64(n), uint64(max(k, 0)), uint64(s.task.GetBatchSize()), k < 0)
	s.todo = rest
	s.optimizers.leave(n)
	s.residuals.leave(n)
	maps.DeleteFunc(s.bereft, func(function uint32, _ bool) bool { return function >= n })
	ref := &messages.AttemptRef{Job: s.ref, Epoch: s.epoch, Round: s.round, Task: messages.Task_TASK_TRAIN}
	s.step = newStep(ref, s.plan(ref.GetTask()), parts, now)
	for i, a := range s.step.work {
		function := uint32(i)
		a.seed = derive(s.opts.GetSeed(), drawFunction, s.epoch, s.round, function)
		a.optimizer, a.residual = s.optimizerFor(function), s.kept(s.residuals, function)
		delete(s.bereft, function)
		s.step.stay(function, cmp.Or(s.optimizers[function].GetNode(), s.residuals[function].GetNode()))
	}
	s.step.settle(s.within(now))
	s.history.beginRound(n)
}

// optimizerFor returns the state that a function starts from.
func (s *state) optimizerFor(function uint32) *messages.TensorRef {
	switch s.opts.GetOptimizerState() {
	case "reset":
		return nil
	case "average":
		return s.shared
	}
	return s.kept(s.optimizers, function)
}

// kept returns what there is of a function's last answer, and notes when there is
// none that there should be.
func (s *state) kept(of perFunction, function uint32) *messages.TensorRef {
	ref, ok := of[function]
	if !ok && (len(of) > 0 || s.bereft[function]) {
		s.history.freshOptimizer(function)
	}
	return ref
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
		p.Compress = s.opts.GetCompress()
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

// nextRound is where a change of size takes effect.
func (s *state) nextRound() (epoch, round uint32) {
	if s.step == nil && s.merging == nil && s.todo.total() == 0 || s.epoch == 0 {
		return s.epoch + 1, 1
	}
	return s.epoch, s.round + 1
}

// roundEnded takes the round that has ended off the stage: what was given up
// goes back into the epoch. It fails the job when too few functions answered
// of those that were not dropped, or when nothing of the epoch is left to train.
func (s *state) roundEnded() {
	s.merging, s.step = s.step, nil
	s.merging.rest = s.todo
	s.todo = s.todo.union(s.merging.unfinished())
	answers := len(s.merging.answers())
	dropped, samples := s.merging.dropped()
	s.history.dropped(samples)
	if need := min(int(s.opts.GetMinFunctions()), len(s.merging.work)-dropped); answers < need {
		s.fatal = wire.Failure(fault.New("train.round", fault.Unavailable,
			"epoch %d, round %d: %d of %d functions answered, at least %d must (see --retries, --min-functions); the last failure: %s",
			s.epoch, s.round, answers, len(s.merging.work), need, lastFailure(s.merging)))
	}
	if s.history.record.GetDroppedSamples() == s.task.GetTrainSamples() {
		s.fatal = wire.Failure(fault.New("train.round", fault.Rejected,
			"epoch %d: all %d samples were dropped, so there is nothing to train on; look at the data and the function, or lower --lr; the last failure: %s",
			s.epoch, s.task.GetTrainSamples(), lastFailure(s.merging)))
	}
}

// skipped closes a round of which nothing is left to merge: the model stays.
func (s *state) skipped(now time.Time) {
	s.history.skipped(now)
	s.settled(now)
}

// settled goes on after a round.
func (s *state) settled(now time.Time) {
	s.merging, s.sums = nil, nil
	s.validate = s.validationDue()
	s.sizing = s.wantsSize()
	s.mark(now)
}

func lastFailure(st *step) string {
	for i := len(st.work) - 1; i >= 0; i-- {
		if f := st.work[i].failures; (st.work[i].givenUp || st.work[i].dropped) && len(f) > 0 {
			return f[len(f)-1].GetText()
		}
	}
	return "none"
}

// merged takes the new reference model.
func (s *state) merged(m *merged, now time.Time) {
	s.model, s.version = m.model, s.version+1
	s.shared, s.momentum = m.optimizer, m.momentum
	answers := s.merging.answers()
	for _, a := range answers {
		if s.opts.GetOptimizerState() == "keep" && a.GetOptimizer() != nil {
			s.optimizers[a.GetAttempt().GetFunction()] = a.GetOptimizer()
		}
		if a.GetResidual() != nil {
			s.residuals[a.GetAttempt().GetFunction()] = a.GetResidual()
		}
	}
	round := s.history.merged(answers, now)
	s.emit(&messages.JobEvent{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{
		Epoch: s.epoch, Round: s.round, Parallelism: s.merging.plan.GetParallelism(), Answers: uint32(len(answers)),
		Samples: round.samples, EpochSamples: s.history.record.GetSamples(), Loss: round.loss, ModelVersion: s.version,
		DurationUs: uint64(now.Sub(s.merging.started).Microseconds()), MergeUs: uint64(m.took.Microseconds()),
		MergeBytes: bytesOf(answers),
	}}})
	s.settled(now)
}

// bytesOf returns how many bytes answers have that are merged.
func bytesOf(answers []*messages.Invoked) (n uint64) {
	for _, a := range answers {
		n += a.GetModel().GetBytes()
	}
	return n
}

// wantsSize reports whether the Scheduler is to be asked for the N of the next
// epoch.
func (s *state) wantsSize() bool {
	return s.early == "" && s.epoch > 0 && s.history.record != nil && s.todo.total() == 0 && !s.opts.GetStaticParallelism() && s.epoch < s.task.GetEpochs()
}

// epochEnded closes the epoch's record.
func (s *state) epochEnded(now time.Time) {
	record := s.history.endEpoch(now)
	s.tellDropped(record.GetEpoch(), record.GetDroppedSamples())
	s.emit(&messages.JobEvent{What: &messages.JobEvent_EpochFinished{EpochFinished: &messages.EpochFinished{Record: record}}})
	s.mark(now)
}

// keep names the tensors that hosts have and the job still needs: theirs, and
// their copies of what the next round begins with.
func (s *state) keep() []string {
	var keys []string
	for _, ref := range []*messages.TensorRef{s.model, s.shared} {
		if ref != nil {
			keys = append(keys, ref.GetKey())
		}
	}
	for _, refs := range []perFunction{s.optimizers, s.residuals} {
		for _, ref := range refs {
			keys = append(keys, ref.GetKey())
		}
	}
	return keys
}
