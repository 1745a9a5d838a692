package dataset_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/tensor"
)

// stores opens one of each driver; their data sets must be the same.
func stores(t *testing.T) map[string]store.Store {
	t.Helper()
	file, err := store.NewFile(filepath.Join(t.TempDir(), "store"))
	require.NoError(t, err)
	mem := store.NewMem()
	t.Cleanup(func() { require.NoError(t, file.Close()); require.NoError(t, mem.Close()) })
	return map[string]store.Store{"file": file, "mem": mem}
}

func keys(t *testing.T, s store.Store) []string {
	t.Helper()
	var keys []string
	for o, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

// floats reads a whole .npy file as float64s.
func floats(t *testing.T, path string) (header *tensor.NpyFile, values []float64) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	info, err := f.Stat()
	require.NoError(t, err)
	n, err := tensor.OpenNpy(f, info.Size())
	require.NoError(t, err)
	positions := make([]int64, n.Rows())
	for i := range positions {
		positions[i] = int64(i)
	}
	values = make([]float64, n.Elements())
	if len(values) > 0 {
		require.NoError(t, n.Float64Rows(values, positions))
	}
	return n, values
}

// writeFile writes a file to import.
func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

const digitsDigest = "0c0da2e881d2888221e642a6a53c37c99e3490ebbb3c7e094d3444f541deecab"

func TestDigits(t *testing.T) {
	s := store.NewMem()
	c := dataset.New(s)
	info, err := c.Open(t.Context(), "digits", dataset.Options{Seed: 9}) // its split is fixed
	require.NoError(t, err)
	_, err = c.Open(t.Context(), "digits", dataset.Options{TestShare: 0.5})
	require.Equal(t, fault.Invalid, fault.KindOf(err), "an option about files says nothing here")
	require.Equal(t, dataset.Info{
		Name: "digits", Digest: digitsDigest, Train: 1437, Test: 360,
		XShape: []int64{64}, XType: "float32", YShape: []int64{}, YType: "int64",
	}, info)
	again, err := c.Get(t.Context(), "digits", digitsDigest)
	require.NoError(t, err)
	require.Equal(t, info, again)

	dir := t.TempDir()
	files, err := c.Materialise(t.Context(), "digits", info.Digest, cache.New(s, dir, 0))
	require.NoError(t, err)
	x, train := floats(t, files.TrainX)
	require.Equal(t, []int64{1437, 64}, x.Shape)
	require.Equal(t, tensor.NpyFloat32, x.DType)
	y, labels := floats(t, files.TrainY)
	require.Equal(t, []int64{1437}, y.Shape)
	require.Equal(t, tensor.NpyInt64, y.DType)
	x, test := floats(t, files.TestX)
	require.Equal(t, []int64{360, 64}, x.Shape)
	_, testLabels := floats(t, files.TestY)
	require.Len(t, testLabels, 360)

	// The sums are those of the CSV file, so nothing is lost or repeated.
	sum, of := 0.0, [10]int{}
	for _, v := range append(train, test...) {
		require.True(t, v >= 0 && v <= 16)
		sum += v
	}
	for _, v := range append(labels, testLabels...) {
		of[int(v)]++
	}
	require.Equal(t, 561718.0, sum)
	require.Equal(t, [10]int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}, of)

	before, err := os.Stat(files.TrainX)
	require.NoError(t, err)
	_, err = c.Materialise(t.Context(), "digits", info.Digest, cache.New(s, dir, 0))
	require.NoError(t, err)
	after, err := os.Stat(files.TrainX)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "what is there is taken")
	require.NoError(t, os.Truncate(files.TrainX, 100))
	_, err = c.Materialise(t.Context(), "digits", info.Digest, cache.New(s, dir, 0))
	require.NoError(t, err)
	_, again2 := floats(t, files.TrainX)
	require.Len(t, again2, 1437*64, "a damaged copy is made anew")
	require.Empty(t, keys(t, s), "the built-in data set needs no store")

	_, err = c.Materialise(t.Context(), "digits", strings.Repeat("0", 64), cache.New(s, dir, 0))
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

func TestConcurrentCallersShareOneCopy(t *testing.T) {
	dir := t.TempDir()
	c := dataset.New(store.NewMem())
	info, err := c.Open(t.Context(), "digits", dataset.Options{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = dataset.New(store.NewMem()).Materialise(t.Context(), "digits", info.Digest, cache.New(store.NewMem(), dir, 0))
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "datasets", info.Digest))
	require.NoError(t, err)
	require.Len(t, entries, 4, "and no temporary file is left")
}

const someCSV = "a,b,label\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,10,2\n11,12,2\n"

