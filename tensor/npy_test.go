package tensor_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// npyFile puts an npy file of a version together.
func npyFile(version byte, header string, data ...byte) []byte {
	b := append([]byte("\x93NUMPY"), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(header)))
	}
	return append(append(b, header...), data...)
}

func npyHeader(descr string, fortran bool, shape string) string {
	order := map[bool]string{false: "False", true: "True"}[fortran]
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }   \n", descr, order, shape)
}

func openNpy(t *testing.T, data []byte) *tensor.NpyFile {
	t.Helper()
	f, err := tensor.OpenNpy(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return f
}

func convertNpy(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, tensor.ConvertNpy(&b, bytes.NewReader(data), int64(len(data))))
	return b.Bytes()
}

// Reported case 23: every type, in both byte orders.
func TestNpyTypesAreRead(t *testing.T) {
	for _, c := range []struct {
		descr  string
		dtype  tensor.NpyType
		little []byte // three elements
		want   []float64
	}{
		{"b1", tensor.NpyBool, []byte{0, 1, 2}, []float64{0, 1, 1}},
		{"i1", tensor.NpyInt8, []byte{0, 0x80, 0x7f}, []float64{0, -128, 127}},
		{"u1", tensor.NpyUint8, []byte{0, 0x80, 0xff}, []float64{0, 128, 255}},
		{"i2", tensor.NpyInt16, []byte{1, 0, 0xff, 0xff, 0, 0x80}, []float64{1, -1, -32768}},
		{"u2", tensor.NpyUint16, []byte{1, 0, 0xff, 0xff, 0, 0x80}, []float64{1, 65535, 32768}},
		{"i4", tensor.NpyInt32, []byte{1, 2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x80}, []float64{513, -1, -0x1p31}},
		{"u4", tensor.NpyUint32, []byte{1, 2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0x80}, []float64{513, 0x1p32 - 1, 0x1p31}},
		{"i8", tensor.NpyInt64, []byte{1, 2, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 0, 0, 0}, []float64{513, -1, 0x1p32}},
		{"u8", tensor.NpyUint64, []byte{1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 1, 0, 0, 0}, []float64{513, 0x1p62, 0x1p32}},
		{"f2", tensor.NpyFloat16, []byte{0, 0x3c, 0, 0xc0, 0xff, 0x7b}, []float64{1, -2, 65504}},
		{"f4", tensor.NpyFloat32, []byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0}, []float64{1, -2, 0}},
		{"f8", tensor.NpyFloat64, []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0}, []float64{1, -2, 0}},
	} {
		size := len(c.little) / 3
		big := bytes.Clone(c.little)
		for i := 0; i < len(big); i += size {
			for k := range size {
				big[i+k] = c.little[i+size-1-k]
			}
		}
		files := map[string][]byte{"<" + c.descr: c.little, ">" + c.descr: big}
		if size == 1 {
			files["|"+c.descr] = c.little
		}
		for descr, data := range files {
			t.Run(descr, func(t *testing.T) {
				npy := npyFile(1, npyHeader(descr, false, "(3,)"), data...)
				f := openNpy(t, npy)
				require.Equal(t, c.dtype, f.DType)
				require.Equal(t, descr[0] == '>' && size > 1, f.BigEndian)
				all := []int64{0, 1, 2}
				doubles, floats, ints := make([]float64, 3), make([]float32, 3), make([]int64, 3)
				require.NoError(t, f.Float64Rows(doubles, all))
				require.NoError(t, f.Float32Rows(floats, all))
				require.NoError(t, f.Int64Rows(ints, all))
				require.Equal(t, c.want, doubles)
				for i, x := range c.want {
					require.Equal(t, float32(x), floats[i])
					require.Equal(t, int64(x), ints[i])
				}
				converted := convertNpy(t, npy)
				require.Equal(t, c.little, converted[len(converted)-len(c.little):])
				require.Zero(t, (len(converted)-len(c.little))%64)
				require.Equal(t, converted, convertNpy(t, converted))
			})
		}
	}
}

