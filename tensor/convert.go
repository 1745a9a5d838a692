package tensor

import (
	"encoding/binary"
	"math"
)

// The loops of this file and of accumulate.go are one per type, without calls
// that the compiler cannot inline: a merge spends its time in them.

var le = binary.LittleEndian

// decode fills out with len(out) elements of src.
func decode(out []float64, src []byte, d DType) {
	switch d {
	case F64:
		for i := range out {
			out[i] = math.Float64frombits(le.Uint64(src[8*i:]))
		}
	case F32:
		for i := range out {
			out[i] = float64(math.Float32frombits(le.Uint32(src[4*i:])))
		}
	case F16:
		for i := range out {
			out[i] = f16ToFloat64(le.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range out {
			out[i] = bf16ToFloat64(le.Uint16(src[2*i:]))
		}
	case I64:
		for i := range out {
			out[i] = float64(int64(le.Uint64(src[8*i:])))
		}
	case I32:
		for i := range out {
			out[i] = float64(int32(le.Uint32(src[4*i:])))
		}
	case I16:
		for i := range out {
			out[i] = float64(int16(le.Uint16(src[2*i:])))
		}
	case I8:
		for i := range out {
			out[i] = float64(int8(src[i]))
		}
	case U8:
		for i := range out {
			out[i] = float64(src[i])
		}
	case Bool:
		for i := range out {
			if src[i] != 0 {
				out[i] = 1
			}
		}
	}
}

// encode fills dst with the elements of v, rounded to the type.
func encode(dst []byte, v []float64, d DType) {
	switch d {
	case F64:
		for i, x := range v {
			le.PutUint64(dst[8*i:], math.Float64bits(x))
		}
	case F32:
		for i, x := range v {
			le.PutUint32(dst[4*i:], math.Float32bits(float32(x)))
		}
	case F16:
		for i, x := range v {
			le.PutUint16(dst[2*i:], float64ToF16(x))
		}
	case BF16:
		for i, x := range v {
			le.PutUint16(dst[2*i:], float64ToBF16(x))
		}
	case I64:
		for i, x := range v {
			le.PutUint64(dst[8*i:], uint64(int64(x)))
		}
	case I32:
		for i, x := range v {
			le.PutUint32(dst[4*i:], uint32(int32(x)))
		}
	case I16:
		for i, x := range v {
			le.PutUint16(dst[2*i:], uint16(int16(x)))
		}
	case I8:
		for i, x := range v {
			dst[i] = byte(int8(x))
		}
	case U8:
		for i, x := range v {
			dst[i] = byte(x)
		}
	case Bool:
		for i, x := range v {
			dst[i] = 0
			if x != 0 {
				dst[i] = 1
			}
		}
	}
}
