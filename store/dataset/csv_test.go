package dataset_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/dataset"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func gzipped(t testing.TB, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, s)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// imported is a data set that was imported and read back. x and y are those of
// the training part, then those of the test part.
type imported struct {
	dataset.Info
	x, y []float64
}

// importFile imports one file into a fresh store. An error must leave nothing.
func importFile(t *testing.T, name string, content []byte) (imported, error) {
	t.Helper()
	s := store.NewMem()
	c := dataset.New(s)
	info, err := c.Open(t.Context(), writeFile(t, name, content), dataset.Options{})
	if err != nil {
		require.Empty(t, keys(t, s), "a refused file leaves nothing")
		require.Contains(t, err.Error(), name)
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

func TestCSVIsRead(t *testing.T) {
	for name, tt := range map[string]struct {
		text     string
		features int64
		yType    string
		y        []float64 // as a set
	}{
		"no header":              {"1,2,0\n3,4,1\n5,6,2\n", 2, "int64", []float64{0, 1, 2}},
		"header":                 {"a,b,y\n1,2,0\n3,4,1\n5,6,2\n", 2, "int64", []float64{0, 1, 2}},
		"numbered columns":       {"0,1,label\n1,2,0\n3,4,1\n", 2, "int64", []float64{0, 1}},
		"names without the last": {"a,b,\n1,2,0\n3,4,1\n", 2, "int64", []float64{0, 1}},
		"byte order mark":        {"\ufeff1,2,0\n3,4,1\n", 2, "int64", []float64{0, 1}},
		"CRLF, no last newline":  {"1,2,0\r\n3,4,1", 2, "int64", []float64{0, 1}},
		"blanks and empty lines": {" 1 , 2 , 0 \n\n 3 , 4 , 1 \n\n", 2, "int64", []float64{0, 1}},
		"quotes":                 {"\"a,b\",\"y\"\n\"1\",\"0\"\n2,1\n", 1, "int64", []float64{0, 1}},
		"whole floats":           {"1,0.0\n2,1e1\n3,-2\n", 1, "int64", []float64{0, 10, -2}},
		"big integers":           {"1,9007199254740993\n2,1\n", 1, "int64", []float64{9007199254740992, 1}},
		"a late fraction":        {"1,0\n2,1\n3,0.5\n4,2\n", 1, "float32", []float64{0, 1, 0.5, 2}},
		"one feature, two rows":  {"1,0\n2,1\n", 1, "int64", []float64{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for file, content := range map[string][]byte{"d.csv": []byte(tt.text), "d.csv.gz": gzipped(t, tt.text), "gz.csv": gzipped(t, tt.text)} {
				d, err := importFile(t, file, content)
				require.NoError(t, err)
				require.Empty(t, d.Warnings)
				require.Equal(t, []int64{tt.features}, d.XShape)
				require.Equal(t, tt.yType, d.YType)
				require.EqualValues(t, len(tt.y), d.Train+d.Test)
				require.ElementsMatch(t, tt.y, d.y)
			}
		})
	}
}

func TestCSVIsRefusedWithTheReason(t *testing.T) {
	whole := gzipped(t, strings.Repeat("1,2,0\n", 10_000))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-8] ^= 1 // the checksum
	for name, tt := range map[string]struct {
		content string
		kind    fault.Kind
		want    string
	}{
		"no bytes":             {"", fault.Invalid, "empty: the file has no bytes"},
		"only newlines":        {"\n\n", fault.Invalid, "empty: no samples"},
		"only a header":        {"a,b\n", fault.Invalid, "empty: a header and no samples"},
		"one column":           {"1\n2\n", fault.Invalid, "line 1 has one column"},
		"semicolons":           {"1;2\n", fault.Invalid, "separated by commas"},
		"short line":           {"1,2,0\n3,4\n", fault.Invalid, "line 2 has 2 columns, those before it 3"},
		"long line":            {"a,y\n1,2,0\n", fault.Invalid, "line 2 has 3 columns, those before it 2"},
		"a word":               {"1,2,0\n3,x,1\n", fault.Invalid, `line 2, column 2: "x" is no number`},
		"a gap":                {"1,,0\n", fault.Invalid, `line 1, column 2: "" is no number`},
		"a gap in the label":   {"1,2,\n", fault.Invalid, `line 1, column 3: "" is no number`},
		"word label":           {"1,cat\n2,dog\n", fault.Invalid, `line 2, column 2: "dog" is no number`},
		"NaN label":            {"1,0\n2,NaN\n", fault.Invalid, "line 2, column 2: the label is not finite"},
		"infinite label":       {"1,0\n2,-inf\n", fault.Invalid, "the label is not finite"},
		"beyond float32":       {"1,0\n1e39,0\n", fault.Invalid, `line 2, column 1: "1e39" does not fit a float32`},
		"label beyond float32": {"1,1e400\n", fault.Invalid, `does not fit a float32`},
		"open quote":           {"1,\"0\n", fault.Invalid, "quote"},
		"truncated gzip":       {string(whole[:len(whole)/2]), fault.Corrupt, "truncated"},
		"truncated gzip start": {string(whole[:5]), fault.Corrupt, "truncated"},
		"bad checksum":         {string(flipped), fault.Corrupt, "broken gzip"},
		"behind the gzip":      {string(whole) + "garbage garbage", fault.Corrupt, "broken gzip"},
		"endless line":         {"1," + strings.Repeat("2", 65<<20), fault.Invalid, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := importFile(t, "d.csv", []byte(tt.content))
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, tt.kind, fault.KindOf(err), "%v", err)
		})
	}
}

