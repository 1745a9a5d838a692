package cluster_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
	planes "github.com/troupe-ml/troupe/plane/remote"
	"github.com/troupe-ml/troupe/store"
	stores "github.com/troupe-ml/troupe/store/remote"
	"github.com/troupe-ml/troupe/store/storetest"
)

// Store and tensor plane of a node are those of another over the connections of the
// cluster, until it goes.
func TestNodesReachEachOthersBytes(t *testing.T) {
	objects := store.NewMem()
	mux := http.NewServeMux()
	mux.HandleFunc("/store/", func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/store", stores.NewHandler(objects)).ServeHTTP(w, r)
	})
	l := lead(t, t.TempDir(), func(c *cluster.Config) { c.Handler = mux })
	tensors := plane.NewMemory(l.Self())
	mux.Handle("/plane/", http.StripPrefix("/plane", planes.NewHandler(l.Self(), tensors)))
	l.Announce()
	a := l.join(t, "a", nil)
	a.awaitCount(t, 1)
	peer := func(what string) func(string) (*http.Client, string, error) {
		return func(node string) (*http.Client, string, error) {
			client, url, err := a.Client(node)
			return client, url + what, err
		}
	}

	t.Run("store", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) store.Store {
			objects = store.NewMem()
			return stores.New(func() (*http.Client, string, error) { return peer("/store")(a.Leader()) })
		})
	})

	space := planes.New(planes.Config{Local: plane.NewMemory(a.Self()), Node: a.Self(), Peer: peer("/plane")})
	defer func() { require.NoError(t, space.Close()) }()
	seal := func(key string) plane.Ref {
		draft, err := tensors.Create(key, 5<<20)
		require.NoError(t, err)
		_, err = draft.Write(bytes.Repeat([]byte("troupe!?"), 5<<17))
		require.NoError(t, err)
		ref, err := draft.Seal()
		require.NoError(t, err)
		return ref
	}
	model, other := seal("j/1/merged/model-1"), seal("j/1/merged/model-2")
	blob, err := space.Open(t.Context(), model)
	require.NoError(t, err)
	defer blob.Close()
	got, err := io.ReadAll(io.NewSectionReader(blob, 0, blob.Size()))
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte("troupe!?"), 5<<17), got)

	l.end()
	a.awaitCount(t, 0)
	_, err = space.Open(t.Context(), other)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	again, err := space.Open(t.Context(), model)
	require.NoError(t, err, "a copy is here")
	require.NoError(t, again.Close())
}
