package pki_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/pki"
)

// A folder is one holder's, also where holders abandon it and others come.
func TestAFolderHasOneHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	var holders, held atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				release, err := pki.Hold(dir)
				if err != nil {
					continue // another one has it
				}
				held.Add(1)
				if holders.Add(1) > 1 {
					t.Error("two hold it")
				}
				holders.Add(-1)
				pki.Abandon(dir) // from here on it is another one's
				release()
			}
		})
	}
	all.Wait()
	require.Positive(t, held.Load())
	release, err := pki.Hold(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	pki.Abandon(dir)
	release()
	require.FileExists(t, filepath.Join(dir, "x"), "it is not all ours")
}
