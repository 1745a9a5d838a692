package trust

import "time"

// CreateTokenAt is CreateToken at another time.
func (a *Authority) CreateTokenAt(name string, now time.Time) (string, error) {
	return a.createToken(name, now, false)
}
