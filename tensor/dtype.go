package tensor

import (
	"fmt"

	"github.com/troupe-ml/troupe/internal/fault"
)

// DType is the type of a tensor's elements. The zero value is no type.
type DType uint8

// The element types that models may hold. All are little endian.
const (
	F64 DType = iota + 1
	F32
	F16
	BF16
	I64
	I32
	I16
	I8
	U8
	Bool // one byte, 0 or 1
)

// Size returns the bytes of one element, 0 for no type.
func (d DType) Size() int64 {
	switch d {
	case F64, I64:
		return 8
	case F32, I32:
		return 4
	case F16, BF16, I16:
		return 2
	case I8, U8, Bool:
		return 1
	}
	return 0
}

// String returns the name that safetensors gives the type.
func (d DType) String() string {
	switch d {
	case F64:
		return "F64"
	case F32:
		return "F32"
	case F16:
		return "F16"
	case BF16:
		return "BF16"
	case I64:
		return "I64"
	case I32:
		return "I32"
	case I16:
		return "I16"
	case I8:
		return "I8"
	case U8:
		return "U8"
	case Bool:
		return "BOOL"
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// IsFloat reports whether the type is a floating-point one: those are averaged
// in a merge, of the others the maximum is taken.
func (d DType) IsFloat() bool { return d >= F64 && d <= BF16 }

// ParseDType returns the type with a safetensors name. A name that we do not
// support (U64, C64, F8_E4M3 and so on) is Invalid.
func ParseDType(name string) (DType, error) {
	for d := F64; d <= Bool; d++ {
		if d.String() == name {
			return d, nil
		}
	}
	return 0, fault.New("tensor.dtype", fault.Invalid,
		"dtype %q is not supported (F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL are)", name)
}
