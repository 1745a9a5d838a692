package jobjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// maxShown is how much of a wrong value an error repeats, in bytes.
const maxShown = 80

// Invalid is the error about a request that is wrong.
func Invalid(format string, args ...any) error {
	return fault.New("jobjson.request", fault.Invalid, format, args...)
}

// Member is a name and a value of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// IsNull reports whether the value says nothing.
func (m Member) IsNull() bool { return string(m.Value) == "null" }

// Object reads a JSON object, in its order. A name that is given twice, bytes
// that are no UTF-8, and anything behind the object are Invalid.
func Object(what string, body []byte) ([]Member, error) {
	if !utf8.Valid(body) {
		return nil, Invalid("%s: it is not UTF-8: send JSON", what)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, Invalid("%s: it is no JSON object: send {…}", what)
	}
	var members []Member
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, Invalid("%s: it is no JSON: %w", what, err)
		}
		m := Member{Name: name.(string)} // the decoder takes no other
		if seen[m.Name] {
			return nil, Invalid("%s: %q is given twice: give it once", what, Shown(m.Name))
		}
		seen[m.Name] = true
		if err := d.Decode(&m.Value); err != nil {
			return nil, Invalid("%s: the value of %q is no JSON: %w", what, Shown(m.Name), cutOff(err))
		}
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, Invalid("%s: it is no JSON: %w", what, cutOff(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, Invalid("%s: there is something behind its end: send one object", what)
	}
	return members, nil
}

// cutOff says what an end of input means in the middle of a value.
func cutOff(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// text reads a JSON string.
func text(what string, raw json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || raw[0] != '"' {
		return "", Invalid("%s %s: give text, in quotes", what, Shown(string(raw)))
	}
	return s, nil
}

// truth reads true or false.
func truth(what string, raw json.RawMessage) (bool, error) {
	switch string(raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, Invalid("%s %s: give true or false", what, Shown(string(raw)))
}

// real reads a finite number.
func real(what string, raw json.RawMessage) (float64, error) {
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !isNumber(raw) || math.IsInf(x, 0) {
		return 0, Invalid("%s %s: give a number", what, Shown(string(raw)))
	}
	return x, nil
}

// Signed reads a whole number in [lo, hi], whose fraction may be spelt out as 0.
func Signed(what string, raw json.RawMessage, lo, hi int64) (int64, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		x, wrong := real(what, raw)
		if wrong != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			return 0, Invalid("%s %s: give a whole number from %d to %d", what, Shown(string(raw)), lo, hi)
		}
		n = int64(x)
	}
	if n < lo || n > hi {
		return 0, Invalid("%s %d: give a whole number from %d to %d", what, n, lo, hi)
	}
	return n, nil
}

// unsigned reads a whole number of 64 bits.
func unsigned(what string, raw json.RawMessage) (uint64, error) {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		whole, err := Signed(what, raw, 0, math.MaxInt64)
		if err != nil {
			return 0, Invalid("%s %s: give a whole number from 0 to %d", what, Shown(string(raw)), uint64(math.MaxUint64))
		}
		n = uint64(whole)
	}
	return n, nil
}

// isNumber reports whether a JSON value is one; ParseFloat takes more.
func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// Shown is a value as an error repeats it.
func Shown(s string) string {
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// Unknown is the error about a field that there is not, with the one that was
// meant, perhaps.
func Unknown(what, name string, known []string) error {
	return Invalid("%s: there is no field %q: %s", what, Shown(name), config.DidYouMean(Shown(name), known))
}

// Decode reads a JSON object into a struct whose fields are known by name.
// Invalid: another field, or a value of another type.
func Decode(what string, body []byte, into any, known ...string) error {
	members, err := Object(what, body)
	if err != nil {
		return err
	}
	for _, m := range members {
		if !slices.Contains(known, m.Name) {
			return Unknown(what, m.Name, known)
		}
	}
	if err := json.Unmarshal(body, into); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return Invalid("%s: %s is of the wrong type, %s: give %s", what, wrong.Field, Shown(wrong.Value), kindOf(wrong.Type))
		}
		return Invalid("%s: %w", what, err)
	}
	return nil
}

// kindOf says what a value of a type looks like in JSON.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text in quotes"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		return "a whole number that is not negative"
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return "an object"
	}
}
