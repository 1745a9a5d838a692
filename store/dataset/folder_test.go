package dataset_test

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/dataset"
)

// folder is what a folder holds, by name.
type folder map[string][]byte

// write makes the folder, called data.
func (f folder) write(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	for name, content := range f {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return dir
}

// npyFolder has three samples to train, and one to test.
func npyFolder(t testing.TB) folder {
	return folder{
		"x_train.npy": floatNPY(t, "(3, 2)", 0, 1, 2, 3, 4, 5), "y_train.npy": intNPY(t, "(3,)", 0, 1, 2),
		"x_test.npy": floatNPY(t, "(1, 2)", 6, 7), "y_test.npy": intNPY(t, "(1,)", 1),
	}
}

// idxFolder is the same as bytes of MNIST's form.
func idxFolder(t testing.TB) folder {
	return folder{
		"train-images-idx3-ubyte": idx(t, 0x08, []uint32{3, 2, 1}, []byte{0, 1, 2, 3, 4, 5}),
		"train-labels-idx1-ubyte": idx(t, 0x08, []uint32{3}, []byte{0, 1, 2}),
		"t10k-images-idx3-ubyte":  idx(t, 0x08, []uint32{1, 2, 1}, []byte{6, 7}),
		"t10k-labels-idx1-ubyte":  idx(t, 0x08, []uint32{1}, []byte{1}),
	}
}

// renamed is a folder under other names.
func (f folder) renamed(t testing.TB, names map[string]string) folder {
	t.Helper()
	out := folder{}
	for name, content := range f {
		require.Contains(t, names, name)
		out[names[name]] = content
	}
	return out
}

// with is a folder with another file, or without one.
func (f folder) with(name string, content []byte) folder {
	out := folder{}
	for n, c := range f {
		out[n] = c
	}
	if out[name] = content; content == nil {
		delete(out, name)
	}
	return out
}

func (f folder) gzipped(t testing.TB) folder {
	out := folder{}
	for name, content := range f {
		out[name+".gz"] = gzipped(t, string(content))
	}
	return out
}

// importFolder imports a folder into a fresh store. An error must leave
// nothing.
func importFolder(t *testing.T, f folder) (imported, error) {
	t.Helper()
	return importPath(t, f.write(t), dataset.Options{})
}

func importPath(t *testing.T, path string, opts dataset.Options) (imported, error) {
	t.Helper()
	s := store.NewMem()
	c := dataset.New(s)
	info, err := c.Open(t.Context(), path, opts)
	if err != nil {
		require.Empty(t, keys(t, s), "what is refused leaves nothing")
		require.ErrorContains(t, err, path)
		return imported{}, err
	}
	files, err := c.Materialise(t.Context(), info.Name, info.Digest, cache.New(s, t.TempDir(), 0))
	require.NoError(t, err)
	d := imported{Info: info}
	_, d.x = floats(t, files.TrainX)
	_, d.y = floats(t, files.TrainY)
	_, x := floats(t, files.TestX)
	_, y := floats(t, files.TestY)
	d.x, d.y = append(d.x, x...), append(d.y, y...)
	return d, nil
}

func TestAFolderOfArraysIsTheSameAsAnArchive(t *testing.T) {
	f := npyFolder(t)
	archive, err := importFile(t, "d.npz", withX(t, f["x_train.npy"], f["x_test.npy"]))
	require.NoError(t, err)
	for name, f := range map[string]folder{
		"x_train": f.with("notes.txt", []byte("do not matter")).with("sub.npy.d", []byte("x")).with("z_train.npy", []byte("x")),
		"train-x": f.renamed(t, map[string]string{"x_train.npy": "train-x.npy", "y_train.npy": "train-y.npy", "x_test.npy": "test-x.npy", "y_test.npy": "test-y.npy"}),
		"mixed":   f.renamed(t, map[string]string{"x_train.npy": "X_train.npy", "y_train.npy": "train_y.npy", "x_test.npy": "x-test.npy", "y_test.npy": "test-y.NPY"}),
		"Fortran": f.with("x_train.npy", npy(t, 1, ">f4", true, "(3, 2)", binary.BigEndian, []float32{0, 2, 4, 1, 3, 5})),
	} {
		t.Run(name, func(t *testing.T) {
			d, err := importFolder(t, f)
			require.NoError(t, err)
			require.Equal(t, "data", d.Name)
			require.Equal(t, archive.Digest, d.Digest)
			require.Equal(t, []float64{0, 1, 2, 3, 4, 5, 6, 7}, d.x)
			require.Equal(t, []float64{0, 1, 2, 1}, d.y)
		})
	}
}

// What the store itself keeps is a folder that can be imported.
func TestADataSetOfAStoreCanBeImportedElsewhere(t *testing.T) {
	s, err := store.NewFile(filepath.Join(t.TempDir(), "store"))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	info, err := dataset.New(s).Open(t.Context(), npyFolder(t).write(t), dataset.Options{})
	require.NoError(t, err)
	path, ok := s.Path("datasets/data/" + info.Digest)
	require.True(t, ok)
	d, err := importPath(t, path, dataset.Options{})
	require.NoError(t, err)
	require.Equal(t, info.Digest, d.Digest)
}

func TestIDXFolders(t *testing.T) {
	plain := idxFolder(t)
	kaggle := map[string]string{
		"train-images-idx3-ubyte": "train-images.idx3-ubyte", "train-labels-idx1-ubyte": "train-labels.idx1-ubyte",
		"t10k-images-idx3-ubyte": "t10k-images.idx3-ubyte", "t10k-labels-idx1-ubyte": "t10k-labels.idx1-ubyte",
	}
	emnist := map[string]string{
		"train-images-idx3-ubyte": "emnist-letters-train-images-idx3-ubyte", "train-labels-idx1-ubyte": "emnist-letters-train-labels-idx1-ubyte",
		"t10k-images-idx3-ubyte": "emnist-letters-test-images-idx3-ubyte", "t10k-labels-idx1-ubyte": "emnist-letters-test-labels-idx1-ubyte",
	}
	digests := map[string]bool{}
	for name, f := range map[string]folder{
		"plain":      plain,
		"gzipped":    plain.gzipped(t),
		"one packed": plain.with("t10k-labels-idx1-ubyte", nil).with("t10k-labels-idx1-ubyte.gz", gzipped(t, string(plain["t10k-labels-idx1-ubyte"]))),
		"both ways":  plain.with("train-images-idx3-ubyte.gz", gzipped(t, "is not looked at")),
		"Kaggle's":   plain.renamed(t, kaggle),
		"EMNIST's":   plain.renamed(t, emnist).gzipped(t).with("readme.txt", []byte("x")),
	} {
		t.Run(name, func(t *testing.T) {
			d, err := importFolder(t, f)
			require.NoError(t, err)
			digests[d.Digest] = true
			require.Equal(t, dataset.Info{
				Name: "data", Digest: d.Digest, Train: 3, Test: 1, XShape: []int64{2, 1}, XType: "uint8", YShape: []int64{}, YType: "uint8",
			}, d.Info)
			require.Equal(t, []float64{0, 1, 2, 3, 4, 5, 6, 7}, d.x)
			require.Equal(t, []float64{0, 1, 2, 1}, d.y)
		})
	}
	require.Len(t, digests, 1, "the digest is that of the content")
}

func TestFoldersWithoutATestPartAreSplit(t *testing.T) {
	for name, f := range map[string]folder{
		"IDX": {
			"train-images-idx3-ubyte": idx(t, 0x08, []uint32{10}, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
			"train-labels-idx1-ubyte": idx(t, 0x08, []uint32{10}, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}),
		},
		"npy": {
			"x_train.npy": intNPY(t, "(10,)", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
			"y_train.npy": intNPY(t, "(10,)", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9),
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := f.write(t)
			d, err := importPath(t, path, dataset.Options{})
			require.NoError(t, err)
			require.EqualValues(t, 8, d.Train)
			require.EqualValues(t, 2, d.Test)
			require.Equal(t, d.x, d.y)
			half, err := importPath(t, path, dataset.Options{TestShare: 0.5, Seed: 7})
			require.NoError(t, err)
			require.EqualValues(t, 5, half.Test)
			again, err := importPath(t, path, dataset.Options{TestShare: 0.5, Seed: 7})
			require.NoError(t, err)
			require.Equal(t, half, again, "the seed decides")
		})
	}
}

func TestFoldersAreRefusedWithTheReason(t *testing.T) {
	arrays, bytes8 := npyFolder(t), idxFolder(t)
	other := folder{}
	for name, content := range bytes8 {
		other["emnist-"+name] = content
	}
	for name, tt := range map[string]struct {
		folder folder
		kind   fault.Kind
		want   string
	}{
		"empty":             {folder{}, fault.Invalid, "no data set in the folder, which has: nothing; want train-images-idx3-ubyte"},
		"other files":       {folder{"b.txt": nil, "a.npy": nil}, fault.Invalid, "which has: a.npy, b.txt; want"},
		"no labels":         {arrays.with("y_train.npy", nil), fault.Invalid, "no y_train.npy beside x_test.npy, x_train.npy, y_test.npy"},
		"no images":         {bytes8.with("train-images-idx3-ubyte", nil), fault.Invalid, "no train-images-idx3-ubyte beside"},
		"half a test part":  {bytes8.with("t10k-labels-idx1-ubyte", nil), fault.Invalid, "no t10k-labels-idx1-ubyte beside t10k-images-idx3-ubyte"},
		"half, the other":   {arrays.with("x_test.npy", nil), fault.Invalid, "no x_test.npy beside y_test.npy"},
		"one role twice":    {arrays.with("train-x.npy", arrays["x_train.npy"]), fault.Invalid, "train-x.npy and x_train.npy are both the train-x.npy"},
		"t10k and test":     {bytes8.with("test-images-idx3-ubyte", nil).with("test-images-idx3-ubyte", bytes8["t10k-images-idx3-ubyte"]), fault.Invalid, "are both the test-x.npy"},
		"two data sets":     {bytes8.with("emnist-train-images-idx3-ubyte", other["emnist-train-images-idx3-ubyte"]), fault.Invalid, "more than one data set in the folder (emnist-train-images-idx3-ubyte, train-images-idx3-ubyte)"},
		"both formats":      {bytes8.with("x_train.npy", arrays["x_train.npy"]), fault.Invalid, "more than one data set in the folder (train-images-idx3-ubyte, x_train.npy)"},
		"an empty file":     {arrays.with("y_test.npy", []byte{}), fault.Invalid, "y_test.npy: empty: the file has no bytes"},
		"a truncated array": {arrays.with("x_test.npy", arrays["x_test.npy"][:70]), fault.Corrupt, "x_test.npy: truncated"},
		"objects":           {arrays.with("x_train.npy", npy(t, 1, "|O", false, "(3,)", binary.LittleEndian, []byte("pickle"))), fault.Invalid, "x_train.npy: object dtype"},
		"lengths":           {arrays.with("y_train.npy", intNPY(t, "(2,)", 0, 1)), fault.Invalid, "x_train has 3 samples, y_train has 2 labels"},
		"other test shape":  {arrays.with("x_test.npy", floatNPY(t, "(1, 3)", 1, 2, 3)), fault.Invalid, "samples of x_train are float32 [2], those of x_test float32 [3]"},
		"no IDX file":       {bytes8.with("train-images-idx3-ubyte", []byte("hello")), fault.Corrupt, "train-images-idx3-ubyte: not an IDX file"},
		"a broken gzip":     {bytes8.gzipped(t).with("t10k-labels-idx1-ubyte.gz", []byte{0x1f, 0x8b, 8}), fault.Corrupt, "t10k-labels-idx1-ubyte.gz: truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := importFolder(t, tt.folder)
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, tt.kind, fault.KindOf(err), "%v", err)
		})
	}
}

