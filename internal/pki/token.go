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

// versioned reports whether there may be a version of troupe with such tokens.
func (u Use) versioned() bool {
	digits := strings.TrimLeft(string(u), "abcdefghijklmnopqrstuvwxyz")
	return digits != "" && len(u) <= 4 && strings.Trim(digits, "0123456789") == ""
}

func (u Use) name() string {
	if u == ForJoin {
		return "join token"
	}
	return "token"
}

// printed says where people have tokens from.
func (u Use) printed() string {
	if u == ForJoin {
		return "troupe up has printed behind --token"
	}
	return "is in the file submit.token of the server's --tls-dir"
}

// remedy is how to get one.
func (u Use) remedy() string {
	if u == ForJoin {
		return "troupe cluster token create --name NODE --role join"
	}
	return "troupe cluster token create --name NAME --role submit"
}

// other says of a token what it is for, to who wants another one.
func (u Use) other() string {
	if u == ForJoin {
		return "to join with, and opens no HTTP API"
	}
	return "for the HTTP API, and lets no node join"
}

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
	given := Use(parts[0])
	switch {
	case len(parts) != 3 || !given.versioned():
		return fingerprint, nil, fault.New(op, fault.Invalid, "what was given is no %s: copy all of what %s, or get one with %s", use.name(), use.printed(), use.remedy())
	case given == use:
	case given == ForAPI || given == ForJoin:
		return fingerprint, nil, fault.New(op, fault.Invalid, "the token is one %s: get one with %s", given.other(), use.remedy())
	default:
		return fingerprint, nil, fault.New(op, fault.Invalid, "the token is of version %s, this troupe knows %s: use a troupe of the same version as the server", given, use)
	}
	sum, err := hex.DecodeString(parts[1])
	secret, wrong := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sum) != sha256.Size || wrong != nil || len(secret) != SecretBytes {
		return fingerprint, nil, fault.New(op, fault.Invalid, "the token is cut off or damaged: copy all of it")
	}
	return [sha256.Size]byte(sum), secret, nil
}
