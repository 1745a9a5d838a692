package cluster_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/pki"
)

// pair is a leader and a node that are well.
func pair(t *testing.T) (*leader, node) {
	t.Helper()
	l := lead(t, t.TempDir(), nil)
	l.Announce()
	a := l.join(t, "a", nil)
	a.Announce()
	l.awaitCount(t, 2)
	a.awaitCount(t, 2)
	return l, a
}

// requireWell sees that both still hear from each other.
func requireWell(t *testing.T, l *leader, a node) {
	t.Helper()
	now := time.Now()
	require.Eventually(t, func() bool {
		x, y := find(l.Members(), a.Self()), find(a.Members(), l.Self())
		return x.LastSeen.After(now) && y.LastSeen.After(now) && x.Alive && y.Alive
	}, patience, 10*time.Millisecond)
	require.NoError(t, l.Err())
	require.NoError(t, a.Err())
}

// requireCut sees that the other end hangs up, whatever it says before.
func requireCut(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func garbage(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func TestStrangersAreRefusedAndNothingStops(t *testing.T) {
	l, a := pair(t)
	ca, err := pki.LoadAuthority(l.dir)
	require.NoError(t, err)
	api, apiKey, err := ca.IssueServer(nil, time.Now())
	require.NoError(t, err)
	foreign, err := pki.NewAuthority(time.Now())
	require.NoError(t, err)
	key, err := pki.NewKey()
	require.NoError(t, err)
	other, err := foreign.IssueNode(a.Self(), key.Public(), time.Now())
	require.NoError(t, err)
	with := func(protocol string, certs ...tls.Certificate) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, Certificates: certs}
	}
	for name, c := range map[string]struct {
		config *tls.Config // nil: plain text
		send   []byte
		logged string // message
	}{
		"plain text":                    {nil, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "connection refused"},
		"garbage":                       {nil, garbage(4096), "connection refused"},
		"no certificate, gossip":        {with("troupe-gossip"), []byte("l"), "connection refused"},
		"no certificate, http":          {with("http/1.1"), []byte("GET / HTTP/1.1\r\n\r\n"), "connection refused"},
		"no certificate, no protocol":   {&tls.Config{InsecureSkipVerify: true}, []byte("x"), "connection refused"},
		"no certificate, two protocols": {&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"troupe-join", "troupe-gossip"}}, []byte("l"), "connection refused"},
		"an old TLS":                    {&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, NextProtos: []string{"troupe-gossip"}}, []byte("l"), "connection refused"},
		"another authority":             {with("troupe-gossip", tls.Certificate{Certificate: [][]byte{other.Raw}, PrivateKey: key}), []byte("l"), "connection refused"},
		"the server of the API":         {with("troupe-gossip", tls.Certificate{Certificate: [][]byte{api.Raw}, PrivateKey: apiKey}), []byte("l"), "connection refused"},
		"garbage to join":               {with("troupe-join"), garbage(4096), ""},
		"junk to join":                  {with("troupe-join"), []byte("POST /join HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz"), "join refused"},
		"more than one joins with":      {with("troupe-join"), append([]byte("POST /join HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"), garbage(1000000)...), "join refused"},
		"hello without a certificate":   {with("troupe-join"), []byte("POST /cluster/hello HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"), "join refused"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []node{l.node, a} {
				if n.id.Authority() == nil && c.config != nil && c.config.NextProtos != nil && c.config.NextProtos[0] == trust.JoinProtocol {
					continue // nobody joins there
				}
				before := n.logs.FilterMessage(c.logged).Len()
				conn := dialTCP(t, n.Address())
				if c.config != nil {
					secured := tls.Client(conn, c.config)
					if err := secured.Handshake(); err != nil {
						conn = nil // refused right away
					} else {
						conn = secured
					}
				}
				if conn != nil {
					_, _ = conn.Write(c.send)
					requireCut(t, conn)
				}
				if c.logged != "" {
					require.Eventually(t, func() bool { return n.logs.FilterMessage(c.logged).Len() > before }, patience, 5*time.Millisecond)
				}
			}
		})
	}
	requireWell(t, l, a)
}

