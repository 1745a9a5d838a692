package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/tensor"
)

// value is a flag that refuses, as it is typed, what makes no sense: a zero
// too, which in a task would mean the default.
type value struct {
	kind string             // shown in the help
	text string             // the default in the help, then what was typed
	set  func(string) error // the error says what is allowed

	words []string // what shells complete it with
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return v.kind }

func (v *value) Set(s string) error {
	if err := v.set(s); err != nil {
		return err
	}
	v.text = s
	return nil
}

// whole is a whole number in [lo, hi]. Its default is what *p holds, if that
// is in range.
func whole[T int | int32 | uint32](p *T, lo, hi T) *value {
	v := &value{kind: "int", set: func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < int64(lo) || n > int64(hi) {
			return fmt.Errorf("give a whole number from %d to %d", lo, hi)
		}
		*p = T(n)
		return nil
	}}
	if *p >= lo {
		v.text = strconv.FormatInt(int64(*p), 10)
	}
	return v
}

// unsigned is a whole number that 64 bits hold.
func unsigned(p *uint64) *value {
	return &value{kind: "uint", text: strconv.FormatUint(*p, 10), set: func(s string) error {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return fmt.Errorf("give a whole number from 0 to %d", uint64(math.MaxUint64))
		}
		*p = n
		return nil
	}}
}

// positive is a finite number above 0.
func positive(p *float64) *value {
	return &value{kind: "float", text: fmt.Sprint(*p), set: func(s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x > 0) || math.IsInf(x, 0) {
			return errors.New("give a finite number above 0")
		}
		*p = x
		return nil
	}}
}

// limit is a finite number above 0, or none.
func limit(p *float64) *value {
	v := positive(p)
	v.text = ""
	return v
}

// strategy is how models are merged.
func strategy(p *string) *value {
	var words []string
	for _, form := range tensor.Strategies() {
		word, _, _ := strings.Cut(form, "[")
		words = append(words, word)
	}
	return &value{kind: "strategy", text: *p, words: words, set: func(s string) error {
		_, err := tensor.ParseStrategy(s)
		*p = s
		return err
	}}
}

// epochs is a number of epochs above 0, a fraction too, or -1.
func epochs(p *float64) *value {
	v := positive(p)
	above := v.set
	v.set = func(s string) error {
		if s == "-1" {
			*p = -1
			return nil
		}
		if above(s) != nil {
			return errors.New("give a number of epochs above 0, or -1 for only at the end")
		}
		return nil
	}
	return v
}

// batches is a whole number above 0, or -1.
func batches(p *int32) *value {
	return &value{kind: "int", text: fmt.Sprint(*p), set: func(s string) error {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 1 && n != -1 {
			return fmt.Errorf("give 1 to %d batches, or -1 for one round an epoch", math.MaxInt32)
		}
		*p = int32(n)
		return nil
	}}
}

// percent is a number above 0, at most 100.
func percent(p *float64) *value {
	return &value{kind: "percent", set: func(s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x > 0 && x <= 100) {
			return errors.New("give a percentage above 0, at most 100, such as 95")
		}
		*p = x
		return nil
	}}
}

// duration is one in [lo, hi], kept in milliseconds.
func duration(p *uint64, lo, hi time.Duration, text string) *value {
	return &value{kind: "duration", text: text, set: func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < lo || d > hi {
			return fmt.Errorf("give %v to %v, such as 90s or 5m", lo, hi)
		}
		*p = uint64(d.Milliseconds())
		return nil
	}}
}

// orAuto is a duration of milliseconds, or auto, which is 0.
func orAuto(p *uint64, lo, hi time.Duration) *value {
	v := duration(p, lo, hi, "auto")
	given := v.set
	v.set = func(s string) error {
		if s == "auto" {
			*p = 0
			return nil
		}
		if given(s) != nil {
			return fmt.Errorf("give auto, or %v to %v, such as 90s or 5m", lo, hi)
		}
		return nil
	}
	return v
}

// oneOf is one of several words.
func oneOf(p *string, words []string) *value {
	return &value{kind: strings.Join(words, "|"), text: *p, words: words, set: func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("give one of %s", strings.Join(words, ", "))
		}
		*p = s
		return nil
	}}
}

// byteSize is a number of bytes above 0, with or without a unit.
func byteSize(p *int64) *value {
	units := map[string]int64{"": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
	return &value{kind: "bytes", set: func(s string) error {
		digits := strings.TrimRightFunc(s, func(r rune) bool { return r < '0' || r > '9' })
		n, err := strconv.ParseFloat(digits, 64)
		unit, known := units[strings.ToUpper(strings.TrimSpace(s[len(digits):]))]
		if size := n * float64(unit); err == nil && known && size >= 1 && size < math.MaxInt64 {
			*p = int64(size)
			return nil
		}
		return errors.New("give a size such as 500MB or 2GiB")
	}}
}

// share is a number between 0 and 1.
func share(p *float64, text string) *value {
	return &value{kind: "share", text: text, set: func(s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x > 0 && x < 1) {
			return errors.New("give a number between 0 and 1, such as 0.2")
		}
		*p = x
		return nil
	}}
}

// rising is a finite number, 0 or more.
func rising(p *float64) *value {
	return &value{kind: "float", text: fmt.Sprint(*p), set: func(s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return errors.New("give a finite number, 0 or more")
		}
		*p = x
		return nil
	}}
}

// pairs is name=value, repeatedly, each name once.
func pairs(into map[string]string) *value {
	return &value{kind: "name=value", set: func(s string) error {
		k, v, ok := strings.Cut(s, "=")
		if _, twice := into[k]; !ok || k == "" || twice {
			return errors.New("give name=value, each name once")
		}
		into[k] = v
		return nil
	}}
}
