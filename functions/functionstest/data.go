package functionstest

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/tensor"
)

// Data writes a split as two npy files that live as long as the test: x
// float32 of that shape, C order, and y int64.
func Data(t testing.TB, shape []int64, x []float32, y []int64) functions.Data {
	t.Helper()
	var xs, ys bytes.Buffer
	require.NoError(t, tensor.WriteNpyHeader(&xs, tensor.NpyFloat32, shape))
	for _, v := range x {
		xs.Write(binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
	}
	require.NoError(t, tensor.WriteNpyHeader(&ys, tensor.NpyInt64, []int64{int64(len(y))}))
	for _, v := range y {
		ys.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	return functions.Data{X: File(t, "x.npy", xs.Bytes()), Y: File(t, "y.npy", ys.Bytes()), Samples: int64(len(y))}
}

// File writes an input to a file that lives as long as the test.
func File(t testing.TB, name string, content []byte) functions.Input {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return functions.Input{R: f, Size: int64(len(content)), Path: path}
}

// Range returns [0, n).
func Range(n int64) []int64 {
	positions := make([]int64, n)
	for i := range positions {
		positions[i] = int64(i)
	}
	return positions
}
