package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// SecretBytes is the length of the secret in a token.
const SecretBytes = 32

// Use says what a token is for; it is the first part of its text.
type Use string

// The uses.
const (
	ForAPI  Use = "1"  // bearer of HTTP requests
	ForJoin Use = "j1" // a node that joins
)

// NewToken returns a token of the authority with that fingerprint.
func NewToken(use Use, fingerprint [sha256.Size]byte) string {
	secret := make([]byte, SecretBytes)
	_, _ = rand.Read(secret) // it never fails
	return strings.Join([]string{string(use), hex.EncodeToString(fingerprint[:]), base64.RawURLEncoding.EncodeToString(secret)}, ".")
}

// ParseToken returns the fingerprint of the authority that issued a token, and
// the token's secret. Invalid, without a word of the token: it is no token for
// that use.
func ParseToken(use Use, token string) (fingerprint [sha256.Size]byte, secret []byte, err error) {
	const op = "pki.token"
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return fingerprint, nil, fault.New(op, fault.Invalid, "the token is none: it has %d parts, want version.fingerprint.secret", len(parts))
	}
	switch given := Use(parts[0]); {
	case given == use:
	case given == ForAPI:
		return fingerprint, nil, fault.New(op, fault.Invalid, "the token is one for the HTTP API, and lets no node join: get one with troupe cluster token create --role join")
	case given == ForJoin:
		return fingerprint, nil, fault.New(op, fault.Invalid, "the token is one to join with, and opens no HTTP API: get one with troupe cluster token create --role submit")
	default:
		return fingerprint, nil, fault.New(op, fault.Invalid, "the token is of another version than %s: use a troupe of the same version as the server", use)
	}
	sum, err := hex.DecodeString(parts[1])
	secret, wrong := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sum) != sha256.Size || wrong != nil || len(secret) != SecretBytes {
		return fingerprint, nil, fault.New(op, fault.Invalid, "the token is cut off or damaged: copy all of it")
	}
	return [sha256.Size]byte(sum), secret, nil
}
