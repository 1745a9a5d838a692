package train

import (
	"fmt"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// measured takes in what a validation has found of the reference model.
func (s *state) measured() {
	r := s.history.record
	if s.best == nil && r.Accuracy == nil && s.opts.GetGoalAccuracy() > 0 {
		s.warn(fmt.Sprintf("the goal of %v %% accuracy cannot be reached: the function measures none", s.opts.GetGoalAccuracy()))
	}
	if s.best != nil && !isBetter(r, s.best) {
		return
	}
	s.best = &messages.Best{Epoch: s.epoch, Accuracy: r.Accuracy, Loss: r.GetValidationLoss(), ModelVersion: s.version}
	if s.keepsBest() {
		s.best.Model = s.model
	}
}

func (s *state) keepsBest() bool { return s.opts.GetKeep() == "best" }

// isBetter compares by accuracy where both have one, else by loss. Of equals
// the earlier is the best.
func isBetter(r *messages.EpochRecord, than *messages.Best) bool {
	if r.Accuracy != nil && than.Accuracy != nil {
		return r.GetAccuracy() > than.GetAccuracy()
	}
	return r.GetValidationLoss() < than.GetLoss()
}

// endsEarly decides, between two rounds, whether training ends though there is
// more to do. Once it has decided, for whatever incarnation, that stays so.
// The model that training ends with is validated unless it has been.
//
// An epoch that has begun trains one round at least, so none of the history is
// empty.
func (s *state) endsEarly(now time.Time) bool {
	finished := s.epoch == s.task.GetEpochs() && s.todo.total() == 0
	if s.early != "" || finished || s.version == 0 || s.history.record.GetRounds() == 0 {
		return false
	}
	if s.early = s.whyEnd(now); s.early == "" {
		return false
	}
	s.sizing = false
	s.validate = s.checked != s.version && s.task.GetTestSamples() > 0
	s.emit(&messages.JobEvent{What: &messages.JobEvent_TrainingEnded{TrainingEnded: &messages.TrainingEnded{Reason: s.early}}})
	s.mark(now)
	return true
}

// whyEnd returns why the round that has ended is the last, "" if it is not.
func (s *state) whyEnd(now time.Time) string {
	goal, patience, limit := s.opts.GetGoalAccuracy(), s.opts.GetPatience(), time.Duration(s.opts.GetMaxTimeMs())*time.Millisecond
	if goal > 0 && s.best != nil && s.best.Accuracy != nil && s.best.GetAccuracy() >= goal {
		return fmt.Sprintf("epoch %d has reached %.2f %% accuracy, the goal is %v %%", s.best.GetEpoch(), s.best.GetAccuracy(), goal)
	}
	if n := s.epochsSinceBest(); patience > 0 && s.todo.total() == 0 && n >= patience {
		return fmt.Sprintf("no epoch was better than epoch %d (%s), the last %d", s.best.GetEpoch(), worth(s.best), n)
	}
	if ran := now.Sub(s.history.started); limit > 0 && ran >= limit {
		return fmt.Sprintf("the job has run for %v, it may for %v", ran.Round(time.Millisecond), limit)
	}
	return ""
}

// epochsSinceBest counts the epochs after the best one that were validated.
func (s *state) epochsSinceBest() (n uint32) {
	if s.best == nil {
		return 0
	}
	for _, r := range append(s.history.epochs[:len(s.history.epochs):len(s.history.epochs)], s.history.record) {
		if r.GetEpoch() > s.best.GetEpoch() && r.ValidationLoss != nil {
			n++
		}
	}
	return n
}

func worth(b *messages.Best) string {
	if b.Accuracy != nil {
		return fmt.Sprintf("%.2f %% accuracy", b.GetAccuracy())
	}
	return fmt.Sprintf("validation loss %.4g", b.GetLoss())
}

// resultModel returns the model that becomes the result.
func (s *state) resultModel() *messages.TensorRef {
	if s.keepsBest() && s.best != nil {
		return s.best.GetModel()
	}
	return s.model
}

// choose completes the result of a job that has SUCCEEDED: whose model it is,
// and what that is worth.
func (s *state) choose(r *messages.JobResult) {
	r.EndedEarly = s.early
	r.ModelEpoch = s.epoch
	if s.keepsBest() && s.best != nil {
		r.ModelEpoch, r.Accuracy, r.ValidationLoss = s.best.GetEpoch(), s.best.Accuracy, &s.best.Loss
	}
}
