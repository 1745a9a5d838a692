package task

import (
	"fmt"
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
	if most := patienceThatActs(t); o.GetPatience() > most {
		remedy := "give more epochs, or leave it out"
		if most > 0 {
			remedy = fmt.Sprintf("give at most %d, or more epochs", most)
		}
		if o.GetValidateEvery() > 1 {
			remedy += ", or validate more often"
		}
		return invalid("patience %d never ends a job of %d epochs before its last one, with validate-every %v: %s",
			o.GetPatience(), t.GetEpochs(), o.GetValidateEvery(), remedy)
	}
	return nil
}

// patienceThatActs is the most patience by which a job can end early: one epoch is
// the best, so many validated ones come after it, and the last of those is not the
// job's last.
func patienceThatActs(t *messages.TrainTask) uint32 {
	const rounding = 1e-9 // as validations are timed
	validated := (float64(t.GetEpochs()) - 1) / max(t.GetOptions().GetValidateEvery(), 1)
	return uint32(max(validated+rounding, 1)) - 1
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
