package client_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/client"
)

// connections is a server that does with each connection what is next.
func connections(t *testing.T, next ...http.HandlerFunc) *client.Client {
	t.Helper()
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next[min(int(n.Add(1)), len(next))-1](w, r)
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{Server: server.URL, Silence: 200 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// says sends a text, and then does something.
func says(text string, then func(w http.ResponseWriter, r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		then(w, r)
	}
}

func cut(http.ResponseWriter, *http.Request)        { panic(http.ErrAbortHandler) }
func ends(http.ResponseWriter, *http.Request)       {}
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestAFollowedLogHasEachLineOnce(t *testing.T) {
	for name, c := range map[string]struct {
		connections []http.HandlerFunc
		want        string
	}{
		"it is cut off, and functions come in another order": {
			[]http.HandlerFunc{says("0| a\n1| x\n0| b\n", cut), says("0| a\n0| b\n0| c\n1| x\n1| y\n", ends)},
			"0| a\n1| x\n0| b\n0| c\n1| y\n",
		},
		"the same line comes again and again": {
			[]http.HandlerFunc{says("0| a\n0| a\n", cut), says("0| a\n0| a\n0| a\n", ends)},
			"0| a\n0| a\n0| a\n",
		},
		"in mid-line":                     {[]http.HandlerFunc{says("0| a\n0| b", cut), says("0| a\n0| b\n", ends)}, "0| a\n0| b\n"},
		"what was not stored is lost":     {[]http.HandlerFunc{says("0| a\n0| b\n0| c\n", cut), says("0| a\n0| d\n0| c\n", ends)}, "0| a\n0| b\n0| c\n0| d\n0| c\n"},
		"the server is dead, and silent":  {[]http.HandlerFunc{says("0| a\n", silent), says("0| a\n0| b\n", ends)}, "0| a\n0| b\n"},
		"it is silent from the beginning": {[]http.HandlerFunc{silent, says("0| a\n", ends)}, "0| a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, connections(t, c.connections...).Log(t.Context(), "r", -1, true, &out))
			require.Equal(t, c.want, out.String())
		})
	}
}

// A server that says that it lives is not given up, however long it says nothing
// else; one that is silent is.
func TestSilenceIsWhatCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(client.Config{Server: "127.0.0.1:1"})
		require.NoError(t, err)
		connections := 0
		require.NoError(t, c.Follow(t.Context(), func(ctx context.Context, heard func()) (bool, bool, error) {
			connections++
			for range 10 {
				time.Sleep(70 * time.Second)
				require.NoError(t, ctx.Err())
				heard()
			}
			if connections < 3 {
				time.Sleep(76 * time.Second)
				require.Error(t, ctx.Err())
			}
			return connections < 3, true, ctx.Err()
		}))
		require.Equal(t, 3, connections)
	})
}

// Events of a server that is silent come from the next one.
func TestASilentServerIsGone(t *testing.T) {
	c := connections(t, silent, says("retry: 1\n\n", silent), says("event: end\ndata: {}\n\n", ends))
	require.NoError(t, c.Events(t.Context(), "r", "", func(api.Event) error { return nil }))
}
