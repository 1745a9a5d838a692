package e2e_test

import (
	little "encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/tensor"
)

// save writes a file of the home and returns its path.
func (h home) save(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(h.dir, name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// samples is a data set of noise: x [n, width] float32, y [n] in 0..9.
func (h home) samples(t *testing.T, train, test, width int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(train), uint64(test)))
	x := func(n int) []byte {
		b := npy("<f4", fmt.Sprintf("(%d, %d)", n, width), 0)
		for range n * width {
			b = little.LittleEndian.AppendUint32(b, math.Float32bits(r.Float32()))
		}
		return b
	}
	y := func(n int) []byte {
		b := npy("<i8", fmt.Sprintf("(%d,)", n), 0)
		for range n {
			b = little.LittleEndian.AppendUint64(b, r.Uint64N(10))
		}
		return b
	}
	arrays := map[string][]byte{"x_train": x(train), "y_train": y(train), "x_test": x(test), "y_test": y(test)}
	return h.save(t, fmt.Sprintf("noise%d.npz", train), npz(t, arrays))
}

// tensors reads a model file.
func tensors(t *testing.T, path string) tensor.StateDict {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	d, err := tensor.Read(f, info.Size())
	require.NoError(t, err)
	return d
}

// Few samples, and counts beside the batch size, over any N: all are trained
// once, and a model (a step of 1e-30 leaves it as it is) is worth what it is
// worth to one function.
func TestE2EPythonAwkwardCounts(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, samples := range []int{1, 63, 64, 65} {
		data := h.samples(t, samples, 65, 64)
		var one result
		for n := 1; n <= 4; n++ {
			t.Run(fmt.Sprintf("samples=%d/N=%d", samples, n), func(t *testing.T) {
				r := h.run(t, program(t, "probe.py"), "-d", data, "-e", "1", "-b", "64", "--lr", "1e-30", "-p", fmt.Sprint(n), "--slots", "2")
				require.Len(t, r.Epochs, 1)
				require.Equal(t, samples, r.Epochs[0].Samples)
				if n == 1 {
					one = r
				}
				require.Positive(t, r.ValidationLoss)
				require.InEpsilon(t, one.ValidationLoss, r.ValidationLoss, 1e-9)
				require.InEpsilon(t, one.Accuracy, r.Accuracy, 1e-9)
			})
		}
	}
}

// The mean of 64 functions' float16 values is exact, though their sum is more
// than a float16 can hold.
func TestE2EPythonMeanOfHalvesIsExact(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	r := h.run(t, program(t, "halves.py"), "-d", h.samples(t, 128, 4, 2), "-e", "1", "-b", "2", "-p", "64", "--slots", "2", "--static")
	require.Equal(t, 1, r.Epochs[0].Rounds)
	model := tensors(t, r.path(t))
	for _, name := range []string{"same", "apart"} {
		got, ok := model.Get(name)
		require.True(t, ok)
		require.Equal(t, tensor.F16, got.DType)
		require.Equal(t, []float32{2000, 2000, 2000, 2000, 2000}, got.Float32(), name)
	}
}

// Arrays of every order, byte order and type reach the program with their values:
// x in its own type, labels that are whole as int64.
func TestE2EPythonOddArrays(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, form := range []string{
		"fortran", "big-endian", "big-endian fortran", "halves", "bytes", "unsigned bytes", "unsigned words", "bools",
	} {
		t.Run(form, func(t *testing.T) {
			path := filepath.Join(h.dir, "odd.npz")
			want := python(t, "odd.py", form, path)
			r := h.run(t, program(t, "show.py"), "-d", path, "-e", "1", "-p", "1", "--no-shuffle")
			log := h.log(t, r)
			_, shown, ok := strings.Cut(log, "shown ") // after a warning about the data set's name
			require.True(t, ok, log)
			require.Equal(t, want, shown)
		})
	}
}
