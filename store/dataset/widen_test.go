package dataset_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/dataset"
)

// Labels that are integers of two types are int64, whatever the types.
func TestLabelsOfTwoIntegerTypes(t *testing.T) {
	little := binary.LittleEndian
	for descr, labels := range map[string]any{
		"|b1": []bool{false, true, true}, "|i1": []int8{-1, 0, 1}, "|u1": []uint8{0, 200, 255}, "<i2": []int16{-300, 0, 1},
		"<u2": []uint16{0, 1, 65535}, "<i4": []int32{-1 << 31, 0, 1}, "<u4": []uint32{0, 1, 1<<32 - 1},
	} {
		t.Run(descr, func(t *testing.T) {
			narrow := npy(t, 1, descr, false, "(3,)", little, labels)
			wide := intNPY(t, "(1,)", 7)
			x, testX := floatNPY(t, "(3, 1)", 1, 2, 3), floatNPY(t, "(1, 1)", 4)
			archive := npz(t, member{"x_train.npy", x}, member{"y_train.npy", narrow}, member{"x_test.npy", testX}, member{"y_test.npy", wide})
			s := store.NewMem()
			c := dataset.New(s)
			info, err := c.Open(t.Context(), writeFile(t, "d.npz", archive), dataset.Options{})
			require.NoError(t, err)
			require.Equal(t, "int64", info.YType)
			files, err := c.Materialise(t.Context(), info.Name, info.Digest, cache.New(s, t.TempDir(), 0))
			require.NoError(t, err)
			_, got := floats(t, files.TrainY)
			alone := npz(t, member{"x_train.npy", x}, member{"y_train.npy", narrow}, member{"x_test.npy", testX},
				member{"y_test.npy", npy(t, 1, descr, false, "(1,)", little, make([]byte, binary.Size(labels)/3))})
			info, err = c.Open(t.Context(), writeFile(t, "e.npz", alone), dataset.Options{})
			require.NoError(t, err)
			files, err = c.Materialise(t.Context(), info.Name, info.Digest, cache.New(s, t.TempDir(), 0))
			require.NoError(t, err)
			_, want := floats(t, files.TrainY)
			require.Equal(t, want, got, "the values are those of the file")
		})
	}
}

// A folder is told from others by what is in it.
func TestFoldersWithADataSet(t *testing.T) {
	path := writeFile(t, "x_train.npy", floatNPY(t, "(2, 1)", 1, 2))
	folder := filepath.Dir(path)
	require.False(t, dataset.IsFolder(folder), "half of one")
	require.False(t, dataset.IsFolder(path))
	require.False(t, dataset.IsFolder(folder+"/none"))
	copyTo(t, folder, "y_train.npy", intNPY(t, "(2,)", 0, 1))
	require.True(t, dataset.IsFolder(folder))
}

func copyTo(t *testing.T, folder, name string, content []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
}
