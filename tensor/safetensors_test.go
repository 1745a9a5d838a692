package tensor_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// small is what testdata/small.safetensors holds.
func small() tensor.StateDict {
	return tensor.StateDict{
		tensor.NewFloat32("w", []int64{2}, []float32{1, -2}),
		tensor.NewInt64("steps", []int64{}, []int64{-7}),
		tensor.New(tensor.Spec{Name: "none", DType: tensor.BF16, Shape: []int64{0, 3}}, []float64{}),
		tensor.New(tensor.Spec{Name: "mask", DType: tensor.Bool, Shape: []int64{1, 3}}, []float64{1, 0, 1}),
	}
}

// file puts a header and data together as a safetensors file.
func file(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestFilesAreTheBytesOfTheFormat(t *testing.T) {
	golden, err := os.ReadFile("testdata/small.safetensors")
	require.NoError(t, err)
	require.Equal(t, golden, encodeFile(t, small()))
	got, err := tensor.Read(bytes.NewReader(golden), int64(len(golden)))
	require.NoError(t, err)
	require.Equal(t, small(), got)
	steps, ok := got.Get("steps")
	require.True(t, ok)
	require.Equal(t, []int64{-7}, steps.Int64())
	_, ok = got.Get("step")
	require.False(t, ok)
}

func TestLayoutSaysWhereTensorsAre(t *testing.T) {
	l, err := small().Layout()
	require.NoError(t, err)
	require.Zero(t, l.DataStart%64)
	require.Equal(t, small().Specs(), l.Specs())
	for i, offset := range []int64{0, 8, 16, 16} {
		require.Equal(t, l.DataStart+offset, l.Entries[i].Offset)
	}
	require.Equal(t, l.DataStart+19, l.Size())
	data := encodeFile(t, small())
	back, err := tensor.ReadLayout(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, l, back)
}

func TestEmptyModelsHaveFiles(t *testing.T) {
	data := encodeFile(t, nil)
	got, err := tensor.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, tensor.Check(source(data), source(data)))
}

func TestFilesOfOtherWritersAreRead(t *testing.T) {
	// Header in another order than the data, metadata, escapes, no padding.
	data := file(`{"__metadata__":{"format":"pt","n\u0061me":"x"},`+
		`"b":{"data_offsets":[1,2],"shape":[1],"dtype":"U8"},"é\n":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},`+
		`"e":{"dtype":"F64","shape":[0],"data_offsets":[1,1]}}  `, 5, 6)
	l, err := tensor.ReadLayout(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"format": "pt", "name": "x"}, l.Metadata)
	require.Equal(t, []string{"é\n", "e", "b"}, []string{l.Entries[0].Name, l.Entries[1].Name, l.Entries[2].Name})
	require.Equal(t, l.DataStart+1, l.Entries[2].Offset)
	var header bytes.Buffer
	require.NoError(t, l.WriteHeader(&header))
	require.Equal(t, data[:l.DataStart], header.Bytes())
}

