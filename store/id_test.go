package store_test

import (
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

func TestAStoreHasOneID(t *testing.T) {
	dir := t.TempDir()
	var ids [8]string
	var wg sync.WaitGroup
	for i := range ids {
		s, err := store.NewFile(dir)
		require.NoError(t, err)
		defer s.Close()
		wg.Go(func() { ids[i], _ = store.ID(t.Context(), s) })
	}
	wg.Wait()
	for _, id := range ids {
		require.NotEmpty(t, id)
		require.Equal(t, ids[0], id)
	}
	other := store.NewMem()
	defer other.Close()
	id, err := store.ID(t.Context(), other)
	require.NoError(t, err)
	require.NotEqual(t, ids[0], id)
	for _, damaged := range []string{"", "{}", `{"id":`} {
		require.NoError(t, other.Put(t.Context(), "store.json", func(w io.Writer) error {
			_, err := io.WriteString(w, damaged)
			return err
		}))
		_, err = store.ID(t.Context(), other)
		require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "store.json is damaged")
	}
}
