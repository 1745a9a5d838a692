package host

import (
	"errors"
	"fmt"
	"slices"
)

// maxWarnings bounds what one attempt warns of.
const maxWarnings = 20

// warnings are what a function warned of in one attempt, each text once.
type warnings []string

func (w *warnings) add(text string) {
	if len(*w) < maxWarnings && !slices.Contains(*w, text) {
		*w = append(*w, text)
	}
}

// Warned is something that people should know of the node, which followers of the
// jobs that have attempts there are to hear. It is of the same process, and not
// answered.
type Warned struct{ Text string }

// warned has the jobs that have attempts here tell those who follow them.
func (s *state) warned(node, text string) {
	for _, a := range s.open() {
		a.job.warnings.add(fmt.Sprintf("node %q: %s", node, text))
	}
}

// warnedError is the error of an attempt whose function has warned of something.
type warnedError struct {
	error
	warnings warnings
}

// Unwrap returns the error alone.
func (e warnedError) Unwrap() error { return e.error }

// with adds the warnings to an error, so that they come along.
func (w warnings) with(err error) error {
	if len(w) == 0 {
		return err
	}
	return warnedError{err, w}
}

// warningsOf returns what came along with an error.
func warningsOf(err error) warnings {
	e, _ := errors.AsType[warnedError](err)
	return e.warnings
}
