package remote_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/remote"
	"github.com/troupe-ml/troupe/store/storetest"
)

// TestMain is also the entry of the processes that the tests start: see
// child_test.go.
func TestMain(m *testing.M) {
	runChild()
	goleak.VerifyTestMain(m)
}

func TestConforms(t *testing.T) {
	for name, start := range map[string]func(http.Handler) *httptest.Server{
		"plain": httptest.NewServer, "TLS": httptest.NewTLSServer,
	} {
		for driver, open := range map[string]func(t *testing.T) store.Store{
			"file": func(t *testing.T) store.Store { return file(t, t.TempDir()+"/store") },
			"mem":  func(*testing.T) store.Store { return store.NewMem() },
		} {
			t.Run(name+" "+driver, func(t *testing.T) {
				storetest.Run(t, func(t *testing.T) store.Store {
					server := start(http.StripPrefix("/store", remote.NewHandler(open(t))))
					t.Cleanup(server.Close)
					return remote.New(remote.At(server.Client(), server.URL+"/store"))
				})
			})
		}
	}
}

func file(t *testing.T, dir string) *store.File {
	t.Helper()
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// serve serves a store, and returns it as another node sees it.
func serve(t *testing.T, s store.Store) *remote.Store {
	t.Helper()
	server := httptest.NewServer(remote.NewHandler(s))
	t.Cleanup(server.Close)
	return remote.New(remote.At(server.Client(), server.URL))
}

func text(content string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}
}

func requireKind(t *testing.T, want fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
}

func read(t *testing.T, s store.Store, key string) string {
	t.Helper()
	b, err := store.Read(t.Context(), s, key, 1000)
	require.NoError(t, err)
	return string(b)
}

// While nobody knows where the other node is, its store is Unavailable, at once.
func TestNobodyThere(t *testing.T) {
	s := remote.New(func() (*http.Client, string, error) {
		return nil, "", fault.New("test", fault.NotFound, "no node %q", "n1")
	})
	_, get := s.Get(t.Context(), "k", 0, -1)
	_, stat := s.Stat(t.Context(), "k")
	_, _, pin := s.Pin(t.Context())
	_, shares := remote.Shares(t.Context(), s, s)
	for what, err := range map[string]error{
		"get": get, "stat": stat, "pin": pin, "shares": shares, "put": s.Put(t.Context(), "k", text("x")),
		"put if absent": s.PutIfAbsent(t.Context(), "k", text("x")), "delete": s.Delete(t.Context(), "k"),
	} {
		requireKind(t, fault.Unavailable, err)
		require.ErrorContains(t, err, `no node "n1"`, what)
	}
	require.Equal(t, "https://unknown/objects/a/k", s.URL("a/k"))
}

// A store is told from a copy of it, which has its id.
func TestShares(t *testing.T) {
	dir := t.TempDir()
	leaders := file(t, dir+"/store")
	over := serve(t, leaders)
	shares := func(own store.Store) bool {
		yes, err := remote.Shares(t.Context(), own, over)
		require.NoError(t, err)
		return yes
	}
	none := file(t, dir+"/none")
	require.False(t, shares(none))
	require.NoDirExists(t, dir+"/none", "asking makes no store")
	other := file(t, dir+"/other")
	_, err := store.ID(t.Context(), other)
	require.NoError(t, err)
	require.False(t, shares(other))
	require.True(t, shares(file(t, dir+"/store")), "opened by another")
	require.NoError(t, os.CopyFS(dir+"/copy", os.DirFS(dir+"/store")))
	require.False(t, shares(file(t, dir+"/copy")))
	for o, err := range leaders.List(t.Context(), "") {
		require.NoError(t, err)
		require.Equal(t, "store.json", o.Key)
	}
}

// What is pinned to one folder does not work in another that takes its place, nor
// in the same one when the node that has it was restarted meanwhile.
func TestPin(t *testing.T) {
	dir := t.TempDir()
	leaders := file(t, dir+"/store")
	over := serve(t, leaders)
	same, life, err := store.Pin(t.Context(), over)
	require.NoError(t, err)
	require.Zero(t, life, "there is no store yet")
	require.NoError(t, over.Put(same, "k", text("1")))
	id, err := store.ID(t.Context(), over)
	require.NoError(t, err)
	require.NotEmpty(t, id)

	pinned, first, err := store.Pin(t.Context(), over)
	require.NoError(t, err)
	require.NotZero(t, first)
	_, again, err := store.Pin(pinned, over)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.NoError(t, over.Put(pinned, "k", text("2")))

	require.NoError(t, os.CopyFS(dir+"/copy", os.DirFS(dir+"/store")))
	require.NoError(t, os.Rename(dir+"/store", dir+"/away"))
	require.NoError(t, os.Rename(dir+"/copy", dir+"/store"))
	requireKind(t, fault.Unavailable, over.Put(pinned, "k", text("3")))
	requireKind(t, fault.Unavailable, over.Delete(pinned, "k"))
	_, err = over.Get(pinned, "k", 0, -1)
	requireKind(t, fault.Unavailable, err)
	_, err = over.Stat(pinned, "k")
	requireKind(t, fault.Unavailable, err)
	for _, err := range over.List(pinned, "") {
		requireKind(t, fault.Unavailable, err)
	}
	_, _, err = store.Pin(pinned, over)
	requireKind(t, fault.Unavailable, err)
	require.Equal(t, "2", read(t, over, "k"))
	_, second, err := store.Pin(t.Context(), over)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

// What a store's objects are called for people is what its own node calls them.
func TestObjectsAreCalledAsTheirNodeCallsThem(t *testing.T) {
	there := store.NewMem()
	defer there.Close()
	server := httptest.NewServer(remote.NewHandler(there))
	defer server.Close()
	s := remote.New(remote.At(server.Client(), server.URL))
	_, _, err := s.Pin(t.Context())
	require.NoError(t, err)
	require.Equal(t, "mem:///a/k.json", s.URL("a/k.json"))
}