func TestNonFiniteFeaturesAreOneWarningThatCounts(t *testing.T) {
	d, err := importFile(t, "d.csv", []byte("1,nan,0\nInf,-Inf,1\n1,2,2\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"x has 3 values that are NaN or infinite"}, d.Warnings)
	n := 0
	for _, v := range d.x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			n++
		}
	}
	require.Equal(t, 3, n)
}

func TestSplitLeavesSamplesOnBothSides(t *testing.T) {
	for n, test := range map[int]int64{1: 0, 2: 1, 3: 1, 5: 1, 6: 2, 10: 2, 11: 3, 63: 13, 64: 13, 65: 13} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d,%d\n", i, i)
		}
		d, err := importFile(t, "d.csv", []byte(b.String()))
		require.NoError(t, err)
		require.EqualValues(t, int64(n)-test, d.Train, n)
		require.Equal(t, test, d.Test, n)
		require.Equal(t, d.x, d.y, "labels stay with their samples")
		require.IsIncreasing(t, append([]float64{-1}, d.x[:d.Train]...), "the order of the file is kept")
		require.Equal(t, n == 1, len(d.Warnings) == 1)
		seen := map[float64]bool{}
		for _, v := range d.x {
			seen[v] = true
		}
		require.Len(t, seen, n)
	}
}

func TestTheDigestIsThatOfTheContent(t *testing.T) {
	digest := func(name, text string) string {
		d, err := importFile(t, name, []byte(text))
		require.NoError(t, err)
		return d.Digest
	}
	same := digest("a.csv", "1,2,0\n3,4,1\n")
	require.Equal(t, same, digest("b.csv", "x,y,z\n1.0,2e0,0\n3,4.00,1.0\n"))
	require.NotEqual(t, same, digest("a.csv", "1,2,0\n3,4,2\n"))
	require.NotEqual(t, same, digest("a.csv", "1,2,0\n3,4,1\n3,4,1\n"))
	require.NotEqual(t, same, digest("a.csv", "1,2,0.5\n3,4,1\n"))
}

// No temporary file has a name for longer than a moment.
func TestImportLeavesNoTemporaryFile(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s := store.NewMem()
	for _, content := range []string{someCSV, "1,2\n3,x\n"} {
		path := filepath.Join(tmp, "d.csv")
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		_, _ = dataset.New(s).Open(t.Context(), path, dataset.Options{})
		require.NoError(t, os.Remove(path))
		entries, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	t.Setenv("TMPDIR", filepath.Join(tmp, "gone"))
	_, err := dataset.New(s).Open(t.Context(), writeFile(t, "e.csv", []byte(someCSV)), dataset.Options{})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
}

func TestTheLabelIsTheColumnOfThatName(t *testing.T) {
	path := writeFile(t, "d.csv", []byte("\ufefflabel, b ,c\n0,1,2\n10,11,12\n20,21,22\n"))
	for i, label := range []string{"label", "b", "c"} {
		d, err := importPath(t, path, dataset.Options{Label: label})
		require.NoError(t, err)
		require.Equal(t, []int64{2}, d.XShape)
		var x, y []float64
		for sample := range 3 {
			for column := range 3 {
				if v := float64(10*sample + column); column == i {
					y = append(y, v)
				} else {
					x = append(x, v)
				}
			}
		}
		require.ElementsMatch(t, y, d.y)
		require.ElementsMatch(t, x, d.x)
	}
	byDefault, err := importPath(t, path, dataset.Options{})
	require.NoError(t, err)
	named, err := importPath(t, path, dataset.Options{Label: "c"})
	require.NoError(t, err)
	require.Equal(t, byDefault, named)
	numbered := writeFile(t, "n.csv.gz", gzipped(t, "2020,2021\n1,5\n2,6\n"))
	d, err := importPath(t, numbered, dataset.Options{Label: "2020"})
	require.NoError(t, err, "who names the first line's number says that it is a header")
	require.ElementsMatch(t, []float64{1, 2}, d.y)
}

func TestALabelThatIsNotThereIsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"another name": {"d.csv", someCSV, `no column "y": the header names a, b, label`},
		"no header":    {"d.csv", "1,2\n3,4\n", `no column "y": the file has no header`},
		"twice":        {"d.csv", "y,x,y\n1,2,3\n", `columns 1 and 3 are both called "y"`},
		"no CSV":       {"d.npz", "PK", `label "y": only the columns of a CSV file have names`},
		"a folder":     {".", "", `label "y": only the columns`},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			if name != "a folder" {
				path = writeFile(t, tt.file, []byte(tt.text))
			}
			_, err := importPath(t, path, dataset.Options{Label: "y"})
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
}
