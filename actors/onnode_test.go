package actors_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// Which of many nodes lacks something nobody could know else.
func TestDataThatANodeDoesNotGetNameIt(t *testing.T) {
	digest := strings.Repeat("0", 64)
	folder := filepath.Join(t.TempDir(), "cache")
	_, alone := actors.FilesOf(store.NewMem(), folder, "").Files(t.Context(), "nosuch", digest)
	require.Error(t, alone)
	_, among := actors.FilesOf(store.NewMem(), folder, "vm-a").Files(t.Context(), "nosuch", digest)
	require.EqualError(t, among, "on node vm-a: "+alone.Error())
	require.Equal(t, fault.KindOf(alone), fault.KindOf(among))
}
