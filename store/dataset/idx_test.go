package dataset_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
)

// idx writes an IDX file. data is a slice of fixed-size values.
func idx(t testing.TB, typ byte, shape []uint32, data any) []byte {
	t.Helper()
	b := []byte{0, 0, typ, byte(len(shape))}
	for _, d := range shape {
		b = binary.BigEndian.AppendUint32(b, d)
	}
	b, err := binary.Append(b, binary.BigEndian, data)
	require.NoError(t, err)
	return b
}

func TestIDXTypes(t *testing.T) {
	for name, tt := range map[string]struct {
		typ   byte
		data  any
		xType string
		want  []float64
	}{
		"uint8":   {0x08, []uint8{0, 255, 128}, "uint8", []float64{0, 255, 128}},
		"int8":    {0x09, []int8{0, 127, -128}, "int8", []float64{0, 127, -128}},
		"int16":   {0x0b, []int16{1, -2, 32767}, "int16", []float64{1, -2, 32767}},
		"int32":   {0x0c, []int32{1, -2, math.MaxInt32}, "int32", []float64{1, -2, math.MaxInt32}},
		"float32": {0x0d, []float32{1, -0.5, 3}, "float32", []float64{1, -0.5, 3}},
		"float64": {0x0e, []float64{1, -0.5, math.Pi}, "float64", []float64{1, -0.5, math.Pi}},
	} {
		t.Run(name, func(t *testing.T) {
			f := folder{
				"train-images-idx3-ubyte": idx(t, tt.typ, []uint32{3, 1, 1}, tt.data), "train-labels-idx1-ubyte": idx(t, 0x08, []uint32{3}, []uint8{0, 1, 2}),
				"t10k-images-idx3-ubyte": idx(t, tt.typ, []uint32{3, 1, 1}, tt.data), "t10k-labels-idx1-ubyte": idx(t, 0x08, []uint32{3}, []uint8{0, 1, 2}),
			}
			d, err := importFolder(t, f)
			require.NoError(t, err)
			require.Equal(t, tt.xType, d.XType)
			require.Equal(t, []int64{1, 1}, d.XShape)
			require.Equal(t, append(tt.want, tt.want...), d.x)
			packed, err := importFolder(t, f.gzipped(t))
			require.NoError(t, err)
			require.Equal(t, d, packed)
		})
	}
}

// More than one window of values is read.
func TestIDXOfManyValues(t *testing.T) {
	values, labels := make([]int16, 3_000_000), make([]uint8, 3)
	for i := range values {
		values[i] = int16(i)
	}
	f := folder{"train-images-idx3-ubyte": idx(t, 0x0b, []uint32{3, 1_000_000}, values), "train-labels-idx1-ubyte": idx(t, 0x08, []uint32{3}, labels)}
	d, err := importFolder(t, f)
	require.NoError(t, err)
	require.Len(t, d.x, len(values))
	for i, v := range d.x {
		first := int(d.x[i/1_000_000*1_000_000]) & 0xffff // the split has reordered the samples
		require.Equal(t, float64(int16(first+i%1_000_000)), v)
	}
	packed, err := importFolder(t, f.gzipped(t))
	require.NoError(t, err)
	require.Equal(t, d.Digest, packed.Digest)
}

func TestIDXIsRefusedWithTheReason(t *testing.T) {
	labels := idx(t, 0x08, []uint32{2}, []uint8{0, 1})
	good := idx(t, 0x0b, []uint32{2, 2}, []int16{1, 2, 3, 4})
	for name, tt := range map[string]struct {
		x, y []byte
		kind fault.Kind
		want string
	}{
		"other bytes":      {[]byte("\x00\x01\x08\x01"), labels, fault.Corrupt, "not an IDX file: it begins with"},
		"a short start":    {good[:3], labels, fault.Corrupt, "it ends within its header"},
		"a short header":   {good[:9], labels, fault.Corrupt, "it ends within its header"},
		"no such type":     {idx(t, 0x0a, []uint32{2}, []byte{0, 0}), labels, fault.Invalid, "type 0x0a is none of IDX's"},
		"0-d":              {idx(t, 0x08, nil, []byte{0}), labels, fault.Invalid, "0-d"},
		"no samples":       {idx(t, 0x08, []uint32{0, 2}, []byte{}), labels, fault.Invalid, "empty: its shape is [0 2]"},
		"no values":        {idx(t, 0x08, []uint32{2, 0}, []byte{}), labels, fault.Invalid, "empty: its shape is [2 0]"},
		"a giant":          {idx(t, 0x0e, []uint32{1 << 31, 1 << 31, 1 << 31}, []float64{}), labels, fault.Corrupt, "overflows"},
		"truncated":        {good[:len(good)-1], labels, fault.Corrupt, "truncated: int16 [2 2] takes 8 bytes, there are 7"},
		"bytes behind":     {append(good[:len(good):len(good)], 0), labels, fault.Corrupt, "bytes follow the 8 that int16 [2 2] takes"},
		"lengths":          {good, idx(t, 0x08, []uint32{3}, []uint8{0, 1, 2}), fault.Invalid, "x_train has 2 samples, y_train has 3 labels"},
		"a NaN label":      {good, idx(t, 0x0d, []uint32{2}, []float32{0, float32(math.NaN())}), fault.Invalid, "y_train: the label of sample 1 is NaN"},
		"truncated labels": {good, labels[:9], fault.Corrupt, "train-labels-idx1-ubyte: truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			f := folder{"train-images-idx3-ubyte": tt.x, "train-labels-idx1-ubyte": tt.y}
			for _, f := range []folder{f, f.gzipped(t)} {
				_, err := importFolder(t, f)
				require.ErrorContains(t, err, strings.TrimPrefix(tt.want, "train-labels-idx1-ubyte: "))
				require.Equal(t, tt.kind, fault.KindOf(err), "%v", err)
			}
		})
	}
	whole := gzipped(t, string(good))
	for name, packed := range map[string][]byte{"half a gzip": whole[:len(whole)-9], "a flipped checksum": flip(whole, len(whole)-8), "garbage behind": append(whole, "garbage"...)} {
		_, err := importFolder(t, folder{"train-images-idx3-ubyte.gz": packed, "train-labels-idx1-ubyte": labels})
		require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s: %v", name, err)
	}
}

func flip(b []byte, i int) []byte {
	b = append([]byte{}, b...)
	b[i] ^= 1
	return b
}