func TestImportFillsTheStoreOnce(t *testing.T) {
	digests := map[string]bool{}
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c := dataset.New(s)
			path := writeFile(t, "My Data.CSV", []byte(someCSV))
			info, err := c.Open(t.Context(), path, dataset.Options{})
			require.NoError(t, err)
			digests[info.Digest] = true
			require.Equal(t, dataset.Info{
				Name: "my-data", Digest: info.Digest, Train: 4, Test: 2,
				XShape: []int64{2}, XType: "float32", YShape: []int64{}, YType: "int64",
			}, info)
			prefix := "datasets/my-data/" + info.Digest + "/"
			want := []string{prefix + "manifest.json", prefix + "test-x.npy", prefix + "test-y.npy", prefix + "train-x.npy", prefix + "train-y.npy"}
			require.Equal(t, want, keys(t, s))
			before, err := s.Stat(t.Context(), prefix+"train-x.npy")
			require.NoError(t, err)

			again, err := c.Open(t.Context(), path, dataset.Options{})
			require.NoError(t, err)
			require.Equal(t, info, again)
			after, err := s.Stat(t.Context(), prefix+"train-x.npy")
			require.NoError(t, err)
			require.Equal(t, before, after, "nothing was written again")

			byName, err := c.Open(t.Context(), "my-data", dataset.Options{})
			require.NoError(t, err)
			require.Equal(t, info, byName)
			other, err := c.Open(t.Context(), path, dataset.Options{Seed: 1})
			require.NoError(t, err)
			require.NotEqual(t, info.Digest, other.Digest, "another split is another data set")
		})
	}
	require.Len(t, digests, 1, "the digest does not depend on the store")
}

func TestMaterialiseGivesWhatWasImported(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c, dir := dataset.New(s), filepath.Join(t.TempDir(), "scratch")
			info, err := c.Open(t.Context(), writeFile(t, "d.csv", []byte(someCSV)), dataset.Options{})
			require.NoError(t, err)
			files, err := c.Materialise(t.Context(), info.Name, info.Digest, cache.New(s, dir, 0))
			require.NoError(t, err)
			_, x := floats(t, files.TrainX)
			_, tx := floats(t, files.TestX)
			_, y := floats(t, files.TrainY)
			_, ty := floats(t, files.TestY)
			label := map[float64]float64{1: 0, 3: 1, 5: 0, 7: 1, 9: 2, 11: 2}
			for i, v := range append(y, ty...) {
				row := append(x, tx...)[2*i : 2*i+2]
				require.Equal(t, row[0]+1, row[1])
				require.Equal(t, label[row[0]], v)
				delete(label, row[0])
			}
			require.Empty(t, label, "each sample once")
			if name == "file" {
				require.NoDirExists(t, dir, "no copy is made")
				require.Contains(t, files.TrainX, "datasets/d/"+info.Digest)
			} else {
				require.Equal(t, filepath.Join(dir, "datasets", info.Digest, "train-x.npy"), files.TrainX)
			}
		})
	}
}

// What an import that died left is not a data set, and the next import of the
// same completes it. What is damaged later is Corrupt and repaired the same way.
func TestImportRepairsWhatIsIncomplete(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c := dataset.New(s)
			path := writeFile(t, "d.csv", []byte(someCSV))
			info, err := c.Open(t.Context(), path, dataset.Options{})
			require.NoError(t, err)
			prefix := "datasets/d/" + info.Digest + "/"
			for _, damage := range []func(){
				func() { require.NoError(t, s.Delete(t.Context(), prefix+"manifest.json")) },
				func() { require.NoError(t, s.Put(t.Context(), prefix+"manifest.json", text("{"))) },
				func() { require.NoError(t, s.Put(t.Context(), prefix+"manifest.json", text("{}"))) },
				func() { require.NoError(t, s.Delete(t.Context(), prefix+"test-y.npy")) },
				func() { require.NoError(t, s.Put(t.Context(), prefix+"test-y.npy", text("short"))) },
			} {
				damage()
				_, err := dataset.New(s).Materialise(t.Context(), "d", info.Digest, cache.New(s, t.TempDir(), 0))
				require.Contains(t, []fault.Kind{fault.NotFound, fault.Corrupt}, fault.KindOf(err), "%v", err)
				again, err := c.Open(t.Context(), path, dataset.Options{})
				require.NoError(t, err)
				require.Equal(t, info, again)
				_, err = dataset.New(s).Materialise(t.Context(), "d", info.Digest, cache.New(s, t.TempDir(), 0))
				require.NoError(t, err)
			}
		})
	}
}

// Other bytes of the same length are found by the digest, at the first use.
func TestMaterialiseFindsFlippedBits(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			info, err := dataset.New(s).Open(t.Context(), writeFile(t, "d.csv", []byte(someCSV)), dataset.Options{})
			require.NoError(t, err)
			key := "datasets/d/" + info.Digest + "/train-y.npy"
			o, err := s.Stat(t.Context(), key)
			require.NoError(t, err)
			require.NoError(t, s.Put(t.Context(), key, text(strings.Repeat("x", int(o.Size)))))
			dir := t.TempDir()
			_, err = dataset.New(s).Materialise(t.Context(), "d", info.Digest, cache.New(s, dir, 0))
			require.Equal(t, fault.Corrupt, fault.KindOf(err))
			require.ErrorContains(t, err, key)
			require.NoFileExists(t, filepath.Join(dir, "datasets", info.Digest, "train-y.npy"))
		})
	}
}

