package store_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/storetest"
)

// TestMain is also the entry of the processes that the tests start: see
// child_test.go.
func TestMain(m *testing.M) {
	runChild()
	goleak.VerifyTestMain(m)
}

func TestFile(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := store.Open(t.Context(), "file://"+filepath.Join(t.TempDir(), "not", "there yet"))
		require.NoError(t, err)
		return s
	})
}

func TestMem(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := store.Open(t.Context(), "mem://")
		require.NoError(t, err)
		return s
	})
}

func TestOpenRefusesOtherURLs(t *testing.T) {
	for url, want := range map[string]string{
		"s3://bucket":         `scheme "s3": supported are file:// and mem://`,
		"/tmp/x":              `a path, and not a URL: write file:///tmp/x`,
		"/a b":                `write file:///a%20b`,
		"":                    "supported are",
		"file://":             "no absolute path",
		"file:relative":       "only a scheme and a path",
		"file://host/dir":     `names the host "host"`,
		"file:///dir?x=1":     "only a scheme and a path",
		"mem://name":          "has no name",
		"file:///a\x00b":      "no URL",
		"file:///dev/null":    "not a folder",
		"file:///dev/null/x":  "behind a file",
		"file://u:p@host/dir": "only a scheme and a path",
	} {
		_, err := store.Open(t.Context(), url)
		require.ErrorContains(t, err, want, url)
		require.Equal(t, fault.Invalid, fault.KindOf(err), url)
	}
}

func TestMemStoresAreSeparate(t *testing.T) {
	a, b := store.NewMem(), store.NewMem()
	require.NoError(t, a.Put(t.Context(), "k", nothing))
	_, err := b.Stat(t.Context(), "k")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.Equal(t, "mem:///k", a.URL("k"))
}