// Reported case 23: versions, 0-d, zero length, and writers other than numpy.
func TestNpyHeadersAreRead(t *testing.T) {
	four := make([]byte, 16)
	for name, c := range map[string]struct {
		file  []byte
		shape []int64
		rows  int64
	}{
		"version 1":              {npyFile(1, npyHeader("<f4", false, "(2, 2)"), four...), []int64{2, 2}, 2},
		"version 2":              {npyFile(2, npyHeader("<f4", false, "(4,)"), four...), []int64{4}, 4},
		"version 3":              {npyFile(3, npyHeader("<f4", false, "(1, 1, 4)"), four...), []int64{1, 1, 4}, 1},
		"0-d":                    {npyFile(1, npyHeader("<f8", false, "()"), four[:8]...), []int64{}, 1},
		"zero length":            {npyFile(1, npyHeader("<f8", false, "(0,)")), []int64{0}, 0},
		"no rows":                {npyFile(1, npyHeader("<f8", true, "(0, 5)")), []int64{0, 5}, 0},
		"rows of nothing":        {npyFile(1, npyHeader("<f8", true, "(5, 0)")), []int64{5, 0}, 5},
		"Python 2":               {npyFile(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 2L), }\n", four...), []int64{2, 2}, 2},
		"other quotes and order": {npyFile(1, `{"shape":(4,),"fortran_order":False,"descr":"<f4"}`, four...), []int64{4}, 4},
		"Fortran where it is C":  {npyFile(1, npyHeader("<f4", true, "(1, 4, 1)"), four...), []int64{1, 4, 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := openNpy(t, c.file)
			require.Equal(t, c.shape, f.Shape)
			require.Equal(t, c.rows, f.Rows())
			require.False(t, f.Fortran)
			require.Equal(t, f.Elements(), f.Rows()*f.RowElements())
			all := make([]int64, f.Rows())
			for i := range all {
				all[i] = int64(i)
			}
			require.NoError(t, f.Float32Rows(make([]float32, f.Elements()), all))
			converted := openNpy(t, convertNpy(t, c.file))
			require.Equal(t, c.shape, converted.Shape)
			require.Equal(t, f.DType, converted.DType)
		})
	}
}

func TestNpyHeadersAreWrittenAsNumpyDoes(t *testing.T) {
	for shape, want := range map[string]string{
		"":     "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
		"3":    "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
		"3 40": "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 40), }",
	} {
		var dims []int64
		for _, s := range strings.Fields(shape) {
			var d int64
			_, err := fmt.Sscan(s, &d)
			require.NoError(t, err)
			dims = append(dims, d)
		}
		var b bytes.Buffer
		require.NoError(t, tensor.WriteNpyHeader(&b, tensor.NpyFloat32, dims))
		require.Equal(t, "\x93NUMPY\x01\x00\x76\x00"+want+strings.Repeat(" ", 117-len(want))+"\n", b.String())
	}
	for _, shape := range [][]int64{{-1}, {1 << 62, 4}, {1 << 61}, make([]int64, 40_000)} {
		require.Equal(t, fault.Invalid, fault.KindOf(tensor.WriteNpyHeader(io.Discard, tensor.NpyFloat64, shape)))
	}
	require.Equal(t, fault.Invalid, fault.KindOf(tensor.WriteNpyHeader(io.Discard, 0, nil)))
	require.Equal(t, fault.Unavailable, fault.KindOf(tensor.WriteNpyHeader(&failing{}, tensor.NpyBool, nil)))
}

