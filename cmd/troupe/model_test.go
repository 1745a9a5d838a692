package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/model"
	"github.com/troupe-ml/troupe/tensor"
)

// storeWith makes a store with models of these ids, and returns its URL and the
// bytes of each of them.
func storeWith(t *testing.T, ids ...string) (url string, weights []byte) {
	t.Helper()
	dict := tensor.StateDict{
		tensor.NewFloat32("fc.weight", []int64{1, 2}, []float32{0.5, -1}),
		tensor.New(tensor.Spec{Name: "fc.bias", DType: tensor.BF16, Shape: []int64{1}}, []float64{2}),
		tensor.NewInt64("steps", nil, []int64{7}),
	}
	var b bytes.Buffer
	_, err := tensor.Write(&b, dict)
	require.NoError(t, err)
	url = "file://" + filepath.Join(t.TempDir(), "store")
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	accuracy, loss := 96.25, 0.125
	for i, id := range ids {
		card := model.Card{
			Function: "mlp", Dataset: "a&b.npz", DatasetDigest: "0c0da2e881d2888221e642a6a53c37c9", Epochs: 5, TrainLoss: new(0.25), Parallelism: 2, Merge: "average",
			Created: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC),
		}
		if i == 0 {
			card.Accuracy, card.ValidationLoss = &accuracy, &loss
		}
		_, err := model.New(s).Save(t.Context(), id, 1, card, func(w io.Writer) error {
			_, err := w.Write(b.Bytes())
			return err
		})
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	return url, b.Bytes()
}

func runModel(t *testing.T, args ...string) run {
	return newWorld(t).run(succeeded(), append([]string{"model"}, args...)...)
}

func TestModelList(t *testing.T) {
	url, _ := storeWith(t, "01b", "01a")
	r := runModel(t, "list", "--store", url)
	require.Zero(t, r.code, r.err)
	require.Empty(t, r.err)
	require.Equal(t, `ID    FUNCTION   DATASET   EPOCHS   ACCURACY   VAL-LOSS   BYTES   CREATED
01a   mlp        a&b.npz   5        -          -          210     2026-11-30T01:02:03Z
01b   mlp        a&b.npz   5        96.2 %     0.125      210     2026-11-30T01:02:03Z
`, r.out)
	r = runModel(t, "list", "--store", url, "-o", "json")
	require.Zero(t, r.code, r.err)
	require.Regexp(t, `^\[\{"id":"01a",.*"dataset":"a&b.npz".*"accuracy":null.*"model":"file:///.*/models/01a.1.safetensors"\},\{"id":"01b",.*"accuracy":96.25.*\}\]\n$`, r.out)
}

func TestModelListOfAnEmptyStore(t *testing.T) {
	url := "file://" + t.TempDir()
	r := runModel(t, "list", "--store", url)
	require.Equal(t, run{0, "", "no models at " + url + "\n"}, r)
	require.Equal(t, run{0, "[]\n", ""}, runModel(t, "list", "--store", url, "-o", "json"))
}

func TestModelShow(t *testing.T) {
	url, _ := storeWith(t, "01a")
	r := runModel(t, "show", "-n", "01a", "--store", url)
	require.Zero(t, r.code, r.err)
	for _, line := range []string{
		"model 01a\n", "  function    mlp\n", "  data set    a&b.npz (0c0da2e881d2…)\n", "  accuracy    96.2 %\n", "  merge       average, N=2 at the end, seed 0\n",
		"01a.1.safetensors (210 bytes)\n", "  tensors     3\n", "    fc.weight  F32   [1 2]\n", "    fc.bias    BF16  [1]\n", "    steps      I64   []\n",
	} {
		require.Contains(t, r.out, line)
	}
	r = runModel(t, "show", "-n", "01a", "--store", url, "-o", "json")
	require.Zero(t, r.code, r.err)
	require.Regexp(t, `^\{"id":"01a",.*"model":"file:.*","tensors":\[\{"name":"fc.weight","dtype":"F32","shape":\[1,2\]\},.*\{"name":"steps","dtype":"I64","shape":\[\]\}\]\}\n$`, r.out)
}

func TestModelDelete(t *testing.T) {
	url, _ := storeWith(t, "01a", "01b")
	require.Equal(t, run{0, "", "model 01a deleted\n"}, runModel(t, "delete", "-n", "01a", "--store", url))
	r := runModel(t, "delete", "--id", "01a", "--store", url)
	require.Equal(t, 3, r.code)
	require.Equal(t, "troupe: no model 01a\n", r.err)
	require.NotContains(t, runModel(t, "list", "--store", url).out, "01a")
}

func TestModelExportIsTheFileOfTheStore(t *testing.T) {
	url, weights := storeWith(t, "01a")
	file := filepath.Join(t.TempDir(), "m.bin")
	r := runModel(t, "export", "-n", "01a", "-o", file, "--store", url)
	require.Equal(t, run{0, "", "model 01a exported to " + file + " (safetensors)\n"}, r)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, weights, b)
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file is left")
}

func TestModelExportOfNPZ(t *testing.T) {
	url, _ := storeWith(t, "01a")
	for _, args := range [][]string{{"-o", "m.npz"}, {"-o", "m.NPZ"}, {"-o", "m.zip", "--format", "npz"}} {
		t.Chdir(t.TempDir())
		r := runModel(t, append([]string{"export", "-n", "01a", "--store", url}, args...)...)
		require.Zero(t, r.code, r.err)
		require.Empty(t, r.out)
		require.Equal(t, "troupe: note: bfloat16 tensors are written as float32, which numpy has: 1\nmodel 01a exported to "+args[1]+" (npz)\n", r.err)
		archive, err := zip.OpenReader(args[1])
		require.NoError(t, err)
		require.Len(t, archive.File, 3)
		require.Equal(t, "fc.weight.npy", archive.File[0].Name)
		require.NoError(t, archive.Close())
	}
}

