package plane

import (
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/troupe-ml/troupe/internal/fault"
)

// maxKey leaves room for a suffix within the 255 bytes of a file name.
const maxKey = 200

// ValidKey returns nil for a key that every Space takes, else an Invalid error
// that says why not. A key is 1 to 200 bytes: segments of letters, digits,
// '.', '_', '-', parted by '/'; no segment is empty or starts with '.'. What
// CopyKey adds does not count.
func ValidKey(key string) error {
	key, _ = Original(key)
	if key == "" || len(key) > maxKey {
		return fault.New("plane.key", fault.Invalid, "key %q has %d bytes, not 1 to %d", key, len(key), maxKey)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment[0] == '.' {
			return fault.New("plane.key", fault.Invalid, "key %q: a part is empty or starts with '.'", key)
		}
		if i := strings.IndexFunc(segment, foreign); i >= 0 {
			return fault.New("plane.key", fault.Invalid, "key %q: only letters, digits, '.', '_', '-' and '/' may occur", key)
		}
	}
	return nil
}

// copyPart begins the last part of a copy's key.
const copyPart = "/copy-"

// CopyKey is where a node keeps its copy of what another node's ref names: below
// the key itself, so that it is found and freed with the job's own tensors.
func CopyKey(ref Ref) string {
	return fmt.Sprintf("%s%s%016x", ref.Key, copyPart, xxhash.Sum64String(fmt.Sprintf("%q %d %d", ref.Node, ref.Bytes, ref.Digest)))
}

// Original returns the key that a copy's key was made from, and whether it is one;
// any other as it is.
func Original(key string) (original string, copied bool) {
	at := len(key) - len(copyPart) - 16
	if at < 0 || !strings.HasPrefix(key[at:], copyPart) {
		return key, false
	}
	return key[:at], true
}

// foreign reports whether r may not occur in a key.
func foreign(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
		return false
	}
	return true
}

// fileName is the one file of a key: flat, so that no folder has to be made or
// removed, and '~' occurs in no key.
func fileName(key string) string { return strings.ReplaceAll(key, "/", "~") }

// draftName is the file of a key while it is written.
func draftName(key string) string { return fileName(key) + "~draft" }
