package tensor

import (
	"encoding/binary"
	"math"
)

// swapBytes turns the byte order of elements of the given size around.
func swapBytes(b []byte, size int64) {
	switch size {
	case 2:
		for i := 0; i+2 <= len(b); i += 2 {
			le.PutUint16(b[i:], binary.BigEndian.Uint16(b[i:]))
		}
	case 4:
		for i := 0; i+4 <= len(b); i += 4 {
			le.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
		}
	case 8:
		for i := 0; i+8 <= len(b); i += 8 {
			le.PutUint64(b[i:], binary.BigEndian.Uint64(b[i:]))
		}
	}
}

// decodeNpy fills out with len(out) little-endian elements of src, converted
// as Go converts numbers; true is 1. One loop per type, as in convert.go.
func decodeNpy[T float32 | float64 | int64](out []T, src []byte, t NpyType) {
	switch t {
	case NpyBool:
		for i := range out {
			out[i] = 0
			if src[i] != 0 {
				out[i] = 1
			}
		}
	case NpyInt8:
		for i := range out {
			out[i] = T(int8(src[i]))
		}
	case NpyUint8:
		for i := range out {
			out[i] = T(src[i])
		}
	case NpyInt16:
		for i := range out {
			out[i] = T(int16(le.Uint16(src[2*i:])))
		}
	case NpyUint16:
		for i := range out {
			out[i] = T(le.Uint16(src[2*i:]))
		}
	case NpyInt32:
		for i := range out {
			out[i] = T(int32(le.Uint32(src[4*i:])))
		}
	case NpyUint32:
		for i := range out {
			out[i] = T(le.Uint32(src[4*i:]))
		}
	case NpyInt64:
		for i := range out {
			out[i] = T(int64(le.Uint64(src[8*i:])))
		}
	case NpyUint64:
		for i := range out {
			out[i] = T(le.Uint64(src[8*i:]))
		}
	case NpyFloat16:
		for i := range out {
			out[i] = T(f16ToFloat64(le.Uint16(src[2*i:])))
		}
	case NpyFloat32:
		for i := range out {
			out[i] = T(math.Float32frombits(le.Uint32(src[4*i:])))
		}
	case NpyFloat64:
		for i := range out {
			out[i] = T(math.Float64frombits(le.Uint64(src[8*i:])))
		}
	}
}
