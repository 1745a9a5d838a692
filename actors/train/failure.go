package train

import (
	"math/rand/v2"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

const (
	retryBase = 100 * time.Millisecond // back-off of the second retry
	retryCap  = 5 * time.Second

	// A job may fail more often than its functions succeed, for a while: each
	// failure costs one, each answer gives one back, up to the start value.
	budgetBase        = 50
	budgetPerFunction = 10
)

// verdict is what becomes of a failed attempt.
type verdict struct {
	lost  bool              // given up: the assignment goes back into the epoch
	after time.Duration     // until it is tried again
	fatal *messages.Failure // the job cannot go on
}

// judge decides about the latest failure of an assignment, the last of
// failures, when it may be retried that many times. Seed feeds the jitter.
//
// Failures that no repetition can help end the job: a wrong request, and the
// same exception or the same rejection twice (attempts that chaos broke do not
// count). Everything else is tried again, the first time at once.
func judge(failures []*messages.Failure, retries uint32, seed uint64) verdict {
	last := failures[len(failures)-1]
	switch kind := last.GetKind(); kind {
	case messages.FailureKind_FAILURE_KIND_INVALID, messages.FailureKind_FAILURE_KIND_NOT_FOUND:
		return verdict{fatal: last}
	case messages.FailureKind_FAILURE_KIND_USER_CODE, messages.FailureKind_FAILURE_KIND_REJECTED:
		if !last.GetChaos() && seenBefore(failures) {
			return verdict{fatal: last}
		}
	}
	if len(failures) > int(retries) {
		return verdict{lost: true}
	}
	return verdict{after: backOff(len(failures), seed)}
}

// seenBefore reports whether the last failure happened in an earlier attempt
// too, chaos apart.
func seenBefore(failures []*messages.Failure) bool {
	last := failures[len(failures)-1]
	for _, f := range failures[:len(failures)-1] {
		if !f.GetChaos() && f.GetKind() == last.GetKind() && f.GetText() == last.GetText() {
			return true
		}
	}
	return false
}

// backOff returns the wait before a retry: none before the first, then doubling
// from retryBase to retryCap, the upper half of it drawn.
func backOff(failures int, seed uint64) time.Duration {
	if failures <= 1 {
		return 0
	}
	d := retryCap
	if shift := failures - 2; shift < 10 {
		d = min(d, retryBase<<shift)
	}
	draw := rand.New(rand.NewPCG(seed, uint64(failures)))
	return d/2 + time.Duration(draw.Int64N(int64(d/2)+1))
}
