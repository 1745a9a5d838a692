package plane_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
)

func TestAFullScratchFolderNamesItsNode(t *testing.T) {
	s, err := plane.OpenScratch(config.Scratch{Dir: t.TempDir()}, "vm-a", nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	_, err = s.Create("k", 1<<55)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "in scratch folder "+s.Folder()+" of node vm-a: ")
	require.NotContains(t, err.Error(), "another scratch folder", "there is no flag for one")
}
