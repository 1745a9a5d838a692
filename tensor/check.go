package tensor

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	// FormOp is the Op of a rejection for what a file is: one that is broken, or of
	// other tensors than the reference. Other rejections are for its values.
	FormOp  = "tensor.form"
	checkOp = "tensor.check"
)

// tooLarge is the factor by which an answer's values may exceed the reference
// model's largest, or 1. An optimizer step does not multiply weights by 2^63;
// a value beyond that is garbage, and would make the merged model overflow soon.
const tooLarge = 0x1p63

// Check reports why an answer may not enter a merge, nil if it may. Rejected,
// naming the tensor: a broken file; other names, order, dtypes or shapes than
// the reference's; NaN or an infinity; a bool that is neither 0 nor 1; a value
// x with |x| > 2^63 * max(1, the largest |value| of that tensor in the
// reference). Corrupt, Invalid: the reference itself is broken. Unavailable: a
// reader failed. The answer is read once in windows of 128 KiB; of the
// reference only the header, unless a value above 2^63 is met.
func Check(reference, answer Source) error { return new(Checker).Check(reference, answer) }

// Checker does what Check does, for answers of one kind: it remembers the layout
// it saw last, so that their headers and those of their references, all the
// same, are parsed once. The zero value is ready; it is safe for concurrent use.
type Checker struct{ last atomic.Pointer[Layout] }

// Check is the function of that name.
func (c *Checker) Check(reference, answer Source) error {
	want, err := c.last.Load().like(reference)
	if err != nil {
		return fault.New(checkOp, fault.KindOf(err), "reference model: %w", err)
	}
	c.last.Store(want)
	have, err := want.like(answer)
	if err != nil {
		return fault.New(FormOp, rejectedKind(err), "answer: %w", err)
	}
	if reason := difference(want, have); reason != "" {
		return fault.New(FormOp, fault.Rejected, "%s", reason)
	}
	size, _ := have.extent(windowBytes)
	buf := make([]byte, size)
	limits := map[int]float64{} // by entry, of the tensors that went above 2^63
	return have.windows(func(w window) error {
		raw, err := w.read(buf, answer.R, have.DataStart)
		if err != nil {
			return fault.New(FormOp, rejectedKind(err), "answer: %w", err)
		}
		for _, s := range w.segments {
			src := raw[s.lo:s.hi]
			if ordinary(src, s.dtype) {
				continue
			}
			if s.dtype.IsFloat() && finite(src, s.dtype) {
				if _, ok := limits[s.entry]; !ok {
					if limits[s.entry], err = want.limit(reference, s.entry); err != nil {
						return err
					}
				}
			}
			if reason := s.judge(src, limits[s.entry]); reason != "" {
				return fault.New(checkOp, fault.Rejected, "tensor %q: %s", have.Entries[s.entry].Name, reason)
			}
		}
		return nil
	})
}

// rejectedKind is the kind of an error met in an answer's file.
func rejectedKind(err error) fault.Kind {
	if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Invalid {
		return k
	}
	return fault.Rejected
}

// difference says how the specs of two layouts differ, "" if they do not.
func difference(want, have *Layout) string {
	for i, w := range want.Entries {
		if i == len(have.Entries) {
			return fmt.Sprintf("tensor %q is missing", w.Name)
		}
		h := have.Entries[i]
		switch {
		case h.Name != w.Name:
			named := func(e Entry) bool { return e.Name == w.Name }
			if !slices.ContainsFunc(have.Entries, named) {
				return fmt.Sprintf("tensor %q is missing; %q stands in its place", w.Name, h.Name)
			}
			return fmt.Sprintf("tensor %q stands in the place of %q", h.Name, w.Name)
		case h.DType != w.DType:
			return fmt.Sprintf("tensor %q: dtype %s instead of %s", w.Name, h.DType, w.DType)
		case !slices.Equal(h.Shape, w.Shape):
			return fmt.Sprintf("tensor %q: shape %v instead of %v", w.Name, h.Shape, w.Shape)
		}
	}
	if len(have.Entries) > len(want.Entries) {
		return fmt.Sprintf("tensor %q is not part of the model", have.Entries[len(want.Entries)].Name)
	}
	return ""
}