// Nothing that is opened can block.
func TestAPipeIsNotRead(t *testing.T) {
	dir := npyFolder(t).with("x_test.npy", nil).write(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "x_test.npy"), 0o600))
	_, err := importPath(t, dir, dataset.Options{})
	require.ErrorContains(t, err, "x_test.npy: not a regular file")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe.csv"), 0o600))
	_, err = importPath(t, filepath.Join(dir, "pipe.csv"), dataset.Options{})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

func TestOneArrayIsNoDataSet(t *testing.T) {
	_, err := importFile(t, "x.npy", floatNPY(t, "(1,)", 1))
	require.ErrorContains(t, err, "put x_train.npy and y_train.npy in a folder")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

func TestTheFolderOneIsIn(t *testing.T) {
	t.Chdir(npyFolder(t).write(t))
	info, err := dataset.New(store.NewMem()).Open(t.Context(), ".", dataset.Options{})
	require.NoError(t, err)
	require.Equal(t, "data", info.Name)
}

// racing is a store at which a file changes between the passes over it.
type racing struct {
	store.Store
	change func()
}

func (r racing) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r.change()
	return r.Store.Get(ctx, key, offset, length)
}

// What lies in place is read twice: once for the digest, once to be stored.
func TestAFileThatChangesWhileItIsReadIsRefused(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"other bytes": func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				b[len(b)-1] ^= 1
				err = os.WriteFile(path, b, 0o600)
			}
			return err
		},
		"cut short": func(path string) error { return os.Truncate(path, 85) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := npyFolder(t).write(t)
			s := store.NewMem()
			r := racing{s, func() { require.NoError(t, change(filepath.Join(dir, "x_train.npy"))) }}
			_, err := dataset.New(r).Open(t.Context(), dir, dataset.Options{})
			require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
			require.Empty(t, keys(t, s))
		})
	}
}

