package task

import (
	"slices"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// The bounds of what ends a job early.
const (
	MinMaxTime = time.Millisecond
	MaxMaxTime = 3650 * 24 * time.Hour
)

// Keeps lists what options.keep may be.
func Keeps() []string { return []string{"last", "best"} }

func checkEnds(t *messages.TrainTask) error {
	o := t.GetOptions()
	switch limit := o.GetMaxTimeMs(); {
	case !finite(o.GetGoalAccuracy()) || o.GetGoalAccuracy() < 0 || o.GetGoalAccuracy() > 100:
		return invalid("goal-accuracy %v: give a percentage above 0, at most 100", o.GetGoalAccuracy())
	case o.GetPatience() > MaxEpochs:
		return invalid("patience %d: give 1 to %d epochs", o.GetPatience(), MaxEpochs)
	case limit > uint64(MaxMaxTime/time.Millisecond):
		return invalid("max-time %d ms: give %v to %v", limit, MinMaxTime, MaxMaxTime)
	case !slices.Contains(Keeps(), o.GetKeep()):
		return invalid("keep %q: give one of %s", o.GetKeep(), strings.Join(Keeps(), ", "))
	}
	if flag := needsValidation(o); flag != "" && o.GetValidateEvery() == -1 {
		return invalid("%s needs validations on the way, and validate-every -1 has one at the end only: give a number of epochs there", flag)
	}
	return nil
}

// CheckData returns an Invalid error if the data set, which the task's fields
// describe by now, cannot do what its options ask for.
func CheckData(t *messages.TrainTask) error {
	if flag := needsValidation(t.GetOptions()); flag != "" && t.GetTestSamples() == 0 {
		return invalid("%s needs validations, and data set %q has no test samples: give it some, or leave the flag out", flag, t.GetDataset())
	}
	return nil
}

// needsValidation names the first option that is nothing without validations,
// as its flag is given; "" for none.
func needsValidation(o *messages.TrainOptions) string {
	switch {
	case o.GetGoalAccuracy() > 0:
		return "goal-accuracy"
	case o.GetPatience() > 0:
		return "patience"
	case o.GetKeep() == "best":
		return "keep best"
	}
	return ""
}