// Reported case 23: what is not read is refused with the reason.
func TestNpyFilesAreRefusedWithTheReason(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		kind fault.Kind
		text string
	}{
		"an empty file":              {nil, fault.Invalid, "it is empty"},
		"a text":                     {[]byte("1,2,3\n"), fault.Invalid, `begins with "1,2,3\n"`},
		"an archive":                 {[]byte("PK\x03\x04"), fault.Invalid, "zip archive"},
		"a pickle":                   {[]byte("\x80\x04\x95"), fault.Invalid, "pickle, which could run code"},
		"nothing but the magic":      {[]byte("\x93NUMPY"), fault.Corrupt, "truncated"},
		"version 2 without length":   {[]byte("\x93NUMPY\x02\x00\x76\x00"), fault.Corrupt, "truncated"},
		"version 4":                  {npyFile(4, npyHeader("<f4", false, "(0,)")), fault.Invalid, "version 4.0"},
		"a header beyond the file":   {npyFile(1, npyHeader("<f4", false, "(0,)"))[:30], fault.Corrupt, "truncated: header"},
		"a header of 4 GB":           {[]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), fault.Corrupt, "over the limit"},
		"objects":                    {npyFile(1, npyHeader("|O", false, "(1,)"), 0x80, 4), fault.Invalid, "object dtype"},
		"a structure":                {npyFile(1, "{'descr': [('x', '<f4'), ('y', '<i4')], 'fortran_order': False, 'shape': (0,), }"), fault.Invalid, "structured dtype"},
		"a void":                     {npyFile(1, npyHeader("|V8", false, "(0,)")), fault.Invalid, "structured or void"},
		"texts":                      {npyFile(1, npyHeader("<U5", false, "(0,)")), fault.Invalid, `text dtype "<U5"`},
		"bytes":                      {npyFile(1, npyHeader("|S5", false, "(0,)")), fault.Invalid, "text dtype"},
		"dates":                      {npyFile(1, npyHeader("<M8[ns]", false, "(0,)")), fault.Invalid, "date and time"},
		"complex numbers":            {npyFile(1, npyHeader("<c8", false, "(0,)")), fault.Invalid, "complex dtype"},
		"long doubles":               {npyFile(1, npyHeader("<f16", false, "(0,)")), fault.Invalid, `dtype "<f16"`},
		"an order of no meaning":     {npyFile(1, npyHeader("|f4", false, "(0,)")), fault.Invalid, `dtype "|f4"`},
		"no dtype":                   {npyFile(1, npyHeader("", false, "(0,)")), fault.Invalid, `dtype ""`},
		"no dict":                    {npyFile(1, "[]"), fault.Corrupt, "a dict belongs"},
		"a key too few":              {npyFile(1, "{'descr': '<f4', 'shape': (0,)}"), fault.Corrupt, "not all there"},
		"a key too many":             {npyFile(1, "{'descr': '<f4', 'x': 1}"), fault.Corrupt, `unknown key "x"`},
		"a key twice":                {npyFile(1, "{'descr': '<f4', 'descr': '<f4'}"), fault.Corrupt, "twice"},
		"an order that is a number":  {npyFile(1, "{'fortran_order': 0}"), fault.Corrupt, "True or False"},
		"a shape that is a number":   {npyFile(1, "{'shape': (4)}"), fault.Corrupt, "a comma"},
		"a negative dimension":       {npyFile(1, "{'shape': (-1,)}"), fault.Corrupt, "a dimension"},
		"a dimension over 2^63":      {npyFile(1, "{'shape': (9223372036854775808,)}"), fault.Corrupt, "a dimension"},
		"a shape that overflows":     {npyFile(1, npyHeader("<f8", false, "(4294967296, 4294967296)")), fault.Corrupt, "overflows"},
		"bytes that overflow":        {npyFile(1, npyHeader("<f8", false, "(2305843009213693952,)")), fault.Corrupt, "overflows"},
		"an open text":               {npyFile(1, "{'descr"), fault.Corrupt, "a text"},
		"no colon":                   {npyFile(1, "{'descr' '<f4'}"), fault.Corrupt, "a colon"},
		"no comma":                   {npyFile(1, "{'fortran_order': True 'shape': ()}"), fault.Corrupt, "a comma"},
		"text after the dict":        {npyFile(1, npyHeader("<f8", false, "(0,)")+"x"), fault.Corrupt, "end belongs"},
		"data that end early":        {npyFile(1, npyHeader("<f8", false, "(2,)"), make([]byte, 15)...), fault.Corrupt, "truncated: float64 [2] takes 16 bytes, the file has 15"},
		"data after the data":        {npyFile(1, npyHeader("<f8", false, "(2,)"), make([]byte, 17)...), fault.Corrupt, "1 bytes follow"},
		"a 0-d array without number": {npyFile(1, npyHeader("<f8", false, "()")), fault.Corrupt, "truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tensor.ConvertNpy(io.Discard, bytes.NewReader(c.file), int64(len(c.file)))
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
		})
	}
	whole := npyFile(1, npyHeader("<f8", false, "(2,)"), make([]byte, 16)...)
	for n := range whole {
		err := tensor.ConvertNpy(io.Discard, bytes.NewReader(whole[:n]), int64(len(whole)))
		require.Equal(t, fault.Corrupt, fault.KindOf(err), "a reader that ends at %d: %v", n, err)
		err = tensor.ConvertNpy(&failing{left: int64(n)}, bytes.NewReader(whole), int64(len(whole)))
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "a writer that fails at %d", n)
	}
}

