package access

import (
	"crypto/tls"

	"github.com/troupe-ml/troupe/internal/pki"
)

// ClientTLS returns how a client talks to the server that a token is for: with
// no other, and without files. Invalid: it is no token.
func ClientTLS(token string) (*tls.Config, error) {
	fingerprint, _, err := pki.ParseToken(pki.ForAPI, token)
	if err != nil {
		return nil, err
	}
	return pki.Pinned(fingerprint), nil
}
