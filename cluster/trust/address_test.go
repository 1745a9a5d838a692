package trust_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/pki"
)

// says listens for a test, and says the same to whoever comes.
func says(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

func serves(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// Who is given an address where waiting helps nobody says so at once, and leaves
// nothing behind.
func TestWrongAddressesAreToldAtOnce(t *testing.T) {
	p := newPlace(t)
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	defer secured.Close()
	points, err := trust.Discover(t.Context(), p.api, p.id.Fingerprint())
	require.NoError(t, err)
	for name, c := range map[string]struct{ at, says string }{
		"the listener for nodes": {points[0], "nodes speak to each other there: give the address of the server's --listen"},
		"no troupe":              {serves(t, http.NotFound), "is no server of troupe: it answers with status 404"},
		"no troupe, friendly":    {serves(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }), "is no server of troupe: it answers with status 200"},
		"no troupe, of JSON":     {serves(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }), "is no server of troupe: its answer names no address"},
		"no troupe, with TLS":    {strings.TrimPrefix(secured.URL, "https://"), "is not the one that the token is for"},
		"no HTTP":                {says(t, "SSH-2.0-x\r\n"), "is no server of troupe: what it answers is not TLS"},
		"no host":                {"no..host:8780", "there is no host of that name"},
		"a server that nobody joins": {serves(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(httpfault.Header, fault.NotFound.String())
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"no node can join","code":404}`)
		}), "no node can join"},
	} {
		t.Run(name, func(t *testing.T) {
			n := p.newcomer(p.token(t))
			n.Dir, n.API = filepath.Join(t.TempDir(), "tls", "joined"), c.at
			n.Waits = func(why error) { t.Errorf("it waits: %v", why) }
			_, err := trust.Join(t.Context(), n)
			require.ErrorContains(t, err, c.says)
			require.Contains(t, []fault.Kind{fault.Invalid, fault.NotFound}, fault.KindOf(err))
			require.NoDirExists(t, n.Dir)
		})
	}
}

// What may come yet is waited for; why it does not is told at once.
func TestALeaderThatStartsIsWaitedFor(t *testing.T) {
	p := newPlace(t)
	var asked atomic.Int32
	point := func() string {
		points, err := trust.Discover(t.Context(), p.api, p.id.Fingerprint())
		require.NoError(t, err)
		return points[0]
	}()
	n := p.newcomer(p.token(t))
	n.API = serves(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(trust.Point{Address: point})
	})
	var told []string
	n.Waits = func(why error) { told = append(told, why.Error()) }
	joined, err := trust.Join(t.Context(), n)
	require.NoError(t, err)
	joined.Close()
	require.Len(t, told, 1)
	require.Contains(t, told[0], "answers with status 503")

	n.Dir = filepath.Join(t.TempDir(), "joined")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	n.API = l.Addr().String()
	told = nil
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = trust.Join(ctx, n)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.Len(t, told, 1)
	require.Contains(t, told[0], "connection refused")
	require.NoDirExists(t, n.Dir)
}

// Of a folder that was there what is in it stays.
func TestAFolderThatWasThereStays(t *testing.T) {
	p := newPlace(t)
	joined, err := trust.Join(t.Context(), p.newcomer(p.token(t)))
	require.NoError(t, err)
	joined.Close()
	_, err = trust.Join(t.Context(), p.newcomer(pki.NewToken(pki.ForJoin, p.id.Fingerprint())))
	require.ErrorContains(t, err, "unknown here")
	again, err := trust.Open(p.newcomer("").Dir)
	require.NoError(t, err)
	require.Equal(t, joined.Node(), again.Node())
	again.Close()
}