func TestUnknownNames(t *testing.T) {
	s := store.NewMem()
	c := dataset.New(s)
	for name, kind := range map[string]fault.Kind{
		"nope": fault.NotFound, "./nope": fault.NotFound, "nope.csv": fault.NotFound, "/nope/x.npz": fault.NotFound,
		"": fault.Invalid, "..": fault.Invalid, "a\x00b": fault.Invalid, "/etc": fault.Invalid, "/etc/passwd": fault.Invalid,
		"/dev/zero": fault.Invalid,
	} {
		_, err := c.Open(t.Context(), name, dataset.Options{})
		require.Equal(t, kind, fault.KindOf(err), "%q: %v", name, err)
		if name != "" {
			require.ErrorContains(t, err, strings.Trim(name, "\x00ab"))
		}
	}
	_, err := c.Get(t.Context(), "../x", "y")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	for _, share := range []float64{-0.1, 1, 2} {
		_, err := c.Open(t.Context(), "x.csv", dataset.Options{TestShare: share})
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
	require.Empty(t, keys(t, s))
}

func TestACancelledImportLeavesNothing(t *testing.T) {
	s := store.NewMem()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := dataset.New(s).Open(ctx, writeFile(t, "d.csv", []byte(someCSV)), dataset.Options{})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, keys(t, s))
}

func TestAFileNamedLikeTheBuiltInDataSetDoesNotHideIt(t *testing.T) {
	c := dataset.New(store.NewMem())
	info, err := c.Open(t.Context(), writeFile(t, "digits.csv", []byte(someCSV)), dataset.Options{})
	require.NoError(t, err)
	require.Equal(t, "digits-file", info.Name)
	again, err := c.Open(t.Context(), info.Name, dataset.Options{})
	require.NoError(t, err)
	require.Equal(t, info, again)
}

// failing is a store that cannot put one object.
type failing struct {
	store.Store
	suffix string
}

func (f failing) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	if strings.HasSuffix(key, f.suffix) {
		return fault.New("test", fault.Unavailable, "%s: no space left on device", key)
	}
	return f.Store.Put(ctx, key, write)
}

func TestAnImportThatTheStoreRefusesLeavesNothing(t *testing.T) {
	path := writeFile(t, "d.csv", []byte(someCSV))
	for _, suffix := range []string{"train-x.npy", "train-y.npy", "test-x.npy", "test-y.npy", "manifest.json"} {
		s := store.NewMem()
		_, err := dataset.New(failing{s, suffix}).Open(t.Context(), path, dataset.Options{})
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
		require.ErrorContains(t, err, suffix)
		require.Empty(t, keys(t, s), suffix)
		_, err = dataset.New(s).Open(t.Context(), path, dataset.Options{})
		require.NoError(t, err, "later it works")
	}
}

func TestConcurrentImportsOfOneFileAreOneDataSet(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, "d.csv", []byte(someCSV))
			var wg sync.WaitGroup
			errs, infos := make([]error, 8), make([]dataset.Info, 8)
			for i := range errs {
				wg.Go(func() { infos[i], errs[i] = dataset.New(s).Open(t.Context(), path, dataset.Options{}) })
			}
			wg.Wait()
			for i, err := range errs {
				require.NoError(t, err)
				require.Equal(t, infos[0], infos[i])
			}
			require.Len(t, keys(t, s), 5)
			_, err := dataset.New(s).Materialise(t.Context(), "d", infos[0].Digest, cache.New(s, t.TempDir(), 0))
			require.NoError(t, err)
		})
	}
}

// What run is given by its path may have changed; what was created under a name
// stays until it is deleted.
func TestCreateReplacesNothing(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			c, path := dataset.New(s), filepath.Join(t.TempDir(), "t.csv")
			write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
			write("a,y\n1,0\n2,1\n")
			first, err := c.Create(t.Context(), "t", path, dataset.Options{})
			require.NoError(t, err)
			again, err := c.Create(t.Context(), "t", path, dataset.Options{})
			require.NoError(t, err)
			require.Equal(t, first, again)
			write("a,y\n1,0\n3,1\n")
			before := keys(t, s)
			_, err = c.Create(t.Context(), "t", path, dataset.Options{})
			require.Equal(t, fault.Conflict, fault.KindOf(err))
			require.ErrorContains(t, err, "troupe dataset delete --name t")
			require.Equal(t, before, keys(t, s), "nothing is left of it")
			changed, err := c.Open(t.Context(), path, dataset.Options{})
			require.NoError(t, err)
			require.Equal(t, "t", changed.Name)
			require.NotEqual(t, first.Digest, changed.Digest)
			latest, err := c.Latest(t.Context(), "t")
			require.NoError(t, err)
			require.Equal(t, changed.Digest, latest.Digest)
			require.NoError(t, c.Delete(t.Context(), "t"))
			_, err = c.Create(t.Context(), "t", path, dataset.Options{})
			require.NoError(t, err)
		})
	}
}