// Reported case: the Debian package, where it is installed.
func TestFashionMNIST(t *testing.T) {
	const dir = "/usr/share/datasets/fashion-mnist"
	s, err := store.NewFile(filepath.Join(t.TempDir(), "store"))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	c := dataset.New(s)
	info, err := c.Open(t.Context(), dir, dataset.Options{})
	require.NoError(t, err, "apt-get install dataset-fashion-mnist")
	require.Equal(t, dataset.Info{
		Name: "fashion-mnist", Digest: info.Digest, Train: 60_000, Test: 10_000,
		XShape: []int64{28, 28}, XType: "uint8", YShape: []int64{}, YType: "uint8",
	}, info)
	files, err := c.Materialise(t.Context(), info.Name, info.Digest, cache.New(s, t.TempDir(), 0))
	require.NoError(t, err)
	x, values := floats(t, files.TestX)
	require.Equal(t, []int64{10_000, 28, 28}, x.Shape)
	var max float64
	for _, v := range values {
		max = math.Max(max, v)
	}
	require.Equal(t, 255.0, max)
	for _, part := range []struct {
		path string
		each int
	}{{files.TrainY, 6000}, {files.TestY, 1000}} {
		_, labels := floats(t, part.path)
		of := [10]int{}
		for _, v := range labels {
			of[int(v)]++
		}
		for _, n := range of {
			require.Equal(t, part.each, n)
		}
	}
}