// The oracle counts through all indices, the last fastest.
func TestFortranOrderBecomesCOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	shapes := [][]int64{{2, 3}, {3, 1, 2}, {5000, 1000}, {7, 9001}, {9001, 7}, {2, 3, 4, 5}}
	for range 50 {
		shape := make([]int64, 2+rnd.IntN(3))
		for i := range shape {
			shape[i] = int64(1 + rnd.IntN(9))
		}
		shapes = append(shapes, shape)
	}
	for i, shape := range shapes {
		size := []int{4, 1, 2, 8}[i%4]
		if i < 6 {
			size = 4
		}
		count := int64(1)
		strides := make([]int64, len(shape)) // of the file
		for k, d := range shape {
			strides[k] = count
			count *= d
		}
		data := make([]byte, count*int64(size))
		for k := range data {
			data[k] = byte(rnd.Uint32())
		}
		want := make([]byte, 0, len(data))
		index := make([]int64, len(shape))
		for range count {
			var at int64
			for k := range index {
				at += index[k] * strides[k]
			}
			want = append(want, data[at*int64(size):(at+1)*int64(size)]...)
			for k := len(index) - 1; k >= 0; k-- {
				if index[k]++; index[k] < shape[k] {
					break
				}
				index[k] = 0
			}
		}
		tuple := strings.ReplaceAll(strings.Trim(fmt.Sprint(shape), "[]"), " ", ", ")
		npy := npyFile(1, npyHeader(fmt.Sprintf("<u%d", size), true, "("+tuple+")"), data...)
		converted := convertNpy(t, npy)
		require.True(t, bytes.Equal(want, converted[len(converted)-len(want):]), "%v", shape)
		n, err := tensor.ParseNpy(bytes.NewReader(npy), int64(len(npy)))
		require.NoError(t, err)
		if n.Fortran {
			_, err = tensor.OpenNpy(bytes.NewReader(npy), int64(len(npy)))
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		}
	}
	n := tensor.Npy{DType: tensor.NpyUint8, Shape: []int64{2, 257 << 20}}
	header := npyFile(1, npyHeader("|u1", true, fmt.Sprintf("(2, %d)", n.RowElements())))
	err := tensor.ConvertNpy(io.Discard, zeros{header}, int64(len(header))+n.Elements())
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "save the array in C order")
}

// counting counts calls and remembers whether offsets went down.
type counting struct {
	r     io.ReaderAt
	calls int
	last  int64
	down  bool
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.calls++
	c.down = c.down || off < c.last
	c.last = off
	return c.r.ReadAt(p, off)
}

