package access

import (
	"github.com/troupe-ml/troupe/internal/fault"
)

// Role is what the bearer of a token may do. Each may do what those below it may.
type Role uint8

// The roles.
const (
	Anybody Role = iota // without a token
	Read                // look
	Submit              // start, change and stop jobs; make and delete what jobs need and leave
	Admin               // everything
)

// Roles lists those that a token may have.
func Roles() []Role { return []Role{Read, Submit, Admin} }

// String returns the role as tokens.json and people call it.
func (r Role) String() string {
	switch r {
	case Read:
		return "read"
	case Submit:
		return "submit"
	case Admin:
		return "admin"
	case Anybody:
	}
	return "anybody"
}

// ParseRole returns the role of that name. Invalid.
func ParseRole(name string) (Role, error) {
	for _, r := range Roles() {
		if r.String() == name {
			return r, nil
		}
	}
	return Anybody, fault.New("access.role", fault.Invalid, "role %.20q does not exist: give one of read, submit, admin", name)
}
