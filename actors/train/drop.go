package train

import "fmt"

// drops is what people have yet to hear of samples that are dropped.
type drops struct {
	told bool   // of the first, as it was dropped
	last string // of the epoch since then; "": none
}

// drop tells at once of the first samples that are dropped. There may be
// thousands more: of those each epoch's end tells in one sum.
func (s *state) drop(a *assignment, f failed) {
	what := fmt.Sprintf("%s, positions%s: %s", where(f.attempt), a.positions(), f.failure.GetText())
	if s.drops.told {
		s.drops.last = what
		return
	}
	s.drops.told = true
	s.warn(fmt.Sprintf("%s dropped (%s); of more, the end of each epoch tells", samples(a.samples, "is", "are"), what))
}

// tellDropped tells of an epoch's dropped samples, if there were more than the
// one assignment that was told of.
func (s *state) tellDropped(epoch uint32, dropped uint64) {
	if s.drops.last != "" {
		s.warn(fmt.Sprintf("epoch %d: %s dropped; the last: %s", epoch, samples(dropped, "was", "were"), s.drops.last))
	}
	s.drops.last = ""
}

// samples is a number of samples and the verb for it.
func samples(n uint64, one, more string) string {
	if n == 1 {
		return "1 sample " + one
	}
	return fmt.Sprintf("%d samples %s", n, more)
}
