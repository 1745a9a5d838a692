package tensor

import "math"

// addScaled adds w times the elements of src to acc. The conversion of the
// product forbids the compiler to fuse it with the sum, which would give other
// bits on other processors.
func addScaled(acc []float64, src []byte, d DType, w float64) {
	switch d {
	case F64:
		for i := range acc {
			acc[i] += float64(w * math.Float64frombits(le.Uint64(src[8*i:])))
		}
	case F32:
		addScaledF32(acc, src, w)
	case F16:
		for i := range acc {
			acc[i] += float64(w * f16ToFloat64(le.Uint16(src[2*i:])))
		}
	case BF16:
		for i := range acc {
			acc[i] += float64(w * bf16ToFloat64(le.Uint16(src[2*i:])))
		}
	}
}

// setScaled sets acc to w times the elements of src. (Adding to zeros instead
// would lose the sign of -0.)
func setScaled(acc []float64, src []byte, d DType, w float64) {
	if d == F32 {
		setScaledF32(acc, src, w)
		return
	}
	decode(acc, src, d)
	for i := range acc {
		acc[i] *= w
	}
}

func addScaledF32(acc []float64, src []byte, w float64) {
	for len(acc) >= 8 && len(src) >= 32 {
		a, s := acc[:8:8], src[:32:32]
		a[0] += float64(w * float64(math.Float32frombits(le.Uint32(s[0:]))))
		a[1] += float64(w * float64(math.Float32frombits(le.Uint32(s[4:]))))
		a[2] += float64(w * float64(math.Float32frombits(le.Uint32(s[8:]))))
		a[3] += float64(w * float64(math.Float32frombits(le.Uint32(s[12:]))))
		a[4] += float64(w * float64(math.Float32frombits(le.Uint32(s[16:]))))
		a[5] += float64(w * float64(math.Float32frombits(le.Uint32(s[20:]))))
		a[6] += float64(w * float64(math.Float32frombits(le.Uint32(s[24:]))))
		a[7] += float64(w * float64(math.Float32frombits(le.Uint32(s[28:]))))
		acc, src = acc[8:], src[32:]
	}
	for i := range acc {
		acc[i] += float64(w * float64(math.Float32frombits(le.Uint32(src[4*i:]))))
	}
}

func setScaledF32(acc []float64, src []byte, w float64) {
	for len(acc) >= 8 && len(src) >= 32 {
		a, s := acc[:8:8], src[:32:32]
		a[0] = w * float64(math.Float32frombits(le.Uint32(s[0:])))
		a[1] = w * float64(math.Float32frombits(le.Uint32(s[4:])))
		a[2] = w * float64(math.Float32frombits(le.Uint32(s[8:])))
		a[3] = w * float64(math.Float32frombits(le.Uint32(s[12:])))
		a[4] = w * float64(math.Float32frombits(le.Uint32(s[16:])))
		a[5] = w * float64(math.Float32frombits(le.Uint32(s[20:])))
		a[6] = w * float64(math.Float32frombits(le.Uint32(s[24:])))
		a[7] = w * float64(math.Float32frombits(le.Uint32(s[28:])))
		acc, src = acc[8:], src[32:]
	}
	for i := range acc {
		acc[i] = w * float64(math.Float32frombits(le.Uint32(src[4*i:])))
	}
}

// addTo adds src to acc, element by element.
func addTo(acc, src []float64) {
	src = src[:len(acc)]
	for i := range acc {
		acc[i] += src[i]
	}
}

// divide divides acc by total and returns what unfit does, in one pass.
func divide(acc []float64, total float64, d DType) int {
	limit := maxFinite(d)
	bad := false
	for i, x := range acc {
		x /= total
		acc[i] = x
		if !(math.Abs(x) <= limit) {
			bad = true
		}
	}
	if bad {
		return unfit(acc, d)
	}
	return -1
}

// unfit returns the index of the first value that is not finite once it is a d,
// or -1.
func unfit(values []float64, d DType) int {
	limit := maxFinite(d)
	for i, x := range values {
		if !(math.Abs(x) <= limit) {
			return i
		}
	}
	return -1
}

// maxFinite returns the largest float64 that d can hold without becoming
// infinite: the type's maximum, with the slack of rounding down to it.
func maxFinite(d DType) float64 {
	switch d {
	case F32:
		return math.MaxFloat32 * (1 + 0x1p-26)
	case F16:
		return 65504 + 8
	case BF16:
		return 0x1.fep127 * (1 + 0x1p-10)
	}
	return math.MaxFloat64
}

// maxInto keeps in acc the greater of its elements and those of src, both of
// the integer or bool type d.
func maxInto(acc, src []byte, d DType) {
	switch d {
	case I64:
		for i := 0; i+8 <= len(acc); i += 8 {
			if x := le.Uint64(src[i:]); int64(x) > int64(le.Uint64(acc[i:])) {
				le.PutUint64(acc[i:], x)
			}
		}
	case I32:
		for i := 0; i+4 <= len(acc); i += 4 {
			if x := le.Uint32(src[i:]); int32(x) > int32(le.Uint32(acc[i:])) {
				le.PutUint32(acc[i:], x)
			}
		}
	case I16:
		for i := 0; i+2 <= len(acc); i += 2 {
			if x := le.Uint16(src[i:]); int16(x) > int16(le.Uint16(acc[i:])) {
				le.PutUint16(acc[i:], x)
			}
		}
	case I8:
		for i := range acc {
			acc[i] = byte(max(int8(acc[i]), int8(src[i])))
		}
	case U8, Bool:
		for i := range acc {
			acc[i] = max(acc[i], src[i])
		}
	}
}
