package tensor

import (
	"math"

	"github.com/x448/float16"
)

// f16ToFloat64 and bf16ToFloat64 are exact.
func f16ToFloat64(bits uint16) float64 { return float64(float16.Frombits(bits).Float32()) }

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
