package tensor

import (
	"fmt"

	"github.com/troupe-ml/troupe/internal/fault"
)

// NpyType is the element type of an npy array. The zero value is no type.
type NpyType uint8

// The types that npy files may hold.
const (
	NpyBool NpyType = iota + 1 // one byte; anything but 0 is true
	NpyInt8
	NpyInt16
	NpyInt32
	NpyInt64
	NpyUint8
	NpyUint16
	NpyUint32
	NpyUint64
	NpyFloat16
	NpyFloat32
	NpyFloat64
)

// Size returns the bytes of one element, 0 for no type.
func (t NpyType) Size() int64 {
	switch t {
	case NpyBool, NpyInt8, NpyUint8:
		return 1
	case NpyInt16, NpyUint16, NpyFloat16:
		return 2
	case NpyInt32, NpyUint32, NpyFloat32:
		return 4
	case NpyInt64, NpyUint64, NpyFloat64:
		return 8
	}
	return 0
}

// String returns numpy's name of the type, as in "float32".
func (t NpyType) String() string {
	kind := "?"
	switch t.kind() {
	case 'b':
		return "bool"
	case 'i':
		kind = "int"
	case 'u':
		kind = "uint"
	case 'f':
		kind = "float"
	}
	return fmt.Sprintf("%s%d", kind, 8*t.Size())
}

// kind is numpy's letter: b, i, u or f.
func (t NpyType) kind() byte {
	switch {
	case t == NpyBool:
		return 'b'
	case t >= NpyInt8 && t <= NpyInt64:
		return 'i'
	case t >= NpyUint8 && t <= NpyUint64:
		return 'u'
	case t >= NpyFloat16 && t <= NpyFloat64:
		return 'f'
	}
	return '?'
}

// descr is how a header names the little-endian type.
func (t NpyType) descr() string {
	order := byte('<')
	if t.Size() == 1 {
		order = '|'
	}
	return fmt.Sprintf("%c%c%d", order, t.kind(), t.Size())
}

// parseDescr reads a header's descr, as in "<f4".
func parseDescr(descr string) (t NpyType, bigEndian bool, err error) {
	order, rest := "", descr
	if descr != "" && (descr[0] == '<' || descr[0] == '>' || descr[0] == '|') {
		order, rest = descr[:1], descr[1:]
	}
	for t := NpyBool; t <= NpyFloat64; t++ {
		if rest == t.descr()[1:] && (order == "<" || order == ">" || order == "|" && t.Size() == 1) {
			return t, order == ">" && t.Size() > 1, nil
		}
	}
	what := "dtype"
	switch {
	case rest == "":
	case rest[0] == 'O':
		what = "object dtype (pickled Python objects, which could run code)"
	case rest[0] == 'U', rest[0] == 'S', rest[0] == 'a':
		what = "text dtype"
	case rest[0] == 'M', rest[0] == 'm':
		what = "date and time dtype"
	case rest[0] == 'c':
		what = "complex dtype"
	case rest[0] == 'V':
		what = "structured or void dtype"
	}
	return 0, false, fault.New(npyOp, fault.Invalid,
		"%s %.40q is not supported (bool, int8 to int64, uint8 to uint64, float16, float32 and float64 are)", what, descr)
}
