package dataset_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/dataset"
)

// Of several who create data sets of one name at the same moment exactly one has
// the name; the others are told so, and nothing of theirs is left.
func TestOneNameIsCreatedOnce(t *testing.T) {
	for kind, s := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			const writers = 6
			dir := t.TempDir()
			for i := range writers {
				text := fmt.Appendf(nil, "a,y\n1,0\n%d,1\n", 2+i)
				require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.csv", i)), text, 0o600))
			}
			for round := range 10 {
				name := fmt.Sprintf("t%d", round)
				var all sync.WaitGroup
				digests, errs := [writers]string{}, [writers]error{}
				for i := range writers {
					all.Go(func() {
						info, err := dataset.New(s).Create(t.Context(), name, filepath.Join(dir, fmt.Sprintf("%d.csv", i)), dataset.Options{})
						digests[i], errs[i] = info.Digest, err
					})
				}
				all.Wait()
				winner := ""
				for i, err := range errs {
					if err == nil {
						require.Empty(t, winner, "another one has it, too")
						winner = digests[i]
						continue
					}
					require.Equal(t, fault.Conflict, fault.KindOf(err), "%v", err)
				}
				latest, err := dataset.New(s).Latest(t.Context(), name)
				require.NoError(t, err)
				require.Equal(t, winner, latest.Digest)
				require.Len(t, keys(t, s), 5, "four arrays and a manifest")
				require.NoError(t, dataset.New(s).Delete(t.Context(), name))
			}
			require.Empty(t, keys(t, s))
		})
	}
}

// Who dies with the right to a name has it for seconds, not for ever.
func TestANameIsNotHeldForEver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	require.NoError(t, os.WriteFile(path, []byte("a,y\n1,0\n2,1\n"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMem()
		defer s.Close()
		require.NoError(t, s.Put(t.Context(), "datasets/t/claims/1", func(w io.Writer) error {
			_, err := io.WriteString(w, "dead")
			return err
		}))
		began := time.Now()
		_, err := dataset.New(s).Create(t.Context(), "t", path, dataset.Options{})
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second)
		require.Len(t, keys(t, s), 5, "four arrays and a manifest")
	})
}
