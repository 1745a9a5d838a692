package function_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/function"
)

func TestEndpointsAreAFunction(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *function.Catalog) {
		const b, a = "https://b.example/fn/lenet?key=1", "http://[::1]:8000"
		info, err := c.Link(t.Context(), "lenet", []string{b, a, b})
		require.NoError(t, err)
		require.Equal(t, function.Info{
			Name: "lenet", Version: "2504d528a023ea62ca6e86977a8046031c20395dbf78e23e35b21b8493444505", Runtime: "remote",
			URLs: []string{a, b}, Files: []function.File{}, Imported: info.Imported,
		}, info)
		require.Equal(t, []string{"functions/lenet/" + info.Version + "/manifest.json"}, keys(t, s))
		shown, err := c.Show(t.Context(), "lenet")
		require.NoError(t, err)
		require.Equal(t, info, shown)
		again, err := c.Link(t.Context(), "lenet", []string{a, b})
		require.NoError(t, err)
		require.Equal(t, info.Version, again.Version, "the order is none of it")
		_, err = c.Materialise(t.Context(), "lenet", info.Version, t.TempDir())
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)

		// Code and endpoints take the place of each other.
		program, err := c.ImportAs(t.Context(), "lenet", function.Source{Path: file(t, "n.py", "x")})
		require.NoError(t, err)
		shown, err = c.Show(t.Context(), "lenet")
		require.NoError(t, err)
		require.Equal(t, program.Version, shown.Version)
		_, err = c.Link(t.Context(), "lenet", []string{a})
		require.NoError(t, err)
		list, err := c.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.Equal(t, []string{a}, list[0].URLs)
		require.NoError(t, c.Delete(t.Context(), "lenet"))
		require.Empty(t, keys(t, s))
	})
}

func TestWhatIsNoEndpointIsRefused(t *testing.T) {
	many := make([]string, function.MaxURLs+1)
	for i := range many {
		many[i] = fmt.Sprintf("http://a/%d", i)
	}
	for name, tt := range map[string]struct {
		urls []string
		want string
	}{
		"none":               {nil, "it has no URL"},
		"too many":           {many, "it has 1025 URLs: give at most 1024"},
		"too long":           {[]string{"http://a/" + string(make([]byte, 3000))}, "has 3009 bytes: give at most 2048"},
		"no scheme":          {[]string{"127.0.0.1:8000/x"}, "first path segment in URL cannot contain colon"},
		"another scheme":     {[]string{"http://a", "file:///etc/passwd"}, `"file:///etc/passwd" is neither http nor https`},
		"no host":            {[]string{"http:///x"}, `"http:///x" names no host`},
		"a port alone":       {[]string{"http://:80/x"}, `"http://:80/x" names no host`},
		"an opaque one":      {[]string{"http:a"}, `"http:a" names no host`},
		"a password":         {[]string{"http://u:secret@a/"}, `the URL of host "a" has a user name or a password`},
		"a fragment":         {[]string{"http://a/#f"}, "leave out #f"},
		"a broken host":      {[]string{"http://[::1"}, "missing ']'"},
		"a control sequence": {[]string{"http://a/\n"}, "invalid control character"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMem()
			_, err := function.New(s).Link(t.Context(), "n", tt.urls)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "secret")
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.Empty(t, keys(t, s))
		})
	}
	_, err := function.New(store.NewMem(), "mlp").Link(t.Context(), "mlp", []string{"http://a"})
	require.ErrorContains(t, err, `the name "mlp" is that of a built-in function`)
	_, err = function.New(store.NewMem()).Link(t.Context(), "../x", []string{"http://a"})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

func TestABrokenLinkIsCorrupt(t *testing.T) {
	s := store.NewMem()
	c := function.New(s)
	info, err := c.Link(t.Context(), "n", []string{"http://a"})
	require.NoError(t, err)
	for name, manifest := range map[string]string{
		"another URL": `{"name":"n","version":"` + info.Version + `","runtime":"remote","urls":["http://b"]}`,
		"no URL":      `{"name":"n","version":"` + info.Version + `","runtime":"remote"}`,
		"files too":   `{"name":"n","version":"` + info.Version + `","runtime":"remote","urls":["http://a"],"entry":"main.py"}`,
	} {
		require.NoError(t, s.Put(t.Context(), "functions/n/"+info.Version+"/manifest.json", text(manifest)))
		_, err := c.Show(t.Context(), "n")
		require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s: %v", name, err)
	}
}
