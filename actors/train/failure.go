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

// verdict is what becomes of a failed attempt, and of its assignment. One of
// them is set; else the assignment is tried again.
type verdict struct {
	fatal   *messages.Failure // the job cannot go on
	lost    bool              // given up: the assignment goes back into the epoch
	dropped bool              // given up for good: its positions are skipped
	twin    bool              // another attempt at the assignment runs

	after time.Duration // until it is tried again
	begun uint32        // attempts at the assignment so far
}

// retry reports whether the assignment is tried again.
func (v verdict) retry() bool { return !v.ends() && !v.twin }

// ends reports whether the assignment, or the job, is over.
func (v verdict) ends() bool { return v.fatal != nil || v.lost || v.dropped }

// judge decides about the latest failure of an assignment, the last of
// failures, when it may be retried that many times by a job that has so many
// slots. Seed feeds the jitter.
//
// Failures that no repetition can help end the job: a wrong request, and what
// is deterministic. Everything else is tried again, the first time at once. That a
// node is gone counts for nothing: what ran there runs elsewhere.
func judge(failures []failure, retries, slots uint32, seed uint64) verdict {
	last := failures[len(failures)-1]
	switch kind := last.GetKind(); {
	case kind == messages.FailureKind_FAILURE_KIND_INVALID || kind == messages.FailureKind_FAILURE_KIND_NOT_FOUND:
		return verdict{fatal: last.Failure}
	case deterministic(failures, slots):
		return verdict{fatal: last.Failure}
	case last.blameless():
		return verdict{}
	}
	counted := 0
	for _, f := range failures {
		if !f.blameless() {
			counted++
		}
	}
	if counted > int(retries) {
		return verdict{lost: true}
	}
	return verdict{after: backOff(counted, seed)}
}

// deterministic reports whether the last failure would come again wherever the
// assignment ran: it is the same exception, or the same rejection, as one
// before, on another slot if the job has two. Attempts that chaos broke do not
// count.
func deterministic(failures []failure, slots uint32) bool {
	last := failures[len(failures)-1]
	if !last.own() {
		return false
	}
	for _, f := range failures[:len(failures)-1] {
		if f.own() && f.GetKind() == last.GetKind() && f.GetText() == last.GetText() && (slots < 2 || f.elsewhere(last)) {
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