func TestNamesSurvive(t *testing.T) {
	var d tensor.StateDict
	for _, name := range []string{"", " ", "a.b/c", `q"\`, "\x00\n\u2028", "<&>", "層", "__metadata"} {
		d = append(d, tensor.NewInt64(name, nil, []int64{int64(len(d))}))
	}
	data := encodeFile(t, d)
	got, err := tensor.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	for i := range d {
		require.Equal(t, d[i].Name, got[i].Name)
		require.Equal(t, d[i].Data, got[i].Data)
	}
}

func TestBrokenFilesAreRefusedWithTheReason(t *testing.T) {
	const w = `"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}`
	for name, c := range map[string]struct {
		file []byte
		kind fault.Kind
		text string
	}{
		"an empty file":                     {nil, fault.Corrupt, "too few"},
		"seven bytes":                       {make([]byte, 7), fault.Corrupt, "too few"},
		"no header":                         {make([]byte, 8), fault.Corrupt, "does not begin with {"},
		"a header beyond the file":          {file(`{}`)[:9], fault.Corrupt, "truncated"},
		"a header of 2^63 bytes":            {binary.LittleEndian.AppendUint64(nil, 1<<63), fault.Corrupt, "over the limit"},
		"a header of 101 MB":                {binary.LittleEndian.AppendUint64(nil, 101_000_000), fault.Corrupt, "over the limit"},
		"a header that is a list":           {file(`[]`), fault.Corrupt, "does not begin with {"},
		"a header before which spaces are":  {file(` {}`), fault.Corrupt, "does not begin with {"},
		"a header that is not UTF-8":        {file("{\"\xff\":1}"), fault.Corrupt, "not UTF-8"},
		"a header that ends early":          {file(`{"w":{"dtype":"U8"`), fault.Corrupt, "header"},
		"text after the header":             {file(`{}{}`), fault.Corrupt, "after the header's end"},
		"a comma too many":                  {file(`{`+w+`,}`, 1, 2), fault.Corrupt, "header"},
		"a tensor that is a number":         {file(`{"w":1}`), fault.Corrupt, "belongs"},
		"a name twice":                      {file(`{`+w+`,`+w+`}`, 1, 2), fault.Corrupt, `"w" twice`},
		"a key twice":                       {file(`{"w":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2), fault.Corrupt, `"dtype" occurs twice`},
		"a key of another case":             {file(`{"w":{"DType":"U8","shape":[2],"data_offsets":[0,2]}}`, 1, 2), fault.Corrupt, `unknown key "DType"`},
		"a key too few":                     {file(`{"w":{"dtype":"U8","data_offsets":[0,2]}}`, 1, 2), fault.Corrupt, "needs"},
		"one offset":                        {file(`{"w":{"dtype":"U8","shape":[2],"data_offsets":[2]}}`, 1, 2), fault.Corrupt, "needs"},
		"offsets in the wrong order":        {file(`{"w":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}}`, 1, 2), fault.Corrupt, "needs"},
		"a negative dimension":              {file(`{"w":{"dtype":"U8","shape":[-2],"data_offsets":[0,2]}}`, 1, 2), fault.Corrupt, "not a size"},
		"a dimension that is a fraction":    {file(`{"w":{"dtype":"U8","shape":[2.0],"data_offsets":[0,2]}}`, 1, 2), fault.Corrupt, "not a size"},
		"a dimension that is a text":        {file(`{"w":{"dtype":"U8","shape":["2"],"data_offsets":[0,2]}}`, 1, 2), fault.Corrupt, "number belongs"},
		"a dtype that is a number":          {file(`{"w":{"dtype":8,"shape":[2],"data_offsets":[0,2]}}`, 1, 2), fault.Corrupt, "text belongs"},
		"a shape that overflows":            {file(`{"w":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`), fault.Corrupt, "overflows"},
		"bytes that overflow":               {file(`{"w":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`), fault.Corrupt, "overflows"},
		"a size that is not the shape's":    {file(`{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,2]}}`, 1, 2), fault.Corrupt, "takes 8 bytes"},
		"complex numbers":                   {file(`{"w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}`, make([]byte, 8)...), fault.Invalid, `tensor "w": dtype "C64" is not supported`},
		"a hole":                            {file(`{"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 1, 2), fault.Corrupt, "belong to no tensor"},
		"an overlap":                        {file(`{`+w+`,"v":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 1, 2, 3), fault.Corrupt, "overlaps"},
		"bytes after the last tensor":       {file(`{`+w+`}`, 1, 2, 3), fault.Corrupt, "after the last tensor"},
		"a file that ends early":            {file(`{`+w+`}`, 1), fault.Corrupt, "truncated"},
		"metadata with a number":            {file(`{"__metadata__":{"a":1}}`), fault.Corrupt, "text belongs"},
		"metadata that are a text":          {file(`{"__metadata__":"a"}`), fault.Corrupt, "belongs"},
		"metadata that name a thing twice":  {file(`{"__metadata__":{"a":"1","a":"2"}}`), fault.Corrupt, `"a" twice`},
		"an empty tensor beyond the others": {file(`{`+w+`,"e":{"dtype":"U8","shape":[0],"data_offsets":[3,3]}}`, 1, 2), fault.Corrupt, "belong to no tensor"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tensor.Read(bytes.NewReader(c.file), int64(len(c.file)))
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
		})
	}
}

// A file cut anywhere, or shorter than its size says, is never read.
func TestTruncatedFilesAreCorrupt(t *testing.T) {
	whole := encodeFile(t, small())
	for n := range whole {
		for _, size := range []int{n, len(whole)} {
			_, err := tensor.Read(bytes.NewReader(whole[:n]), int64(size))
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%d bytes, said to be %d: %v", n, size, err)
		}
	}
}

func TestBadModelsAreNotWritten(t *testing.T) {
	float := func(name string, shape ...int64) tensor.Spec {
		return tensor.Spec{Name: name, DType: tensor.F32, Shape: shape}
	}
	for name, c := range map[string]struct {
		specs []tensor.Spec
		text  string
	}{
		"a name twice":              {[]tensor.Spec{float("w"), float("w")}, "twice"},
		"the reserved name":         {[]tensor.Spec{float("__metadata__")}, "reserved"},
		"a name that is no UTF-8":   {[]tensor.Spec{float("\xff")}, "UTF-8"},
		"no dtype":                  {[]tensor.Spec{{Name: "w"}}, "dtype"},
		"a negative dimension":      {[]tensor.Spec{float("w", -1)}, "negative"},
		"a negative one beside a 0": {[]tensor.Spec{float("w", 0, -1)}, "negative"},
		"a shape that overflows":    {[]tensor.Spec{float("w", 1<<62, 4)}, "overflows"},
		"a model that overflows":    {[]tensor.Spec{float("v", 1<<60), float("w", 1<<60)}, "overflows"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tensor.NewLayout(c.specs)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.text)
		})
	}
	var b bytes.Buffer
	_, err := tensor.Write(&b, tensor.StateDict{tensor.NewFloat32("w", []int64{3}, []float32{1, 2})})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, `tensor "w": 8 bytes of data for F32 [3], which takes 12`)
	require.Zero(t, b.Len())
}

