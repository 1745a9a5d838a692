package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// A node works in its own store where that is the leader's, and only there.
func TestWhichStoreANodeWorksIn(t *testing.T) {
	dir := t.TempDir()
	opened := func(name string) (store.Store, string) {
		s, err := store.Open(t.Context(), "file://"+dir+"/"+name)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		id, err := store.ID(t.Context(), s)
		require.NoError(t, err)
		return s, id
	}
	leaders, id := opened("store")
	_, other := opened("other")
	require.NoError(t, os.CopyFS(dir+"/copy", os.DirFS(dir+"/store")))
	require.NoError(t, os.CopyFS(dir+"/damaged", os.DirFS(dir+"/store")))
	require.NoError(t, os.WriteFile(dir+"/damaged/store.json", []byte("{"), 0o600))
	require.NoError(t, os.Symlink(dir+"/store", dir+"/link"))
	for name, c := range map[string]struct {
		url  string
		kind fault.Kind // of why it is not shared; Unknown: it is
		says []string
	}{
		"the same":           {url: "file://" + dir + "/store"},
		"the same elsewhere": {url: "file://" + dir + "/link"},
		"another":            {"file://" + dir + "/other", fault.Conflict, []string{other, id, "is not the leader's", "leave --store out"}},
		"a copy":             {"file://" + dir + "/copy", fault.Conflict, []string{id, "is a copy of the leader's"}},
		"none":               {"file://" + dir + "/none", fault.Conflict, []string{"there is no store at file://" + dir + "/none yet", id}},
		"a damaged one":      {"file://" + dir + "/damaged", fault.Corrupt, []string{"is damaged"}},
		"no URL":             {"x", fault.Invalid, []string{"is a path, and not a URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			b, why, err := openBucket(t.Context(), c.url, leaders)
			require.NoError(t, err)
			require.Equal(t, id, b.id)
			require.Equal(t, c.kind, fault.KindOf(why), "%v", why)
			require.Equal(t, why == nil, b.shared)
			for _, text := range c.says {
				require.ErrorContains(t, why, text)
			}
			if !b.shared {
				require.Equal(t, leaders, b.Store)
				return
			}
			still, err := b.still(t.Context(), leaders)
			require.NoError(t, err)
			require.True(t, still)
			require.NoError(t, b.Close())
		})
	}
	require.NoDirExists(t, dir+"/none")
	through := bucket{leaders, false, other}
	still, err := through.still(t.Context(), leaders)
	require.NoError(t, err)
	require.False(t, still, "the leader has another one now")
}

func TestStoreLine(t *testing.T) {
	node := func(name string, shares bool) api.Node { return api.Node{Name: name, SharesStore: shares} }
	for want, nodes := range map[string][]api.Node{
		"":                 {node("a", true), node("b", true)},
		"store: only on b": {node("a", false), node("b", true), node("c", false)},
		"store: on a, b":   {node("a", true), node("b", true), node("c", false)},
	} {
		require.Equal(t, want, storeLine(nodes))
	}
	require.Empty(t, storeLine([]api.Node{node("a", true)}))
}
