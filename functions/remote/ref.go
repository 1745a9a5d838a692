package remote

import (
	"fmt"

	"github.com/troupe-ml/troupe/functions"
)

// Ref names one attempt at one assignment. Numbers are those of
// functions.Invocation: rounds and attempts count from 0, epochs from 1 (0 for
// an init).
type Ref struct {
	Job         string
	Incarnation uint64
	Task        functions.Task
	Epoch       int
	Round       int
	Function    int
	Attempt     int
}

// RefOf returns the name of the attempt that an invocation is.
func RefOf(inv functions.Invocation) Ref {
	return Ref{
		Job: inv.JobID, Incarnation: inv.Incarnation, Task: inv.Task,
		Epoch: inv.Epoch, Round: inv.Round, Function: inv.Index, Attempt: inv.Attempt,
	}
}

// String names the attempt for people.
func (r Ref) String() string {
	return fmt.Sprintf("attempt %d at %s of function %d, epoch %d, round %d, incarnation %d of job %s",
		r.Attempt, r.Task, r.Function, r.Epoch, r.Round, r.Incarnation, r.Job)
}
