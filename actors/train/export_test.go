package train

import (
	"time"

	"github.com/troupe-ml/troupe/messages"
)

// Cut cuts one round out of an epoch's [lo, hi) positions.
func Cut(todo [][2]uint64, n, k, batch uint64, whole bool) (assignments [][][2]uint64, rest [][2]uint64) {
	var r ranges
	for _, s := range todo {
		r = append(r, span{s[0], s[1]})
	}
	parts, left := cut(r, n, k, batch, whole)
	for _, p := range parts {
		assignments = append(assignments, pairs(p))
	}
	return assignments, pairs(left)
}

// Union returns two sets of positions together.
func Union(a, b [][2]uint64) [][2]uint64 {
	var x, y ranges
	for _, s := range a {
		x = append(x, span{s[0], s[1]})
	}
	for _, s := range b {
		y = append(y, span{s[0], s[1]})
	}
	return pairs(x.union(y))
}

// Blocks returns the validation blocks of n samples.
func Blocks(n, batch uint64) (out [][2]uint64) {
	for _, b := range blocks(n, batch) {
		out = append(out, pairs(b)...)
	}
	return out
}

func pairs(r ranges) (out [][2]uint64) {
	for _, s := range r {
		out = append(out, [2]uint64{s.lo, s.hi})
	}
	return out
}

// Derive returns the seed of a draw.
func Derive(seed uint64, p string, epoch, round, function uint32) uint64 {
	return derive(seed, purpose(p), epoch, round, function)
}

// Judge says what becomes of the last of an assignment's failures, in a job of
// so many slots. They happened on slots 1, 2, …, or all on the first if same.
func Judge(failures []*messages.Failure, retries, slots uint32, same bool) (retry, lost, fatal bool, after time.Duration) {
	var all []failure
	for i, f := range failures {
		at := failure{Failure: f, node: "n1", slot: uint32(i) + 1}
		if same {
			at.slot = 1
		}
		all = append(all, at)
	}
	v := judge(all, retries, slots, 1)
	return v.retry(), v.lost, v.fatal != nil, v.after
}

// Limits is after what time an attempt is backed up, and cut.
var Limits = limits

// GuessedLimit is after what time an attempt is cut that has no peers.
var GuessedLimit = guessedLimit

// Rate is the learning rate of a round.
var Rate = rate

// Saver decides when states are stored, for tests: a state is how many epochs
// are complete, and of which merge it is.
type Saver struct{ saver }

// NewSaver returns one that saves as often as asked for; 0: as it sees fit.
func NewSaver(every time.Duration) *Saver { return &Saver{saver{every: every}} }

// Mark returns a state.
func Mark(epochs int, version uint64) *messages.JobState {
	return &messages.JobState{
		Epoch: uint32(epochs + 1), Round: uint32(version), ModelVersion: version,
		History: &messages.JobHistory{Epochs: make([]*messages.EpochRecord, epochs)},
	}
}

// Due, Begin, End and Complaint are the saver's.
func (s *Saver) Due(now time.Time, st *messages.JobState) bool { return s.due(now, st) }
func (s *Saver) Begin(now time.Time, st *messages.JobState)    { s.begin(now, st) }
func (s *Saver) End(now time.Time, err error)                  { s.ended(now, err) }
func (s *Saver) Complaint(now time.Time) string                { return s.complaint(now, nil) }
