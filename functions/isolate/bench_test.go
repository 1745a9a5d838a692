package isolate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/isolate"
	"github.com/troupe-ml/troupe/functions/native"
)

// BenchmarkCall is what an invocation of a function that does nothing takes, in a
// child that is warm and in one that is started for it.
func BenchmarkCall(b *testing.B) {
	inner, err := native.New(known()...)
	require.NoError(b, err)
	for name, invocation := range map[string]string{"warm": "well", "cold": "is-killed"} {
		b.Run(name, func(b *testing.B) {
			r := isolate.New(isolate.Config{Knows: inner, Dir: b.TempDir()})
			for range b.N {
				_, err := r.Run(b.Context(), asking(invocation, 0))
				require.Equal(b, name == "warm", err == nil, "%v", err)
			}
			b.StopTimer()
			for _, pid := range childrenOf(b, os.Getpid()) {
				rollup, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "smaps_rollup"))
				require.NoError(b, err)
				b.Logf("%.400s", rollup)
			}
			require.NoError(b, r.Close())
		})
	}
}