// ordinary reports whether all elements are finite and at most 2^63 in
// magnitude, or, of bools, 0 or 1. Floats are compared by the bits of their
// magnitude, which order like the values, with NaN at the top.
func ordinary(src []byte, d DType) bool {
	return top(src, d) <= ordinaryTop(d)
}

// finite is ordinary without the limit on magnitude.
func finite(src []byte, d DType) bool {
	return top(src, d) < infinityBits(d)
}

// top returns the largest magnitude among the elements, as bits; 0 for
// integers, all of which are fine.
func top(src []byte, d DType) uint64 {
	switch d {
	case F64:
		var t uint64
		for i := 0; i+8 <= len(src); i += 8 {
			t = max(t, le.Uint64(src[i:])&^(1<<63))
		}
		return t
	case F32:
		var t, u uint32 // two, so that one comparison need not wait for the other
		for ; len(src) >= 8; src = src[8:] {
			t = max(t, le.Uint32(src)&^(1<<31))
			u = max(u, le.Uint32(src[4:])&^(1<<31))
		}
		if len(src) > 0 {
			t = max(t, le.Uint32(src)&^(1<<31))
		}
		return uint64(max(t, u))
	case F16, BF16:
		var t uint16
		for i := 0; i+2 <= len(src); i += 2 {
			t = max(t, le.Uint16(src[i:])&^(1<<15))
		}
		return uint64(t)
	case Bool:
		var t byte
		for _, b := range src {
			t = max(t, b)
		}
		return uint64(t)
	}
	return 0
}

func ordinaryTop(d DType) uint64 {
	switch d {
	case F64:
		return math.Float64bits(tooLarge)
	case F32:
		return uint64(math.Float32bits(tooLarge))
	case BF16:
		return uint64(math.Float32bits(tooLarge) >> 16)
	case F16:
		return infinityBits(F16) - 1
	case Bool:
		return 1
	}
	return 0
}

func infinityBits(d DType) uint64 {
	switch d {
	case F64:
		return 0x7ff << 52
	case F32:
		return 0xff << 23
	case BF16:
		return 0xff << 7
	}
	return 0x1f << 10 // F16
}

// judge says what is wrong with the first bad element of the segment, "" for
// nothing. Magnitudes up to limit, which is 0 if the segment is not finite, are fine.
func (s segment) judge(src []byte, limit float64) string {
	size := int(s.dtype.Size())
	for i := range s.n {
		one := src[i*size:][:size]
		if ordinary(one, s.dtype) {
			continue
		}
		if s.dtype == Bool {
			return fmt.Sprintf("%d at index %d is no bool", one[0], s.start+int64(i))
		}
		var x [1]float64
		decode(x[:], one, s.dtype)
		if !finite(one, s.dtype) {
			return fmt.Sprintf("%v at index %d", x[0], s.start+int64(i))
		}
		if limit > 0 && math.Abs(x[0]) > limit {
			return fmt.Sprintf("%v at index %d is over %v", x[0], s.start+int64(i), limit)
		}
	}
	return ""
}

// limit returns the largest magnitude that an answer's tensor may hold, by the
// reference's one of the same index.
func (l *Layout) limit(reference Source, entry int) (float64, error) {
	e := l.Entries[entry]
	size := e.DType.Size()
	buf := make([]byte, min(e.Bytes(), windowBytes))
	largest := 1.0
	for at := int64(0); at < e.Bytes(); at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), e.Bytes()-at)]
		if err := readFull(reference.R, buf, e.Offset+at); err != nil {
			return 0, fault.New(checkOp, fault.KindOf(err), "reference model: %w", err)
		}
		var x [1]float64
		for i := int64(0); i < int64(len(buf)); i += size {
			decode(x[:], buf[i:], e.DType)
			if a := math.Abs(x[0]); a > largest { // never a NaN
				largest = a
			}
		}
	}
	return tooLarge * largest, nil
}
