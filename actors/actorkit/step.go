package actorkit

import (
	"cmp"

	"github.com/troupe-ml/troupe/messages"
)

// CompareSteps orders two attempts of one job by the step they belong to
// (incarnation, epoch, round, task): negative when a is earlier, 0 when it is
// the same step, positive when a is later. A job's steps only grow.
func CompareSteps(a, b *messages.AttemptRef) int {
	return cmp.Or(
		cmp.Compare(a.GetJob().GetIncarnation(), b.GetJob().GetIncarnation()),
		cmp.Compare(a.GetEpoch(), b.GetEpoch()),
		cmp.Compare(a.GetRound(), b.GetRound()),
		cmp.Compare(a.GetTask(), b.GetTask()),
	)
}

// SameAttempt reports whether two references name the same try at the same
// assignment of the same incarnation of a job.
func SameAttempt(a, b *messages.AttemptRef) bool {
	return a.GetJob().GetId() == b.GetJob().GetId() && CompareSteps(a, b) == 0 &&
		a.GetFunction() == b.GetFunction() && a.GetAttempt() == b.GetAttempt()
}
