package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	tokenVersion = "1"
	secretBytes  = 32
)

// newToken returns a token of the authority with that fingerprint.
func newToken(fingerprint [sha256.Size]byte) string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // it never fails
	return strings.Join([]string{tokenVersion, hex.EncodeToString(fingerprint[:]), base64.RawURLEncoding.EncodeToString(secret)}, ".")
}

// Fingerprint returns the SHA-256 of the certificate of the authority that
// issued a token. Invalid, without a word of the token: it is no token.
func Fingerprint(token string) (fingerprint [sha256.Size]byte, err error) {
	const op = "access.token"
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return fingerprint, fault.New(op, fault.Invalid, "the token is none: it has %d parts, want version.fingerprint.secret", len(parts))
	}
	if parts[0] != tokenVersion {
		return fingerprint, fault.New(op, fault.Invalid, "the token is of another version than %s: use a troupe of the same version as the server", tokenVersion)
	}
	sum, err := hex.DecodeString(parts[1])
	secret, wrong := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sum) != sha256.Size || wrong != nil || len(secret) != secretBytes {
		return fingerprint, fault.New(op, fault.Invalid, "the token is cut off or damaged: copy all of it")
	}
	return [sha256.Size]byte(sum), nil
}
