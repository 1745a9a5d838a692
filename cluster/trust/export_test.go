package trust

import "time"

// CreateTokenAt is AddToken at another time.
func (a *Authority) CreateTokenAt(name string, now time.Time) (string, error) {
	return a.createToken(name, now, func(entries []entry) ([]entry, error) { return entries, nil })
}
