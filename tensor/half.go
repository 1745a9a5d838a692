package tensor

import (
	"math"

	"github.com/x448/float16"
)

// f16ToFloat64 is exact: exponent and fraction, moved to where a float32 has
// them, give the value times 2^-112, subnormals included; infinities and NaN
// get all bits of the wider exponent. (The library's way is too long to be
// inlined, and the merge decodes n values for each that it encodes.)
func f16ToFloat64(bits uint16) float64 {
	b := uint32(bits&0x7fff) << 13
	if b >= 0x1f<<23 {
		b |= 0xff << 23
	}
	return float64(math.Float32frombits(b|uint32(bits&0x8000)<<16) * 0x1p112)
}

// bf16ToFloat64 is exact: a bfloat16 is the upper half of a float32.
func bf16ToFloat64(bits uint16) float64 {
	return float64(math.Float32frombits(uint32(bits) << 16))
}

// float64ToF16 rounds to the nearest float16, ties to even; what is too large
// becomes infinite.
func float64ToF16(x float64) uint16 { return float16.Fromfloat32(oddFloat32(x)).Bits() }

// float64ToBF16 rounds to the nearest bfloat16, ties to even; what is too large
// becomes infinite, and a NaN stays one.
func float64ToBF16(x float64) uint16 {
	if math.IsNaN(x) {
		return 0x7fc0
	}
	b := math.Float32bits(oddFloat32(x))
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// oddFloat32 rounds x to float32 so that rounding the result once more, to a
// type with at least two bits less, equals rounding x once: what is inexact is
// cut towards zero and its last bit set ("round to odd"). Going through an
// ordinarily rounded float32 would round ties twice.
func oddFloat32(x float64) float32 {
	f := float32(x)
	back := float64(f)
	if back == x || x != x {
		return f
	}
	b := math.Float32bits(f)
	if math.Abs(back) > math.Abs(x) {
		b--
	}
	return math.Float32frombits(b | 1)
}
