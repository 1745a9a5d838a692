package api_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/config"
)

// A client asks for 200 jobs that run, again and again.
func BenchmarkTasks(b *testing.B) {
	s := start(b, func(_ *config.API, d *api.Deps) { d.Log = zap.NewNop() })
	for i := range 200 {
		s.company.Add(running(fmt.Sprint("j", i)))
	}
	took := []time.Duration{0}
	for b.Loop() {
		began := time.Now()
		response, err := http.Get(s.URL() + "/tasks")
		require.NoError(b, err)
		n, err := io.Copy(io.Discard, response.Body)
		require.NoError(b, err)
		response.Body.Close()
		b.SetBytes(n)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportAllocs()
}