func TestManyTensorsRoundTrip(t *testing.T) {
	var d tensor.StateDict
	for i := range 50_000 {
		d = append(d, tensor.NewFloat32(fmt.Sprintf("layer.%d.weight", i), []int64{1}, []float32{float32(i)}))
	}
	data := encodeFile(t, d)
	got, err := tensor.Read(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, d, got)
	var merged bytes.Buffer
	require.NoError(t, tensor.Average(&merged, 1, []tensor.Answer{{Weight: 3, Source: source(data)}}))
	require.True(t, bytes.Equal(data, merged.Bytes()))
}

var errDisk = errors.New("input/output error")

// failing reads and writes until left bytes have passed.
type failing struct {
	r    io.ReaderAt
	left int64
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.left {
		return 0, errDisk
	}
	return f.r.ReadAt(p, off)
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= int64(len(p)); f.left < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

// A reader or writer that fails is Unavailable, wherever it fails: the answer
// in it is not to blame.
func TestFailingReadersAndWritersAreUnavailable(t *testing.T) {
	data := encodeFile(t, small())
	whole := source(data)
	requireUnavailable := func(err error) {
		t.Helper()
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
		require.ErrorIs(t, err, errDisk)
	}
	for left := int64(0); left < whole.Size; left += 3 {
		broken := tensor.Source{R: &failing{whole.R, left}, Size: whole.Size}
		_, err := tensor.Read(broken.R, broken.Size)
		requireUnavailable(err)
		requireUnavailable(tensor.Check(whole, broken))
		requireUnavailable(tensor.Average(io.Discard, 2, []tensor.Answer{{0, 1, whole}, {1, 1, broken}}))
		_, err = tensor.Write(&failing{left: left}, small())
		requireUnavailable(err)
		requireUnavailable(tensor.Average(&failing{left: left}, 1, []tensor.Answer{{0, 1, whole}}))
	}
	requireUnavailable(tensor.Check(tensor.Source{R: &failing{}, Size: 99}, whole))
}

func FuzzReadLayout(f *testing.F) {
	golden, err := os.ReadFile("testdata/small.safetensors")
	require.NoError(f, err)
	f.Add(golden)
	f.Add(file(`{}`))
	f.Add(file(`{"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"I8","shape":[1,1],"data_offsets":[0,1]}} `, 1, 2))
	f.Add(file(`{"\ud800":{"dtype":"F64","shape":[0,9],"data_offsets":[0,0]}}`))
	f.Add(file(`{"w":{"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,9223372036854775807]}}`))
	f.Add(binary.LittleEndian.AppendUint64(nil, math.MaxUint64))
	f.Add([]byte(strings.Repeat("{", 64)))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := tensor.ReadLayout(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			require.Contains(t, []fault.Kind{fault.Corrupt, fault.Invalid}, fault.KindOf(err), "%v", err)
			return
		}
		require.EqualValues(t, len(data), l.Size())
		var header bytes.Buffer
		require.NoError(t, l.WriteHeader(&header))
		require.Equal(t, data[:l.DataStart], header.Bytes())
		d, err := tensor.Read(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		again := encodeFile(t, d)
		back, err := tensor.Read(bytes.NewReader(again), int64(len(again)))
		require.NoError(t, err)
		require.Equal(t, d, back)
		require.Equal(t, again[len(again)-int(l.Size()-l.DataStart):], data[l.DataStart:])
	})
}
