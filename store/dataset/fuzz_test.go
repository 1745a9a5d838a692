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
	info, files, err := dataset.Parse(format, content)
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
		f.Add([]byte(seed))
	}
	f.Add(gzipped(f, someCSV))
	f.Fuzz(func(t *testing.T, content []byte) { fuzzParse(t, ".csv", content) })
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
