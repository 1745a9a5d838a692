package dataset_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/tensor"
)

// childEnv tells the test binary that it is the child of the test below, and
// in which folder.
const childEnv = "TROUPE_DATASET_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := importLarge(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	largeRows  = 384
	largeRow   = 1 << 20   // bytes
	largeLimit = 128 << 20 // beyond what the process has when it starts
)

// An array three times the memory of the process is imported, split, and read
// in another order than it lies.
func TestAnArrayLargerThanMemory(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	var header bytes.Buffer
	require.NoError(t, tensor.WriteNpyHeader(&header, tensor.NpyUint8, []int64{largeRows, largeRow}))
	x, err := os.Create(filepath.Join(data, "x_train.npy"))
	require.NoError(t, err)
	_, err = x.Write(header.Bytes())
	require.NoError(t, err)
	labels := make([]int64, largeRows)
	for i := range int64(largeRows) { // each row says at both ends which it is; between them is a hole
		labels[i] = i
		at := int64(header.Len()) + i*largeRow
		for _, off := range []int64{at, at + largeRow - 2} {
			_, err := x.WriteAt(binary.BigEndian.AppendUint16(nil, uint16(i)), off)
			require.NoError(t, err)
		}
	}
	require.NoError(t, x.Close())
	require.NoError(t, os.WriteFile(filepath.Join(data, "y_train.npy"), intNPY(t, fmt.Sprintf("(%d,)", largeRows), labels...), 0o600))

	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir, "GOMEMLIMIT=64MiB")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// importLarge imports dir/data into dir/store and reads it back, shuffled.
func importLarge(dir string) error {
	limit, err := dataBytes()
	if err != nil {
		return err
	}
	limit += largeLimit
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	if b, err := unix.Mmap(-1, 0, largeRows*largeRow, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); !errors.Is(err, unix.ENOMEM) {
		return fmt.Errorf("the limit is none: %d bytes were given, %v", len(b), err)
	}
	s, err := store.NewFile(filepath.Join(dir, "store"))
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, c := context.Background(), dataset.New(s)
	info, err := c.Open(ctx, filepath.Join(dir, "data"), dataset.Options{})
	if err != nil {
		return err
	}
	files, err := c.Materialise(ctx, info.Name, info.Digest, cache.New(s, dir, 0))
	if err != nil {
		return err
	}
	seen := map[int64]bool{}
	for _, part := range []struct {
		x, y string
		n    int64
	}{{files.TrainX, files.TrainY, info.Train}, {files.TestX, files.TestY, info.Test}} {
		if err := readShuffled(part.x, part.y, part.n, seen); err != nil {
			return err
		}
	}
	if len(seen) != largeRows {
		return fmt.Errorf("%d of %d samples", len(seen), largeRows)
	}
	return nil
}

// dataBytes is what counts against RLIMIT_DATA. The race detector has mapped
// much at the start.
func dataBytes() (uint64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "\nVmData:")
	var kib uint64
	_, err = fmt.Sscan(after, &kib)
	return kib << 10, err
}

// readShuffled reads samples in batches of four and compares them to their
// labels.
func readShuffled(xPath, yPath string, n int64, seen map[int64]bool) error {
	x, err := openNPY(xPath)
	if err != nil {
		return err
	}
	y, err := openNPY(yPath)
	if err != nil {
		return err
	}
	order := dataset.Permutation(1, int(n))
	for len(order) > 0 {
		batch := make([]int64, min(4, len(order)))
		for i := range batch {
			batch[i] = int64(order[i])
		}
		order = order[len(batch):]
		values, labels := make([]float32, len(batch)*largeRow), make([]int64, len(batch))
		if err := errors.Join(x.Float32Rows(values, batch), y.Int64Rows(labels, batch)); err != nil {
			return err
		}
		for i, label := range labels {
			row := values[i*largeRow : (i+1)*largeRow]
			for _, at := range []int{0, largeRow - 2} {
				if got := int64(row[at])<<8 | int64(row[at+1]); got != label {
					return fmt.Errorf("row %d is that of label %d", got, label)
				}
			}
			seen[label] = true
		}
	}
	return nil
}

func openNPY(path string) (*tensor.NpyFile, error) {
	f, err := os.Open(path) // closed with the process
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return tensor.OpenNpy(f, info.Size())
}
