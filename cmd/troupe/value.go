package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/internal/task"
)

// value is a flag that refuses, as it is typed, what makes no sense: a zero
// too, which in a task would mean the default.
type value struct {
	kind string             // shown in the help
	text string             // the default in the help, then what was typed
	set  func(string) error // the error says what is allowed
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
func whole[T int | uint32](p *T, lo, hi T) *value {
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

// timeout is a duration, kept in milliseconds.
func timeout(p *uint64, text string) *value {
	return &value{kind: "duration", text: text, set: func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < task.MinFunctionTimeout || d > task.MaxFunctionTimeout {
			return fmt.Errorf("give %v to %v, such as 90s or 5m", task.MinFunctionTimeout, task.MaxFunctionTimeout)
		}
		*p = uint64(d.Milliseconds())
		return nil
	}}
}

// oneOf is one of several words.
func oneOf(p *string, words []string) *value {
	return &value{kind: strings.Join(words, "|"), text: *p, set: func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("give one of %s", strings.Join(words, ", "))
		}
		*p = s
		return nil
	}}
}
