package function_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/function"
)

// Whatever a manifest says, nothing is written outside of the folder asked for.
func FuzzManifest(f *testing.F) {
	source := filepath.Join(f.TempDir(), "p.py")
	require.NoError(f, os.WriteFile(source, []byte("x"), 0o600))
	info, err := function.New(store.NewMem()).Import(f.Context(), source)
	require.NoError(f, err)
	f.Add([]byte("{}"))
	f.Add([]byte(`{"name":"p","version":"` + info.Version + `","runtime":"python","entry":"p.py","single":true,"bytes":1,"files":[{"name":"p.py","bytes":1,"sha256":"` + info.Files[0].SHA256 + `"}]}`))
	f.Add([]byte(`{"name":"p","version":"` + info.Version + `","runtime":"python","entry":"../p.py","files":[{"name":"../p.py","bytes":1,"sha256":"` + info.Files[0].SHA256 + `"}]}`))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		s := store.NewMem()
		c := function.New(s)
		_, err := c.Import(t.Context(), source)
		require.NoError(t, err)
		require.NoError(t, s.Put(t.Context(), "functions/p/"+info.Version+"/manifest.json", text(string(manifest))))
		got, err := c.Get(t.Context(), "p", info.Version)
		if err != nil {
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
			return
		}
		for _, file := range got.Files {
			require.True(t, filepath.IsLocal(file.Name))
		}
	})
}
