package plane

import (
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// maxKey leaves room for a suffix within the 255 bytes of a file name.
const maxKey = 200

// ValidKey returns nil for a key that every Space takes, else an Invalid error
// that says why not. A key is 1 to 200 bytes: segments of letters, digits,
// '.', '_', '-', parted by '/'; no segment is empty or starts with '.'.
func ValidKey(key string) error {
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
