package bench_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/functions/remote/endpoint"
	"github.com/troupe-ml/troupe/tensor"
)

// BenchmarkRemote has a function behind HTTP take a model and give one back, with
// both sides in this process, and says how much memory that took: reported case
// 31.
func BenchmarkRemote(b *testing.B) {
	for _, megabytes := range []int64{4, 600} {
		b.Run(fmt.Sprintf("model=%dMB", megabytes), func(b *testing.B) { benchmarkRemote(b, megabytes*1e6) })
	}
}

func benchmarkRemote(b *testing.B, size int64) {
	exchange := remote.NewExchange(func(context.Context, remote.Ref) error { return nil })
	loopback := remote.NewLoopback(exchange)
	defer loopback.Close()
	runtime := remote.New(remote.Config{Exchange: exchange, URL: loopback.URL})
	defer runtime.Close()
	e, err := endpoint.New(endpoint.Config{
		Runtime: copier{}, Slots: 1, Dir: b.TempDir(), Log: zap.NewNop(),
		Function: func(map[string]string) (string, error) { return "f", nil },
	})
	require.NoError(b, err)
	defer e.Close()
	server := httptest.NewServer(e)
	defer server.Close()
	require.NoError(b, runtime.Register("f", server.URL))

	model, x, y := sparseModel(b, size), npy(b, tensor.NpyFloat32, 8, 4), npy(b, tensor.NpyInt64, 8)
	peak := watchMemory(b)
	b.SetBytes(2 * size)
	for attempt := 0; b.Loop(); attempt++ {
		out := &fileOutput{path: filepath.Join(b.TempDir(), "model")}
		_, err := runtime.Run(b.Context(), functions.Invocation{
			Task: functions.Train, Function: "f", JobID: "j", Epoch: 1, N: 1, K: -1, BatchSize: 8, Attempt: attempt,
			Positions: []int64{0, 1, 2, 3}, Data: functions.Data{X: x, Y: y, Samples: 8}, Model: model, ModelOut: out,
		})
		require.NoError(b, err)
		require.NoError(b, os.Remove(out.path))
	}
	b.ReportMetric(float64(peak())/1e3, "peak-anon-MB")
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
	return functions.Answer{Samples: int64(len(inv.Positions)), Batches: 1}, err
}

// fileOutput writes a file, as a scratch folder does.
type fileOutput struct {
	path string
	file *os.File
}

func (o *fileOutput) Create(int64) (w io.Writer, err error) {
	o.file, err = os.Create(o.path)
	return o, err
}

func (o *fileOutput) Write(p []byte) (int, error) { return o.file.Write(p) }
func (o *fileOutput) Path() string                { return o.path }
func (o *fileOutput) Attest(uint32)               {}

// sparseModel is a state dict of one tensor of zeros that takes no room.
func sparseModel(b *testing.B, bytes int64) functions.Input {
	b.Helper()
	header := fmt.Appendf(nil, `{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, bytes, bytes)
	head := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	f, err := os.Create(filepath.Join(b.TempDir(), "sparse.safetensors"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = f.Close() })
	_, err = f.Write(head)
	require.NoError(b, err)
	size := int64(len(head)) + bytes
	require.NoError(b, f.Truncate(size))
	return functions.Input{R: f, Size: size, Path: f.Name()}
}

// npy is an array of zeros.
func npy(b *testing.B, t tensor.NpyType, shape ...int64) functions.Input {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "a.npy"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = f.Close() })
	require.NoError(b, tensor.WriteNpyHeader(f, t, shape))
	size, err := f.Seek(0, io.SeekCurrent)
	require.NoError(b, err)
	for n := int64(1); len(shape) > 0; shape = shape[1:] {
		if n *= shape[0]; len(shape) == 1 {
			size += n * t.Size()
		}
	}
	require.NoError(b, f.Truncate(size))
	return functions.Input{R: f, Size: size, Path: f.Name()}
}

// watchMemory looks at the anonymous memory of this process until the returned
// function is called, which returns the most that it was more than now, in kB.
func watchMemory(b *testing.B) (peak func() int64) {
	begin := kilobytes(b, "/proc/self/status", "RssAnon:")
	stop, most := make(chan struct{}), make(chan int64)
	go func() {
		var high int64
		for {
			high = max(high, int64(kilobytes(b, "/proc/self/status", "RssAnon:")-begin))
			select {
			case <-time.After(5 * time.Millisecond):
			case <-stop:
				most <- high
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-most
	}
}