// A node that has gone mad, or was taken over, harms nobody by what it sends.
func TestGarbageFromANodeCutsItsConnectionOnly(t *testing.T) {
	l, a := pair(t)
	mad, err := trust.Join(t.Context(), l.newcomer(t, "mad"))
	require.NoError(t, err)
	defer mad.Close()
	head := func(kind byte, n uint32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(kind)<<24|n) }
	for name, c := range map[string]struct {
		protocol string
		send     []byte
		logged   string
	}{
		"no protocol of ours":        {"h2", nil, "connection refused"},
		"neither link nor stream":    {"troupe-gossip", []byte("x"), "link cut: it begins with nothing of ours"},
		"a frame of no kind":         {"troupe-gossip", append([]byte("l"), head(9, 1)...), "link cut"},
		"a frame that is too long":   {"troupe-gossip", append([]byte("l"), head(1, 1<<24-1)...), "link cut"},
		"a beat that is none":        {"troupe-gossip", append(append([]byte("l"), head(2, 64)...), bytes.Repeat([]byte{0xff}, 64)...), "link cut"},
		"a goodbye that is none":     {"troupe-gossip", append(append([]byte("l"), head(4, 64)...), bytes.Repeat([]byte{0xff}, 64)...), "link cut"},
		"an answer to nothing":       {"troupe-gossip", append([]byte("l"), head(3, 0)...), "link cut"},
		"a stream of garbage":        {"troupe-gossip", append([]byte("s"), garbage(4096)...), ""},
		"requests that are none":     {"http/1.1", append([]byte("\x00"), garbage(4096)...), ""},
		"a greeting that is damaged": {"http/1.1", []byte("POST /cluster/hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nxyz"), "node refused"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []node{l.node, a} {
				before := n.logs.FilterMessage(c.logged).Len()
				conn := tls.Client(dialTCP(t, n.Address()), mad.ClientTLS("", c.protocol))
				if conn.Handshake() == nil {
					_, _ = conn.Write(c.send)
					_ = conn.CloseWrite()
					requireCut(t, conn)
				}
				if c.logged != "" {
					require.Eventually(t, func() bool { return n.logs.FilterMessage(c.logged).Len() > before }, patience, 5*time.Millisecond)
				}
			}
		})
	}
	t.Run("packets of garbage", func(t *testing.T) {
		for _, n := range []node{l.node, a} {
			conn := tls.Client(dialTCP(t, n.Address()), mad.ClientTLS("", "troupe-gossip"))
			_, err := conn.Write([]byte("l"))
			require.NoError(t, err)
			for range 500 {
				body := garbage(300)
				_, err := conn.Write(append(head(1, uint32(len(body))), body...))
				require.NoError(t, err)
			}
			require.NoError(t, conn.Close())
		}
	})
	requireWell(t, l, a)
	require.Len(t, l.Members(), 2)
}

// Strangers who say nothing do not keep others out.
func TestSilentStrangersKeepNobodyOut(t *testing.T) {
	l, a := pair(t)
	for range 100 {
		dialTCP(t, l.Address())
	}
	b := l.join(t, "b", nil)
	b.Announce()
	l.awaitCount(t, 3)
	requireWell(t, l, a)
}

func TestANodeOfAnotherProtocolIsRefused(t *testing.T) {
	l, a := pair(t)
	id, err := trust.Join(t.Context(), l.newcomer(t, "new"))
	require.NoError(t, err)
	defer id.Close()
	transport := &http.Transport{TLSClientConfig: id.ClientTLS("", "http/1.1")}
	defer transport.CloseIdleConnections()
	body := bytes.NewReader([]byte(`{"address":"127.0.0.1:1","protocol":99,"version":"9.9"}`))
	response, err := (&http.Client{Transport: transport}).Post("https://"+l.Address()+"/cluster/hello", "application/json", body)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, response.StatusCode)
	require.Contains(t, string(text), "is troupe 9.9, which speaks protocol 99; node "+l.Self()+" is troupe test, which speaks protocol 1")
	requireWell(t, l, a)
}

// A node with a certificate of this cluster, but the folder of another process.
func TestAFolderIsOfOneProcess(t *testing.T) {
	l, a := pair(t)
	_, err := trust.Open(filepath.Join(l.dir, "joined-a"))
	require.ErrorIs(t, err, pki.ErrHeld)
	require.EqualValues(t, 1, cluster.Protocol)
	requireWell(t, l, a)
}
