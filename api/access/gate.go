package access

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/loopback"
)

var (
	// ErrNoToken is behind the error about a request without a token that we know.
	ErrNoToken = errors.New("no token that is known here")
	// ErrRole is behind the error about a token that is not good enough.
	ErrRole = errors.New("not with that token")
	// ErrForeign is behind the error about a request that a web page makes.
	ErrForeign = errors.New("a web page of another site asks")
)

// Gate decides which requests may pass.
type Gate struct {
	tokens *Tokens // nil on loopback
	pages  *http.CrossOriginProtection
}

// NewGate returns the gate of a listener. Without tokens everybody may do all,
// so that the listener must be on loopback.
func NewGate(tokens *Tokens) *Gate {
	return &Gate{tokens: tokens, pages: http.NewCrossOriginProtection()}
}

// Check returns nil if a request may do what takes that role; else Invalid,
// behind it ErrNoToken, ErrRole or ErrForeign. No error says what a header of
// the request was.
func (g *Gate) Check(r *http.Request, need Role) error {
	const op = "access.check"
	if err := g.pages.Check(r); err != nil {
		return fault.New(op, fault.Invalid, "%w: no web page may do that", ErrForeign)
	}
	if g.tokens == nil {
		// A name that a web page has made point here is not one of ours.
		if !loopback.Is(r.Host) {
			return fault.New(op, fault.Invalid, "%w: this server is for this machine: reach it as 127.0.0.1 or localhost", ErrForeign)
		}
		return nil
	}
	if need == Anybody {
		return nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return fault.New(op, fault.Invalid, "%w: send Authorization: Bearer TOKEN; --token-file or TROUPE_TOKEN do", ErrNoToken)
	}
	role, ok := g.tokens.role(strings.TrimSpace(token))
	if !ok {
		return fault.New(op, fault.Invalid, "%w: it is wrong, or was revoked", ErrNoToken)
	}
	if role < need {
		return fault.New(op, fault.Invalid, "%w: its role is %s, that takes %s", ErrRole, role, need)
	}
	return nil
}

// Loopback reports whether host:port is an address that only this machine
// reaches.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && loopback.Is(host)
}
