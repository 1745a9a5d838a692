package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	bucket "github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/remote"
)

// BenchmarkStore puts an object into another node's store, and reads it.
func BenchmarkStore(b *testing.B) {
	for _, megabytes := range []int64{1, 100, 600} {
		b.Run(fmt.Sprintf("object=%dMB", megabytes), func(b *testing.B) { benchmarkStore(b, megabytes*1e6) })
	}
}

func benchmarkStore(b *testing.B, size int64) {
	local, err := bucket.NewFile(b.TempDir())
	require.NoError(b, err)
	defer func() { require.NoError(b, local.Close()) }()
	server := httptest.NewTLSServer(remote.NewHandler(local))
	defer server.Close()
	transport := server.Client().Transport.(*http.Transport)
	transport.ReadBufferSize, transport.WriteBufferSize = 256<<10, 256<<10 // as those of the cluster
	s := remote.New(remote.At(server.Client(), server.URL))
	window := noiseBytes(64 << 10)
	peak := watchMemory(b)
	b.SetBytes(2 * size)
	for b.Loop() {
		require.NoError(b, s.Put(b.Context(), "object", func(w io.Writer) error {
			for left := size; left > 0; left -= int64(len(window)) {
				if _, err := w.Write(window[:min(left, int64(len(window)))]); err != nil {
					return err
				}
			}
			return nil
		}))
		r, err := s.Get(b.Context(), "object", 0, -1)
		require.NoError(b, err)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 256<<10))
		require.NoError(b, err)
		require.Equal(b, size, n)
		require.NoError(b, r.Close())
	}
	b.ReportMetric(float64(peak())/1e3, "peak-anon-MB")
}
