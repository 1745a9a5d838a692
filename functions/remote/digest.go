package remote

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// DigestHeader carries the SHA-256 of the whole of what is sent, even where only
// a range of it is (RFC 9530).
const DigestHeader = "Repr-Digest"

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// String is the digest as DigestHeader carries it.
func (d Digest) String() string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(d[:]) + ":"
}

// ParseDigest reads the SHA-256 of a DigestHeader, which may list digests of
// other kinds too; ok is false where there is none. Invalid: it is damaged.
func ParseDigest(header string) (d Digest, ok bool, err error) {
	for _, item := range strings.Split(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		if !strings.EqualFold(name, "sha-256") {
			continue
		}
		raw, found := strings.CutPrefix(value, ":")
		raw, closed := strings.CutSuffix(raw, ":")
		sum, err := base64.StdEncoding.DecodeString(raw)
		if !found || !closed || err != nil || len(sum) != len(d) {
			return d, false, fault.New("remote.digest", fault.Invalid, "%s: %.100q is no sha-256=:base64:", DigestHeader, item)
		}
		return Digest(sum), true, nil
	}
	return d, false, nil
}

func (d Digest) hex() string { return hex.EncodeToString(d[:]) }
