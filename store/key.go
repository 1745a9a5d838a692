package store

import (
	"strings"
	"unicode/utf8"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	maxKey  = 1024 // bytes, as in S3
	maxPart = 255  // bytes, the longest file name of the usual file systems

	// reserved starts the names that the file driver keeps for itself:
	// temporary files and locks. No key has such a part and List shows none.
	reserved = ".troupe-"
)

// CheckKey returns nil if key may name an object: parts joined by "/", none of
// them empty, "." or "..", or starting with ".troupe-"; valid UTF-8 without
// NUL; at most 1,024 bytes, 255 a part. Otherwise fault.Invalid with the reason.
func CheckKey(key string) error {
	if len(key) > maxKey {
		return fault.New("store.key", fault.Invalid, "key %.40q… has %d bytes, more than %d", key, len(key), maxKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		if reason := refusePart(part); reason != "" {
			return fault.New("store.key", fault.Invalid, "key %q %s", key, reason)
		}
	}
	return nil
}

// checkPrefix is CheckKey for what List takes: the last part may be cut short.
func checkPrefix(prefix string) error {
	if len(prefix) > maxKey {
		return fault.New("store.list", fault.Invalid, "prefix %.40q… has %d bytes, more than %d", prefix, len(prefix), maxKey)
	}
	cut := strings.LastIndexByte(prefix, '/')
	if strings.ContainsRune(prefix, 0) {
		return fault.New("store.list", fault.Invalid, "prefix %q has a NUL", prefix)
	}
	if cut < 0 {
		return nil
	}
	for part := range strings.SplitSeq(prefix[:cut], "/") {
		if reason := refusePart(part); reason != "" {
			return fault.New("store.list", fault.Invalid, "prefix %q %s", prefix, reason)
		}
	}
	return nil
}

// refusePart says why a part of a key is refused, or "".
func refusePart(part string) string {
	switch {
	case part == "":
		return "has an empty part"
	case part == "." || part == "..":
		return "has a part that is . or .."
	case strings.HasPrefix(part, reserved):
		return "has a part that starts with " + reserved
	case len(part) > maxPart:
		return "has a part longer than 255 bytes"
	case strings.ContainsRune(part, 0):
		return "has a NUL"
	case !utf8.ValidString(part):
		return "is not valid UTF-8"
	}
	return ""
}

// checkFolder is checkPrefix for what Folders takes.
func checkFolder(prefix string) error {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		return fault.New("store.folders", fault.Invalid, "prefix %q does not end with /", prefix)
	}
	return checkPrefix(prefix)
}
