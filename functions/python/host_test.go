package python_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// private returns a folder of this user alone, as short as may be.
func private(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pt")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}
