package e2e_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What cannot be trained is refused with one line, its exit code, and nothing
// left anywhere.
func TestE2EBadInputLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says []string // parts of the line
	}{
		"unknown function":      {[]string{"run", "mpl", "-d", "digits"}, 3, []string{`"mpl"`, "mlp", "softmax"}},
		"unknown data set":      {[]string{"run", "mlp", "-d", "digit"}, 3, []string{`"digit"`, "digits"}},
		"file that is not":      {[]string{"run", "mlp", "-d", "./none.csv"}, 3, []string{"none.csv"}},
		"batch 0":               {[]string{"run", "mlp", "-d", "digits", "-b", "0"}, 2, []string{`"0"`, "--batch", "1 to 65536"}},
		"lr NaN":                {[]string{"run", "mlp", "-d", "digits", "--lr", "NaN"}, 2, []string{`"NaN"`, "--lr", "finite"}},
		"N 0":                   {[]string{"run", "mlp", "-d", "digits", "-p", "0"}, 2, []string{`"0"`, "--parallelism"}},
		"N 65537":               {[]string{"run", "mlp", "-d", "digits", "-p", "65537"}, 2, []string{`"65537"`, "--parallelism", "1 to 65536"}},
		"max below min":         {[]string{"run", "mlp", "-d", "digits", "--min-parallelism", "3", "--max-parallelism", "2"}, 2, []string{"2", "3"}},
		"unknown flag":          {[]string{"run", "mlp", "-d", "digits", "--frobnicate"}, 2, []string{"--frobnicate"}},
		"unknown merge":         {[]string{"run", "mlp", "-d", "digits", "--merge", "mode"}, 2, []string{`"mode"`, "average:unweighted"}},
		"unknown chaos":         {[]string{"run", "mlp", "-d", "digits", "--chaos", "fire=1"}, 2, []string{`"fire"`, "kill"}},
		"unknown kind of store": {[]string{"run", "mlp", "-d", "digits", "--store", "ftp://x/y"}, 2, []string{"ftp"}},
		"unknown argument":      {[]string{"run", "mlp", "-d", "digits", "--arg", "depth=3"}, 2, []string{"depth", "hidden"}},
		"argument out of range": {[]string{"run", "mlp", "-d", "digits", "--arg", "hidden=0"}, 2, []string{"hidden"}},
		"csv with a word in it": {[]string{"run", "mlp", "-d", "word.csv"}, 2, []string{"word.csv", "line 3"}},
		"csv with a short line": {[]string{"run", "mlp", "-d", "short.csv"}, 2, []string{"short.csv", "line 2"}},
		"csv that is empty":     {[]string{"run", "mlp", "-d", "empty.csv"}, 2, []string{"empty.csv", "empty"}},
		"csv, label NaN":        {[]string{"run", "mlp", "-d", "nan.csv"}, 2, []string{"nan.csv", "label"}},
		"npz that is no zip":    {[]string{"run", "mlp", "-d", "noise.npz"}, 6, []string{"noise.npz"}},
		"npz with a cut array":  {[]string{"run", "mlp", "-d", "cut.npz"}, 6, []string{"cut.npz", "x_train"}},
		"npz without labels":    {[]string{"run", "mlp", "-d", "nolabels.npz"}, 2, []string{"nolabels.npz", "y_train"}},
		"npz of pickles":        {[]string{"run", "mlp", "-d", "pickle.npz"}, 2, []string{"pickle.npz", "x_train"}},
		"npz, y too short":      {[]string{"run", "mlp", "-d", "lengths.npz"}, 2, []string{"lengths.npz", "4", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			writeBrokenFiles(t, h.dir)
			before := files(t, h.dir)
			e := h.troupe(t, append(c.args, "-o", "json")...)
			require.Equal(t, c.code, e.code, e.err)
			require.Empty(t, e.out)
			require.True(t, strings.HasPrefix(e.err, "troupe: "), e.err)
			require.Equal(t, 1, strings.Count(e.err, "\n"), e.err)
			for _, part := range c.says {
				require.Contains(t, e.err, part)
			}
			require.Equal(t, before, files(t, h.dir), "nothing is left: no store, nothing temporary")
		})
	}
}

func writeBrokenFiles(t *testing.T, dir string) {
	t.Helper()
	x, y := npy("<f4", "(4, 2)", 32), npy("<i8", "(4,)", 32)
	for name, content := range map[string][]byte{
		"word.csv":     []byte("1,2,0\n3,4,1\n5,six,0\n"),
		"short.csv":    []byte("1,2,0\n3,1\n"),
		"empty.csv":    nil,
		"nan.csv":      []byte("1,2,0\n3,4,nan\n"),
		"noise.npz":    []byte("this is no zip archive"),
		"cut.npz":      npz(t, map[string][]byte{"x_train": x[:len(x)-9], "y_train": y}),
		"nolabels.npz": npz(t, map[string][]byte{"x_train": x}),
		"pickle.npz":   npz(t, map[string][]byte{"x_train": npy("|O", "(4,)", 32), "y_train": y}),
		"lengths.npz":  npz(t, map[string][]byte{"x_train": x, "y_train": npy("<i8", "(3,)", 24)}),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}

// npy is a .npy file of version 1 with size zero bytes of data.
func npy(descr, shape string, size int) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape)
	header += strings.Repeat(" ", 118-len(header)-1) + "\n" // the data starts at 128
	return append([]byte("\x93NUMPY\x01\x00\x76\x00"+header), make([]byte, size)...)
}

func npz(t *testing.T, arrays map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range arrays {
		f, err := w.Create(name + ".npy")
		require.NoError(t, err)
		_, err = f.Write(content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}
