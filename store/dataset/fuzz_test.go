package dataset_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/tensor"
)

// fuzzParse checks what holds for every file: it is refused as Invalid or
// Corrupt, or what it becomes are four whole arrays with finite labels.
func fuzzParse(t *testing.T, format string, content []byte) {
	info, files, err := dataset.Parse(format, content, dataset.Options{})
	checkParsed(t, info, files, err)
}

func checkParsed(t *testing.T, info dataset.Info, files [4][]byte, err error) {
	if err != nil {
		require.Contains(t, []fault.Kind{fault.Invalid, fault.Corrupt}, fault.KindOf(err), "%v", err)
		return
	}
	require.Positive(t, info.Train)
	require.True(t, info.Test > 0 || info.Train == 1)
	for i, b := range files {
		n, err := tensor.OpenNpy(bytes.NewReader(b), int64(len(b)))
		require.NoError(t, err)
		require.False(t, n.Fortran || n.BigEndian)
		require.Equal(t, []int64{info.Train, info.Train, info.Test, info.Test}[i], n.Rows())
		require.EqualValues(t, [2][]int64{info.XShape, info.YShape}[i%2], n.Shape[1:])
		require.Equal(t, [2]string{info.XType, info.YType}[i%2], n.DType.String())
		if i%2 == 0 || n.Rows() == 0 {
			continue
		}
		values, positions := make([]float64, n.Elements()), make([]int64, n.Rows())
		for i := range positions {
			positions[i] = int64(i)
		}
		require.NoError(t, n.Float64Rows(values, positions))
		for _, label := range values {
			require.False(t, math.IsNaN(label) || math.IsInf(label, 0))
		}
	}
}

func FuzzCSV(f *testing.F) {
	for _, seed := range []string{someCSV, "1,2,0\n3,4,1\n", "nan,0\n1,1\n", "1,0.5\n", "\"1\",2\r\n", "\ufeff1,2\n", "1\n", "a,b\n", "1,,2\n"} {
		f.Add([]byte(seed), "")
	}
	f.Add(gzipped(f, someCSV), "a")
	f.Add([]byte("a,a\n1,2\n"), "a")
	f.Fuzz(func(t *testing.T, content []byte, label string) {
		info, files, err := dataset.Parse(".csv", content, dataset.Options{Label: label})
		checkParsed(t, info, files, err)
	})
}

func FuzzNPZ(f *testing.F) {
	x, y := floatNPY(f, "(3, 2)", 0, 1, 2, 3, 4, 5), intNPY(f, "(3,)", 0, 1, 2)
	f.Add(npz(f, member{"x_train.npy", x}, member{"y_train.npy", y}))
	f.Add(withX(f, x, floatNPY(f, "(1, 2)", 6, 7)))
	f.Add(npz(f, member{"x_train.npy", x[:20]}, member{"y_train.npy", y}))
	f.Fuzz(func(t *testing.T, content []byte) { fuzzParse(t, ".npz", content) })
}

// FuzzNPZMembers goes past the checksums of the archive, which stop most of
// what FuzzNPZ tries.
func FuzzNPZMembers(f *testing.F) {
	f.Add(floatNPY(f, "(3, 2)", 0, 1, 2, 3, 4, 5), intNPY(f, "(3,)", 0, 1, 2))
	f.Add(npy(f, 3, ">f2", true, "(2, 2)", binary.BigEndian, []uint16{0, 1, 2, 3}), npy(f, 2, "|b1", false, "(2,)", binary.LittleEndian, []bool{true, false}))
	f.Add(floatNPY(f, "()", 1), floatNPY(f, "(0,)"))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		fuzzParse(t, ".npz", npz(t, member{"x_train.npy", x}, member{"y_train.npy", y}))
	})
}

func FuzzNPY(f *testing.F) {
	x, y := floatNPY(f, "(3, 2)", 0, 1, 2, 3, 4, 5), intNPY(f, "(3,)", 0, 1, 2)
	f.Add(x, y)
	f.Add(npy(f, 3, ">f2", true, "(2, 2)", binary.BigEndian, []uint16{0, 1, 2, 3}), npy(f, 2, "|b1", false, "(2,)", binary.LittleEndian, []bool{true, false}))
	f.Add(floatNPY(f, "()", 1), x[:60])
	f.Fuzz(func(t *testing.T, x, y []byte) {
		info, files, err := dataset.ParseFolder(map[string][]byte{"x_train.npy": x, "y_train.npy": y, "x_test.npy": x, "y_test.npy": y})
		checkParsed(t, info, files, err)
	})
}

func FuzzIDX(f *testing.F) {
	x, y := idx(f, 0x08, []uint32{3, 1, 2}, []uint8{0, 1, 2, 3, 4, 255}), idx(f, 0x08, []uint32{3}, []uint8{0, 1, 2})
	f.Add(x, y)
	f.Add(gzipped(f, string(x)), gzipped(f, string(y)))
	f.Add(idx(f, 0x0d, []uint32{2}, []float32{1, float32(math.NaN())}), idx(f, 0x0e, []uint32{2}, []float64{1, math.Inf(1)}))
	f.Add(idx(f, 0x0b, []uint32{2, 1<<32 - 1, 1<<32 - 1}, []int16{1}), idx(f, 0x0c, []uint32{0}, []int32{}))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		info, files, err := dataset.ParseFolder(map[string][]byte{"train-images-idx3-ubyte": x, "train-labels-idx1-ubyte": y})
		checkParsed(t, info, files, err)
	})
}