func TestRowsComeInTheOrderAskedFor(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 6))
	for _, c := range []struct{ rows, elems int64 }{{1437, 64}, {50, 1000}, {9, 70_000}, {200, 1}, {1, 1}} {
		data := make([]byte, 0, 4*c.rows*c.elems)
		for i := range c.rows * c.elems {
			data = binary.BigEndian.AppendUint32(data, uint32(i))
		}
		npy := npyFile(1, npyHeader(">i4", false, fmt.Sprintf("(%d, %d)", c.rows, c.elems)), data...)
		r := &counting{r: bytes.NewReader(npy)}
		f, err := tensor.OpenNpy(r, int64(len(npy)))
		require.NoError(t, err)
		for range 20 {
			positions := make([]int64, rnd.IntN(20))
			for i := range positions {
				positions[i] = rnd.Int64N(c.rows)
			}
			got := make([]int64, int64(len(positions))*c.elems)
			*r = counting{r: r.r}
			require.NoError(t, f.Int64Rows(got, positions))
			require.False(t, r.down, "the file is read in ascending order")
			for i, p := range positions {
				require.Equal(t, p*c.elems, got[int64(i)*c.elems])
				require.Equal(t, (p+1)*c.elems-1, got[int64(i+1)*c.elems-1])
			}
		}
		all := make([]int64, c.rows)
		for i, p := range rnd.Perm(int(c.rows)) {
			all[i] = int64(p)
		}
		*r = counting{r: r.r}
		require.NoError(t, f.Float32Rows(make([]float32, c.rows*c.elems), all))
		require.LessOrEqual(t, int64(r.calls), 2+2*int64(len(data))/(256<<10), "neighbours are read together")
	}
}

func TestRowsThatCannotBeReadAreRefused(t *testing.T) {
	f := openNpy(t, npyFile(1, npyHeader("<f8", false, "(3,)"), tensor.NewFloat64("", nil, []float64{1, 1.5, math.NaN()}).Data...))
	for name, err := range map[string]error{
		"not in [0, 3)":                 f.Float32Rows(make([]float32, 1), []int64{3}),
		"row -1":                        f.Float64Rows(make([]float64, 2), []int64{0, -1}),
		"2 rows of 1 elements":          f.Int64Rows(make([]int64, 3), []int64{0, 1}),
		"row 1: 1.5 is no int64":        f.Int64Rows(make([]int64, 2), []int64{0, 1}),
		"row 2: NaN is no int64":        f.Int64Rows(make([]int64, 1), []int64{2}),
		"row 0: 18446744073709551615 i": openNpy(t, npyFile(1, npyHeader("<u8", false, "(1,)"), bytes.Repeat([]byte{255}, 8)...)).Int64Rows(make([]int64, 1), []int64{0}),
	} {
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, f.Int64Rows(nil, nil))
	header := npyFile(1, npyHeader("|u1", false, "(1, 900000)"))
	f, err := tensor.OpenNpy(&failing{zeros{header}, 300_000}, 900_000+int64(len(header)))
	require.NoError(t, err)
	require.Equal(t, fault.Unavailable, fault.KindOf(f.Float32Rows(make([]float32, 900_000), []int64{0})))
}

func FuzzParseNpy(f *testing.F) {
	f.Add(npyFile(1, npyHeader("<f4", false, "(2,)"), make([]byte, 8)...))
	f.Add(npyFile(2, npyHeader(">u2", true, "(2, 3)"), make([]byte, 12)...))
	f.Add(npyFile(3, npyHeader("|b1", false, "()"), 1))
	f.Add(npyFile(1, npyHeader("|O", false, "(1,)"), 0x80, 4))
	f.Add(npyFile(1, "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3L, 0), }\n"))
	f.Add(npyFile(1, npyHeader("<f8", true, "(0, 9223372036854775807, 9223372036854775807)")))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := tensor.ParseNpy(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			require.Contains(t, []fault.Kind{fault.Corrupt, fault.Invalid}, fault.KindOf(err), "%v", err)
			return
		}
		require.EqualValues(t, len(data), n.DataStart+n.Elements()*n.DType.Size())
		if len(n.Shape) > 1000 {
			return // more than a version 1 header names
		}
		first := convertNpy(t, data)
		file := openNpy(t, first)
		require.Equal(t, n.DType, file.DType)
		require.Equal(t, n.Shape, file.Shape)
		require.Equal(t, first, convertNpy(t, first))
		if file.Elements() > 0 {
			require.NoError(t, file.Float64Rows(make([]float64, file.RowElements()), []int64{file.Rows() - 1}))
		}
	})
}