func TestModelExportReplacesAFileOnlyByForce(t *testing.T) {
	url, weights := storeWith(t, "01a")
	dir := t.TempDir()
	file, link := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	require.NoError(t, os.Symlink("m.safetensors", link))
	for _, path := range []string{file, link} {
		r := runModel(t, "export", "-n", "01a", "-o", path, "--store", url)
		require.Equal(t, run{4, "", "troupe: " + path + " exists: give another name, or --force to replace it\n"}, r)
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine", string(b))
	require.Zero(t, runModel(t, "export", "-n", "01a", "-o", link, "--force", "--store", url).code)
	b, err = os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, weights, b, "the file behind a link is replaced, not the link")
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, info.Mode().Type())
}

func TestModelExportToStandardOutput(t *testing.T) {
	url, weights := storeWith(t, "01a")
	r := runModel(t, "export", "-n", "01a", "-o", "-", "--store", url)
	require.Equal(t, run{0, string(weights), ""}, r)
	w := newWorld(t)
	w.IsTerminal = func(out io.Writer) bool { return out == io.Writer(w.out) }
	r = w.run(succeeded(), "model", "export", "-n", "01a", "-o", "-", "--store", url)
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, "a terminal cannot show a model")
	require.Empty(t, r.out)
}

// A model that is damaged, or a signal, leaves the file as it was.
func TestModelExportLeavesNothingHalfDone(t *testing.T) {
	url, weights := storeWith(t, "01a")
	dir := t.TempDir()
	file := filepath.Join(dir, "m.safetensors")
	require.NoError(t, os.WriteFile(file, []byte("mine"), 0o600))
	err := writeWhole(file, true, func(out io.Writer) error {
		_, err := out.Write(weights)
		require.NoError(t, err)
		return fault.New("test", fault.Unavailable, "stopped by SIGTERM")
	})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))

	s, err := store.NewFile(url[len("file://"):])
	require.NoError(t, err)
	require.NoError(t, s.Put(t.Context(), "models/01a.1.safetensors", func(w io.Writer) error {
		_, err := w.Write(append(weights[:len(weights)-1:len(weights)-1], 1))
		return err
	}))
	require.NoError(t, s.Close())
	for _, format := range model.Formats() {
		r := runModel(t, "export", "-n", "01a", "-o", file, "--force", "--format", format, "--store", url)
		require.Equal(t, 6, r.code, r.err)
		require.Contains(t, r.err, "export model 01a: ")
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine", string(b))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestAFileThatAppearsMeanwhileIsNotReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "m")
	err := writeWhole(file, false, func(io.Writer) error { return os.WriteFile(file, []byte("mine"), 0o600) })
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "mine", string(b))
	err = writeWhole(file, true, func(io.Writer) error { return errors.New("no space left on device") })
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, file)
}

func TestModelRefusals(t *testing.T) {
	url, _ := storeWith(t, "01a")
	file := filepath.Join(t.TempDir(), "m")
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"an unknown verb":     {[]string{"lst"}, 2, `there is no verb "lst": did you mean "list"?`},
		"show without id":     {[]string{"show"}, 2, "no model given: say which with -n ID"},
		"export without id":   {[]string{"export", "-o", file}, 2, "no model given"},
		"export without file": {[]string{"export", "-n", "01a"}, 2, "no file given: say where to write the model with -o FILE"},
		"delete without id":   {[]string{"delete"}, 2, "no model given"},
		"delete by argument":  {[]string{"delete", "01a"}, 2, "see troupe model delete --help"},
		"another format":      {[]string{"export", "-n", "01a", "-o", file, "--format", "onnx"}, 2, "give one of safetensors, npz"},
		"another output":      {[]string{"list", "-o", "yaml"}, 2, "give one of table, json"},
		"a broken id":         {[]string{"show", "-n", "../x"}, 2, `model id "../x" has the character '.'`},
		"an unknown id":       {[]string{"show", "-n", "01b"}, 3, "no model 01b"},
		"export unknown":      {[]string{"export", "-n", "01b", "-o", file}, 3, "no model 01b"},
		"delete unknown":      {[]string{"delete", "-n", "01b"}, 3, "no model 01b"},
		"into a folder":       {[]string{"export", "-n", "01a", "-o", "/"}, 2, "/ is not a file"},
		"over a device":       {[]string{"export", "-n", "01a", "-o", "/dev/null", "--force"}, 2, "/dev/null is not a file"},
		"no such folder":      {[]string{"export", "-n", "01a", "-o", "/nope/m"}, 5, "/nope/m: no such file or directory"},
		"no store":            {[]string{"list", "--store", ""}, 2, "there is no store"},
		"another store":       {[]string{"list", "--store", "ftp://x"}, 2, `has the scheme "ftp"`},
	} {
		t.Run(name, func(t *testing.T) {
			args := c.args
			if name != "no store" && name != "another store" && name != "an unknown verb" {
				args = append(args, "--store", url)
			}
			r := runModel(t, args...)
			require.Equal(t, c.code, r.code, r.err)
			require.Contains(t, r.err, "troupe: ")
			require.Contains(t, r.err, c.says)
			require.Empty(t, r.out)
			require.NoFileExists(t, file)
		})
	}
}
