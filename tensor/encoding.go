package tensor

import (
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Encoding is how the answers of a round lie in their files.
type Encoding uint8

// The encodings.
const (
	Plain Encoding = iota // models, as functions write them
	Int8                  // what a Codec makes of them
)

// Encodings lists what ParseEncoding reads.
func Encodings() []string { return []string{"none", "int8"} }

// ParseEncoding reads one of Encodings; what is empty is none. Anything else is
// an Invalid error that names the value and what is allowed.
func ParseEncoding(text string) (Encoding, error) {
	switch text {
	case "", "none":
		return Plain, nil
	case "int8":
		return Int8, nil
	}
	return Plain, fault.New("tensor.encoding", fault.Invalid, "compress %q does not exist: give one of %s", text, strings.Join(Encodings(), ", "))
}
