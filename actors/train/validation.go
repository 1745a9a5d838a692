package train

import (
	"fmt"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

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

// beginValidation opens a validation of the reference model.
func (s *state) beginValidation(now time.Time) {
	s.validate = false
	ref := &messages.AttemptRef{Job: s.ref, Epoch: s.epoch, Round: s.round, Task: messages.Task_TASK_VALIDATE}
	s.step = newStep(ref, s.plan(ref.GetTask()), blocks(s.task.GetTestSamples(), uint64(s.task.GetBatchSize())), now)
}

// validated takes what the validation measured.
func (s *state) validated() {
	ended := s.step
	s.step = nil
	s.checked = s.version
	for _, a := range ended.work {
		if a.givenUp {
			s.history.notValidated()
			s.warn(fmt.Sprintf("epoch %d was not validated: %s", s.epoch, lastFailure(ended)))
			return
		}
	}
	s.history.measured(ended.answers(), s.task.GetTestSamples())
	s.measured()
}
