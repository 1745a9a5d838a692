package dataset_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/troupe-ml/troupe/internal/fault"
)

// npy writes a .npy file as numpy would. data is a slice of fixed-size values
// or a byte slice.
func npy(t testing.TB, version byte, descr string, fortran bool, shape string, order binary.ByteOrder, data any) []byte {
	t.Helper()
	flag := "False"
	if fortran {
		flag = "True"
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, flag, shape)
	b := append([]byte("\x93NUMPY"), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	b = append(b, header...)
	b, err := binary.Append(b, order, data)
	require.NoError(t, err)
	return b
}

func floatNPY(t testing.TB, shape string, values ...float32) []byte {
	return npy(t, 1, "<f4", false, shape, binary.LittleEndian, values)
}

func intNPY(t testing.TB, shape string, values ...int64) []byte {
	return npy(t, 1, "<i8", false, shape, binary.LittleEndian, values)
}

// member is one file of an archive.
type member struct {
	name string
	data []byte
}

// npz packs an archive, every second member deflated.
func npz(t testing.TB, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i, m := range members {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Method: []uint16{zip.Store, zip.Deflate}[i%2]})
		require.NoError(t, err)
		_, err = f.Write(m.data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// withX is an archive with these samples: three to train, labelled 0, 1 and 2,
// and one to test, labelled 1.
func withX(t testing.TB, x, testX []byte) []byte {
	return npz(t,
		member{"x_train.npy", x}, member{"y_train.npy", intNPY(t, "(3,)", 0, 1, 2)},
		member{"x_test.npy", testX}, member{"y_test.npy", intNPY(t, "(1,)", 1)})
}

// Every type, byte order, memory order and header version is read right.
func TestNPZTypes(t *testing.T) {
	little, big := binary.LittleEndian, binary.BigEndian
	half := func(v float32) uint16 { return float16.Fromfloat32(v).Bits() }
	halves := []uint16{half(0), half(1), half(0.5), half(3), half(-4), half(5)}
	zeroToFive := []float64{0, 1, 2, 3, 4, 5}
	for name, tt := range map[string]struct {
		version byte
		descr   string
		fortran bool
		order   binary.ByteOrder
		data    any
		xType   string
		want    []float64
	}{
		"float32":             {1, "<f4", false, little, []float32{0, 1, 2, 3, 4, 5}, "float32", zeroToFive},
		"float64 big":         {1, ">f8", false, big, []float64{0, 1, 2, 3, 4, 5}, "float64", zeroToFive},
		"float16":             {1, "<f2", false, little, halves, "float16", []float64{0, 1, 0.5, 3, -4, 5}},
		"float16 big":         {2, ">f2", false, big, halves, "float16", []float64{0, 1, 0.5, 3, -4, 5}},
		"int8":                {1, "|i1", false, little, []int8{0, 1, -128, 127, 4, 5}, "int8", []float64{0, 1, -128, 127, 4, 5}},
		"uint8, version 2":    {2, "|u1", false, little, []uint8{0, 1, 128, 255, 4, 5}, "uint8", []float64{0, 1, 128, 255, 4, 5}},
		"bool, version 3":     {3, "|b1", false, little, []bool{false, true, true, false, true, false}, "bool", []float64{0, 1, 1, 0, 1, 0}},
		"int32 big":           {1, ">i4", false, big, []int32{0, 1, 2, 3, 4, -5}, "int32", []float64{0, 1, 2, 3, 4, -5}},
		"uint16":              {1, "<u2", false, little, []uint16{0, 1, 2, 3, 4, 65535}, "uint16", []float64{0, 1, 2, 3, 4, 65535}},
		"uint64 big":          {1, ">u8", false, big, []uint64{0, 1, 2, 3, 4, 5}, "uint64", zeroToFive},
		"Fortran":             {1, "<f4", true, little, []float32{0, 2, 4, 1, 3, 5}, "float32", zeroToFive},
		"Fortran, big":        {3, ">f8", true, big, []float64{0, 2, 4, 1, 3, 5}, "float64", zeroToFive},
		"Fortran, big, int16": {2, ">i2", true, big, []int16{0, 2, 4, 1, 3, 5}, "int16", zeroToFive},
	} {
		t.Run(name, func(t *testing.T) {
			x := npy(t, tt.version, tt.descr, tt.fortran, "(3, 2)", tt.order, tt.data)
			size := binary.Size(tt.data) / 6
			test := npy(t, 1, tt.descr, tt.fortran, "(1, 2)", tt.order, make([]byte, 2*size))
			d, err := importFile(t, "d.npz", withX(t, x, test))
			require.NoError(t, err)
			require.Equal(t, tt.xType, d.XType)
			require.Equal(t, []int64{2}, d.XShape)
			require.EqualValues(t, 3, d.Train)
			require.EqualValues(t, 1, d.Test)
			require.Equal(t, append(tt.want, 0, 0), d.x)
			require.Equal(t, []float64{0, 1, 2, 1}, d.y)
			require.Empty(t, d.Warnings)
		})
	}
}

func TestNPZDigestIsThatOfTheContent(t *testing.T) {
	le, be := binary.LittleEndian, binary.BigEndian
	test := floatNPY(t, "(1, 2)", 6, 7)
	digests := map[string]bool{}
	for _, x := range [][]byte{
		floatNPY(t, "(3, 2)", 0, 1, 2, 3, 4, 5),
		npy(t, 2, ">f4", false, "(3, 2)", be, []float32{0, 1, 2, 3, 4, 5}),
		npy(t, 3, "<f4", true, "(3, 2)", le, []float32{0, 2, 4, 1, 3, 5}),
	} {
		d, err := importFile(t, "d.npz", withX(t, x, test))
		require.NoError(t, err)
		digests[d.Digest] = true
	}
	require.Len(t, digests, 1)
}

func TestNPZWithoutATestPartIsSplit(t *testing.T) {
	d, err := importFile(t, "d.npz", npz(t,
		member{"y_train.npy", intNPY(t, "(10,)", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)},
		member{"x_train.npy", floatNPY(t, "(10, 1, 1)", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)},
		member{"notes.txt", []byte("what else is in it does not matter")}))
	require.NoError(t, err)
	require.EqualValues(t, 8, d.Train)
	require.EqualValues(t, 2, d.Test)
	require.Equal(t, []int64{1, 1}, d.XShape)
	require.Equal(t, d.x, d.y)

	csv := "0,0\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n7,7\n8,8\n9,9\n"
	same, err := importFile(t, "d.csv", []byte(csv))
	require.NoError(t, err)
	require.Equal(t, same.x, d.x, "the split depends on the number of samples and the seed alone")
}

func TestNPZNonFiniteFeatures(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	d, err := importFile(t, "d.npz", withX(t, floatNPY(t, "(3, 2)", nan, 0, 0, inf, -inf, 0), floatNPY(t, "(1, 2)", nan, 0)))
	require.NoError(t, err)
	require.Equal(t, []string{"x has 4 values that are NaN or infinite"}, d.Warnings)
	for _, bits := range []any{
		[]uint16{0x7e00, 0xfc00, 0x7bff, 0, 1, 0x3c00}, // NaN, -Inf, the largest, 0, the smallest, 1
		[]float64{math.NaN(), math.Inf(-1), math.MaxFloat64, 0, math.SmallestNonzeroFloat64, 1},
	} {
		descr := fmt.Sprintf("<f%d", binary.Size(bits)/6)
		x := npy(t, 1, descr, false, "(3, 2)", binary.LittleEndian, bits)
		d, err := importFile(t, "d.npz", npz(t, member{"x_train.npy", x}, member{"y_train.npy", intNPY(t, "(3,)", 0, 1, 2)}))
		require.NoError(t, err)
		require.Equal(t, []string{"x has 2 values that are NaN or infinite"}, d.Warnings)
	}
}

func TestNPZIsRefusedWithTheReason(t *testing.T) {
	le := binary.LittleEndian
	x, y := floatNPY(t, "(3, 2)", 0, 1, 2, 3, 4, 5), intNPY(t, "(3,)", 0, 1, 2)
	tx, ty := floatNPY(t, "(1, 2)", 6, 7), intNPY(t, "(1,)", 1)
	train := func(x, y []byte) []byte { return npz(t, member{"x_train.npy", x}, member{"y_train.npy", y}) }
	four := func(x, y, tx, ty []byte) []byte {
		return npz(t, member{"x_train.npy", x}, member{"y_train.npy", y}, member{"x_test.npy", tx}, member{"y_test.npy", ty})
	}
	good := four(x, y, tx, ty)
	flipped := bytes.Clone(good)
	flipped[bytes.Index(good, x)+len(x)-1] ^= 1
	for name, tt := range map[string]struct {
		content []byte
		kind    fault.Kind
		want    string
	}{
		"no archive":        {[]byte("hello"), fault.Corrupt, "no .npz archive"},
		"truncated archive": {good[:len(good)-30], fault.Corrupt, "no .npz archive"},
		"flipped bit":       {flipped, fault.Corrupt, "x_train: cannot be unpacked"},
		"empty archive":     {npz(t), fault.Invalid, "no array x_train"},
		"other names":       {npz(t, member{"x.npy", x}, member{"y.npy", y}), fault.Invalid, `no array x_train in the archive, which has: "x", "y"`},
		"no labels":         {npz(t, member{"x_train.npy", x}), fault.Invalid, "no array y_train"},
		"half a test part":  {npz(t, member{"x_train.npy", x}, member{"y_train.npy", y}, member{"y_test.npy", ty}), fault.Invalid, "of x_test and y_test only one"},
		"twice":             {npz(t, member{"x_train.npy", x}, member{"x_train.npy", x}), fault.Invalid, "twice"},
		"lengths":           {train(x, intNPY(t, "(2,)", 0, 1)), fault.Invalid, "x_train has 3 samples, y_train has 2 labels"},
		"test lengths":      {four(x, y, tx, y), fault.Invalid, "x_test has 1 samples, y_test has 3 labels"},
		"objects":           {train(npy(t, 1, "|O", false, "(3,)", le, []byte("pickle")), y), fault.Invalid, "x_train: object dtype"},
		"object labels":     {train(x, npy(t, 1, "|O", false, "(3,)", le, []byte("pickle"))), fault.Invalid, "y_train: object dtype"},
		"text":              {train(npy(t, 1, "<U3", false, "(3,)", le, make([]byte, 36)), y), fault.Invalid, "text dtype"},
		"complex":           {train(npy(t, 1, "<c8", false, "(3,)", le, make([]byte, 24)), y), fault.Invalid, "complex dtype"},
		"0-d":               {train(floatNPY(t, "()", 1), y), fault.Invalid, "x_train: 0-d"},
		"no samples":        {train(floatNPY(t, "(0, 2)"), intNPY(t, "(0,)")), fault.Invalid, "empty: its shape is [0 2]"},
		"no values":         {train(floatNPY(t, "(3, 0)"), y), fault.Invalid, "empty: its shape is [3 0]"},
		"empty test part":   {four(x, y, floatNPY(t, "(0, 2)"), intNPY(t, "(0,)")), fault.Invalid, "x_test: empty"},
		"truncated array":   {train(x[:len(x)-1], y), fault.Corrupt, "x_train: truncated"},
		"bytes behind":      {train(append(bytes.Clone(x), 0), y), fault.Corrupt, "follow"},
		"no npy":            {train([]byte("x"), y), fault.Invalid, "x_train: "},
		"NaN label":         {train(x, floatNPY(t, "(3,)", 0, float32(math.NaN()), 1)), fault.Invalid, "y_train: the label of sample 1 is NaN or infinite"},
		"NaN label row":     {train(x, floatNPY(t, "(3, 2)", 0, 0, 0, 0, 0, float32(math.Inf(1)))), fault.Invalid, "the label of sample 2 is"},
		"NaN test label":    {four(x, floatNPY(t, "(3,)", 0, 1, 2), tx, floatNPY(t, "(1,)", float32(math.NaN()))), fault.Invalid, "y_test: the label of sample 0"},
		"other test shape":  {four(x, y, floatNPY(t, "(1, 3)", 1, 2, 3), ty), fault.Invalid, "samples of x_train are float32 [2], those of x_test float32 [3]"},
		"other test type":   {four(x, y, tx, floatNPY(t, "(1,)", 1)), fault.Invalid, "samples of y_train are int64 [], those of y_test float32 []"},
		"zip bomb":          {bomb(t, x, y), fault.Corrupt, "x_train: cannot be unpacked"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := importFile(t, "d.npz", tt.content)
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, tt.kind, fault.KindOf(err), "%v", err)
		})
	}
}

// bomb is an archive whose x_train unpacks to more than it says.
func bomb(t *testing.T, x, y []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range map[string][]byte{"x_train.npy": x, "y_train.npy": y} {
		size := uint64(len(data))
		if name == "x_train.npy" {
			size = 10
		}
		f, err := w.CreateRaw(&zip.FileHeader{
			Name: name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE(data),
			CompressedSize64: uint64(len(stored(data))), UncompressedSize64: size,
		})
		require.NoError(t, err)
		_, err = f.Write(stored(data))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// stored is data as one deflate block that is not compressed.
func stored(data []byte) []byte {
	n := uint16(len(data))
	b := binary.LittleEndian.AppendUint16([]byte{1}, n)
	return append(binary.LittleEndian.AppendUint16(b, ^n), data...)
}
