package train

import (
	"fmt"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

const (
	saveAtLeast = 30 * time.Second // between two saves, as far as there is something new
	saveShare   = 20               // a save may take one part in so many of the time between two
	retrySave   = time.Second      // after the first save that failed, doubling to:
	retrySaving = 15 * time.Second
	complainGap = time.Minute // between two warnings of one trouble
)

// saver decides when the job's newest mark is stored. One save runs at a time,
// beside the rounds.
type saver struct {
	every time.Duration      // as asked for; 0: as often as saveShare allows
	began time.Time          // the last save
	from  *messages.JobState // what the store has of earlier incarnations; nil: nothing

	stored  *messages.JobState // the newest that the store has of this incarnation; nil: none
	running *messages.JobState // being stored; nil: none
	took    time.Duration      // the last one that succeeded

	failures   int // in a row
	why        error
	retry      time.Time // not before
	complained time.Time // zero: nothing is wrong
}

// due reports whether marked is to be stored now.
func (s *saver) due(now time.Time, marked *messages.JobState) bool {
	switch {
	case marked == nil || marked == s.stored || s.running != nil || now.Before(s.retry):
		return false
	case s.stored == nil, s.failures > 0, len(marked.GetHistory().GetEpochs()) > len(s.stored.GetHistory().GetEpochs()):
		return true
	}
	gap := now.Sub(s.began)
	if s.every > 0 {
		return gap >= s.every
	}
	return gap >= min(saveAtLeast, saveShare*s.took)
}

func (s *saver) begin(now time.Time, marked *messages.JobState) { s.began, s.running = now, marked }

// ended takes in how the running save ended.
func (s *saver) ended(now time.Time, err error) {
	saved := s.running
	s.running, s.why = nil, err
	if err == nil {
		s.stored, s.took, s.failures, s.complained = saved, now.Sub(s.began), 0, time.Time{}
		return
	}
	s.retry = now.Add(min(retrySave<<min(s.failures, 10), retrySaving))
	s.failures++
}

// complaint returns what people should know about the store, or the node that a
// save waits for unless that is nil, at most once a minute; "" for nothing.
func (s *saver) complaint(now time.Time, node *string) string {
	slow := s.running != nil && now.Sub(s.began) >= complainGap
	if s.failures == 0 && !slow || unreachedOf(s.why) != nil || !s.complained.IsZero() && now.Sub(s.complained) < complainGap {
		return ""
	}
	s.complained = now
	back := s.back(nil)
	if s.failures == 0 {
		what := "the store has been taking the job's state"
		if node != nil {
			what = fmt.Sprintf("the job's state has waited for what lies on node %q", *node)
		}
		return fmt.Sprintf("%s for %v; training goes on, and would resume %s",
			what, now.Sub(s.began).Round(time.Second), back)
	}
	return fmt.Sprintf("the store does not take the job's state: %v; training goes on, it is tried again, and until then the job would resume %s", s.why, back)
}

// back says where a job whose newest mark is marked would go on, were it resumed
// from what the store has.
func (s *saver) back(marked *messages.JobState) string {
	there := s.stored
	switch {
	case there != nil && there == marked:
		return "where it is now"
	case there == nil:
		there = s.from
	}
	if there.GetModelVersion() == 0 {
		return "from the beginning"
	}
	return fmt.Sprintf("after epoch %d, round %d", there.GetEpoch(), there.GetRound())
}
