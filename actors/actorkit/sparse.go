package actorkit

import (
	"time"

	"go.uber.org/zap/zapcore"
)

// sayGap is how often what lasts is said.
const sayGap = time.Minute

// Sparse decides when what lasts is to be said: at once, and then once a minute.
// Once the trouble is over, or is another, it is to be the zero value again.
type Sparse struct{ said time.Time }

// Due reports whether to say it now, and takes that as done.
func (s *Sparse) Due(now time.Time) bool {
	if !s.said.IsZero() && now.Sub(s.said) < sayGap {
		return false
	}
	s.said = now
	return true
}

// Level is how a line is logged that says it: as a warning when that is due, else
// for those who look at every message.
func (s *Sparse) Level(now time.Time) zapcore.Level {
	if s.Due(now) {
		return zapcore.WarnLevel
	}
	return zapcore.DebugLevel
}
