package mutants

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Continuous integration breaks the code with a part of the patches only: that
// each still applies is seen here.
func TestEveryPatchApplies(t *testing.T) {
	root := "../.."
	all, err := find(root, nil)
	require.NoError(t, err)
	for _, m := range all {
		_, err := m.overlay(t.Context(), root, t.TempDir())
		require.NoError(t, err, m.name)
	}
}
