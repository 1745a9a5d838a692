package remote_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/functions/remote/endpoint"
	"github.com/troupe-ml/troupe/tensor"
)

// serving returns a remote runtime whose functions endpoints run, each with the
// runtime given.
func serving(t *testing.T, at functions.Runtime, names ...string) *remote.Runtime {
	t.Helper()
	testkit.LeakCheck(t)
	exchange := remote.NewExchange(func(context.Context, remote.Ref) error { return nil })
	loopback := remote.NewLoopback(exchange)
	r := remote.New(remote.Config{Exchange: exchange, URL: loopback.URL})
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, loopback.Close())
	})
	for _, name := range names {
		dir := t.TempDir()
		e, err := endpoint.New(endpoint.Config{
			Runtime: at, Slots: 4, Dir: dir, Log: zap.NewNop(),
			Function: func(map[string]string) (string, error) { return name, nil },
		})
		require.NoError(t, err)
		server := httptest.NewServer(e)
		t.Cleanup(func() {
			e.Close()
			server.Close()
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left, "no file is left")
		})
		require.NoError(t, r.Register(name, server.URL))
	}
	return r
}

func TestConforms(t *testing.T) {
	raises := native.Function{
		Name: "raises",
		Init: func(c *native.Call) error { _, err := c.Model.Float32("w", 3); return err },
		Open: func(*native.Call) (native.Model, error) { panic("on purpose") },
	}
	functionstest.Run(t, func(t *testing.T) functionstest.Subject {
		at, err := native.New(raises)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, at.Close()) })
		return functionstest.Subject{Runtime: serving(t, at, "mlp", "raises"), Function: "mlp", Raises: "raises"}
	})
}

// copier is a runtime whose function gives back the model that it got.
type copier struct{}

func (copier) Has(string) bool { return true }
func (copier) Close() error    { return nil }
func (copier) Run(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
	w, err := inv.ModelOut.Create(inv.Model.Size)
	if err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{io.NewSectionReader(inv.Model.R, 0, inv.Model.Size)}, make([]byte, 256<<10))
	}
	return functions.Answer{Samples: int64(len(inv.Positions)), Batches: len(functions.Batches(len(inv.Positions), inv.BatchSize))}, err
}

// sink is an Output that keeps nothing.
type sink struct{ size, written int64 }

func (s *sink) Create(size int64) (io.Writer, error) { s.size = size; return s, nil }
func (s *sink) Path() string                         { return "" }
func (s *sink) Attest(uint32)                        {}
func (s *sink) Write(p []byte) (int, error)          { s.written += int64(len(p)); return len(p), nil }

// Rows and model go to a function, and its model back, in windows: with both sides
// in this process, what is allocated for them is a fraction of their size.
func TestRowsAndModelAreStreamed(t *testing.T) {
	const size = 64 << 20
	r := serving(t, copier{}, "f")
	inv, _, _ := training(t)
	inv.Env, inv.Model, inv.OptimizerOut = nil, sparse(t, size), nil
	inv.Data.X = sparseNpy(t, samples, size/7)
	out := &sink{}
	inv.ModelOut = out
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := r.Run(t.Context(), inv)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, sink{inv.Model.Size, inv.Model.Size}, *out)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size/8))
}

// sparseNpy is an array of uint8 zeros that takes no room on the disk.
func sparseNpy(t testing.TB, shape ...int64) functions.Input {
	t.Helper()
	var header bytes.Buffer
	require.NoError(t, tensor.WriteNpyHeader(&header, tensor.NpyUint8, shape))
	size := int64(header.Len())
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse.npy"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.Write(header.Bytes())
	require.NoError(t, err)
	bytes := int64(1)
	for _, n := range shape {
		bytes *= n
	}
	require.NoError(t, f.Truncate(size+bytes))
	return functions.Input{R: f, Size: size + bytes, Path: f.Name()}
}

// sparse is a state dict of one tensor of zeros that takes no room on the disk.
func sparse(t testing.TB, bytes int64) functions.Input {
	t.Helper()
	header := []byte(`{"w":{"dtype":"U8","shape":[` + strconv.FormatInt(bytes, 10) + `],"data_offsets":[0,` + strconv.FormatInt(bytes, 10) + `]}}`)
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse.safetensors"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	_, err = f.Write(append(head, header...))
	require.NoError(t, err)
	size := int64(len(head)+len(header)) + bytes
	require.NoError(t, f.Truncate(size))
	return functions.Input{R: f, Size: size, Path: f.Name()}
}
