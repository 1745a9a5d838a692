package trust_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/pki"
)

// place is a leader that is joined here: its listener, and what says where that is.
type place struct {
	dir  string
	a    *trust.Authority
	id   *trust.Identity
	api  string
	logs *observer.ObservedLogs
	// heard is every request to join, as bytes.
	heard chan []byte
}

// recorded is a connection whose bytes are kept.
type recorded struct {
	net.Conn
	read *bytes.Buffer
}

func (r recorded) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read.Write(b[:n])
	return n, err
}

func newPlace(t *testing.T) *place {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	p := &place{dir: t.TempDir(), logs: logs, heard: make(chan []byte, 64)}
	var err error
	p.a, err = trust.OpenAuthority(p.dir)
	require.NoError(t, err)
	p.id, err = p.a.Lead("node-1", "Head of.the_house")
	require.NoError(t, err)
	t.Cleanup(p.id.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	handler := p.a.Joins(zap.New(core), 1, "1.0")
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go p.answer(tls.Server(conn, p.id.ListenTLS("x")), handler)
		}
	}()
	mux := http.NewServeMux()
	mux.HandleFunc(trust.PointPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(trust.Point{Address: listener.Addr().String(), Protocol: 1, Version: "1.0"})
	})
	api, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: mux}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(api) }()
	p.api = api.Addr().String()
	return p
}

// answer serves one request.
func (p *place) answer(conn *tls.Conn, handler http.Handler) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if conn.Handshake() != nil {
		return
	}
	kept := recorded{conn, &bytes.Buffer{}}
	r, err := http.ReadRequest(bufio.NewReader(kept))
	if err != nil {
		return
	}
	state := conn.ConnectionState()
	r.TLS, r.RemoteAddr = &state, conn.RemoteAddr().String()
	w := &answer{header: http.Header{}}
	handler.ServeHTTP(w, r)
	p.heard <- kept.read.Bytes()
	_ = (&http.Response{StatusCode: w.status, ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: w, ContentLength: int64(w.body.Len()), Close: true}).Write(conn)
}

type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }
func (a *answer) Read(b []byte) (int, error)  { return a.body.Read(b) }
func (a *answer) Close() error                { return nil }

func (p *place) newcomer(token string) trust.Newcomer {
	return trust.Newcomer{Dir: filepath.Join(p.dir, "joined-1"), Machine: "gpu1.example", Token: token, API: p.api, Protocol: 1, Version: "1.0"}
}

func (p *place) token(t *testing.T) string {
	t.Helper()
	token, err := p.a.AddToken("first")
	require.NoError(t, err)
	return token
}

func TestANodeJoinsAndKeepsWhatItGets(t *testing.T) {
	p := newPlace(t)
	require.Regexp(t, `^head-of-the-house-[0-9a-f]{6}$`, p.id.Node())
	_, err := trust.Open(p.newcomer("").Dir)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	joined, err := trust.Join(t.Context(), p.newcomer(p.token(t)))
	require.NoError(t, err)
	require.Regexp(t, `^gpu1-example-[0-9a-f]{6}$`, joined.Node())
	require.Equal(t, p.id.GossipKey(), joined.GossipKey())
	require.Equal(t, p.id.Fingerprint(), joined.Fingerprint())
	require.Nil(t, joined.Authority())
	_, err = trust.Open(p.newcomer("").Dir)
	require.Equal(t, fault.Conflict, fault.KindOf(err), "one process is the node")
	require.NoError(t, joined.SetPort(4711))
	joined.Close()
	again, err := trust.Open(p.newcomer("").Dir)
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, joined.Node(), again.Node())
	require.Equal(t, 4711, again.Port())
	address, api := again.Leader()
	require.NotEmpty(t, address)
	require.Equal(t, p.api, api)
	entries, err := os.ReadDir(p.newcomer("").Dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), e.Name())
	}
}

// Each start of a server makes a token of one name: what was printed before stays
// good, whatever the number of starts is, and all go at once when they are revoked.
func TestTokensOfOneName(t *testing.T) {
	p := newPlace(t)
	joins := func(token string) error {
		n := p.newcomer(token)
		n.Dir = filepath.Join(t.TempDir(), "node")
		id, err := trust.Join(t.Context(), n)
		if err == nil {
			id.Close()
		}
		return err
	}
	var tokens []string
	for range 101 {
		token, err := p.a.AddToken("start")
		require.NoError(t, err)
		tokens = append(tokens, token)
	}
	require.ErrorContains(t, joins(tokens[0]), "unknown here")
	require.NoError(t, joins(tokens[1]))
	require.NoError(t, joins(tokens[100]))
	require.NoError(t, p.a.RevokeToken("start"))
	require.ErrorContains(t, joins(tokens[1]), "revoked")
	require.ErrorContains(t, joins(tokens[100]), "revoked")
}

// What has ended is forgotten after a while.
func TestTokensAreForgotten(t *testing.T) {
	p := newPlace(t)
	old, err := p.a.CreateTokenAt("x", time.Now().Add(-9*24*time.Hour))
	require.NoError(t, err)
	_, err = p.a.CreateToken("x")
	require.NoError(t, err)
	_, err = trust.Join(t.Context(), p.newcomer(old))
	require.ErrorContains(t, err, "unknown here")
}

func TestTheLeaderIsTheSameAfterARestart(t *testing.T) {
	dir := t.TempDir()
	var ids []string
	for range 2 {
		a, err := trust.OpenAuthority(dir)
		require.NoError(t, err)
		id, err := a.Lead("node-1", "x")
		require.NoError(t, err)
		_, err = a.Lead("node-1", "x")
		require.Equal(t, fault.Conflict, fault.KindOf(err))
		ids = append(ids, id.Node())
		id.Close()
	}
	require.Equal(t, ids[0], ids[1])
}

// The two speak over connections that nobody else gets, and know each other.
func TestOnlyNodesSpeakToNodes(t *testing.T) {
	p := newPlace(t)
	joined, err := trust.Join(t.Context(), p.newcomer(p.token(t)))
	require.NoError(t, err)
	defer joined.Close()
	other, err := pki.NewAuthority(time.Now())
	require.NoError(t, err)
	key, err := pki.NewKey()
	require.NoError(t, err)
	foreign, err := other.IssueNode(joined.Node(), key.Public(), time.Now())
	require.NoError(t, err)
	ca, err := pki.LoadAuthority(p.dir)
	require.NoError(t, err)
	api, apiKey, err := ca.IssueServer(nil, time.Now())
	require.NoError(t, err)
	old, err := ca.IssueNode(joined.Node(), key.Public(), time.Now().Add(-3*365*24*time.Hour))
	require.NoError(t, err)
	with := func(c *tls.Config, certs ...tls.Certificate) *tls.Config {
		c.GetClientCertificate, c.Certificates = nil, certs
		return c
	}
	for name, c := range map[string]struct {
		config *tls.Config
		good   bool
	}{
		"a node":                          {joined.ClientTLS(p.id.Node(), "x"), true},
		"a node that wants another":       {joined.ClientTLS("somebody", "x"), false},
		"nobody":                          {with(joined.ClientTLS("", "x")), false},
		"a node of another authority":     {with(joined.ClientTLS("", "x"), tls.Certificate{Certificate: [][]byte{foreign.Raw}, PrivateKey: key}), false},
		"the server of the API":           {with(joined.ClientTLS("", "x"), tls.Certificate{Certificate: [][]byte{api.Raw}, PrivateKey: apiKey}), false},
		"a node whose certificate is old": {with(joined.ClientTLS("", "x"), tls.Certificate{Certificate: [][]byte{old.Raw}, PrivateKey: key}), false},
		"no protocol":                     {joined.ClientTLS("", "y"), false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := net.Pipe()
			go func() {
				server := tls.Server(a, p.id.ListenTLS("x"))
				defer a.Close()
				if server.Handshake() == nil {
					_, _ = server.Write([]byte(trust.PeerOf(server.ConnectionState())))
				}
			}()
			client := tls.Client(b, c.config)
			defer client.Close()
			said := make([]byte, 64)
			n, err := client.Read(said) // in TLS 1.3 a refusal shows here
			require.Equal(t, c.good, err == nil, "%v", err)
			if c.good {
				require.Equal(t, joined.Node(), string(said[:n]))
			}
		})
	}
}

func TestWhoMayNotJoinIsRefused(t *testing.T) {
	p := newPlace(t)
	good := p.token(t)
	other := newPlace(t)
	revoked, err := p.a.CreateToken("gone")
	require.NoError(t, err)
	require.NoError(t, p.a.RevokeToken("gone"))
	require.Equal(t, fault.NotFound, fault.KindOf(p.a.RevokeToken("gone")))
	_, err = p.a.CreateToken("gone")
	require.NoError(t, err, "the name is free again")
	_, err = p.a.CreateToken("first")
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	expired, err := p.a.CreateTokenAt("old", time.Now().Add(-trust.TokenLife-time.Minute))
	require.NoError(t, err)
	ca, err := pki.LoadAuthority(p.dir)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		token  string
		change func(*trust.Newcomer)
		kind   fault.Kind
		says   string
		logged bool
	}{
		"nonsense":                  {token: "x", kind: fault.Invalid, says: "is no join token: copy all of what troupe up has printed behind --token, or get one with troupe cluster token create --name NODE --role join"},
		"nonsense of three parts":   {token: "a.b.c", kind: fault.Invalid, says: "is no join token"},
		"one of another version":    {token: "j2" + good[2:], kind: fault.Invalid, says: "of version j2, this troupe knows j1: use"},
		"a token for the API":       {token: pki.NewToken(pki.ForAPI, ca.Fingerprint()), kind: fault.Invalid, says: "lets no node join"},
		"a token that is cut off":   {token: good[:90], kind: fault.Invalid, says: "cut off"},
		"a secret that is wrong":    {token: pki.NewToken(pki.ForJoin, ca.Fingerprint()), kind: fault.Invalid, says: "unknown here", logged: true},
		"a token that was revoked":  {token: revoked, kind: fault.Invalid, says: `the join token "gone" was revoked: get one with troupe cluster token create --name NODE --role join`, logged: true},
		"a token whose time is up":  {token: expired, kind: fault.Invalid, says: `the join token "old" has ended at`, logged: true},
		"a token of another leader": {token: other.token(t), kind: fault.Invalid, says: "the server is not the one that the token is for"},
		"another protocol": {
			token: good, change: func(n *trust.Newcomer) { n.Protocol, n.Version = 7, "9.9" }, kind: fault.Conflict,
			says: "this node is troupe 9.9, which speaks protocol 7; the leader is troupe 1.0, which speaks protocol 1", logged: true,
		},
		"nobody there": {token: good, change: func(n *trust.Newcomer) { n.API = "127.0.0.1:1" }, kind: fault.Unavailable, says: "refused"},
		"no address":   {token: good, change: func(n *trust.Newcomer) { n.API = "here" }, kind: fault.Invalid, says: "give host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			before := p.logs.FilterMessage("join refused").Len()
			n := p.newcomer(c.token)
			n.Dir = t.TempDir()
			if c.change != nil {
				c.change(&n)
			}
			_, err := trust.Join(t.Context(), n)
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, c.logged, p.logs.FilterMessage("join refused").Len() > before)
		})
	}
	joined, err := trust.Join(t.Context(), p.newcomer(good))
	require.NoError(t, err, "the leader goes on")
	joined.Close()
}

// What is right on one connection is worth nothing on another one, so that who
// has seen it can do nothing with it.
func TestACopyOfAJoinIsRefused(t *testing.T) {
	p := newPlace(t)
	joined, err := trust.Join(t.Context(), p.newcomer(p.token(t)))
	require.NoError(t, err)
	joined.Close()
	copied := <-p.heard
	require.Contains(t, string(copied), "POST /join")
	points, err := trust.Discover(context.Background(), p.api, p.id.Fingerprint())
	require.NoError(t, err)
	config := pki.Pinned(p.id.Fingerprint())
	config.NextProtos = []string{trust.JoinProtocol}
	conn, err := tls.Dial("tcp", points[0], config)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write(copied)
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
	require.Equal(t, 1, p.logs.FilterMessage("join refused").Len())
	require.Equal(t, 1, p.logs.FilterMessage("join granted").Len())
}

// A node's name is its key's: nobody else gets a certificate for it, the leader's
// included; the node itself does, again and again.
func TestTheNameOfANodeIsNotToBeHad(t *testing.T) {
	p := newPlace(t)
	token := p.token(t)
	joined, err := trust.Join(t.Context(), p.newcomer(token))
	require.NoError(t, err)
	joined.Close()
	require.NoError(t, os.Remove(filepath.Join(p.newcomer("").Dir, "node.pem")))
	again, err := trust.Join(t.Context(), p.newcomer(token))
	require.NoError(t, err)
	require.Equal(t, joined.Node(), again.Node())
	again.Close()
	for _, taken := range []string{joined.Node(), p.id.Node()} {
		thief := p.newcomer(token)
		thief.Dir = t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(thief.Dir, "node.json"), []byte(`{"node":"`+taken+`"}`), 0o600))
		_, err = trust.Join(t.Context(), thief)
		require.Equal(t, fault.Conflict, fault.KindOf(err))
		require.ErrorContains(t, err, "with another key")
	}
	odd := p.newcomer(token)
	odd.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(odd.Dir, "node.json"), []byte(`{"node":"A b"}`), 0o600))
	_, err = trust.Join(t.Context(), odd)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

func TestDamagedFoldersAreRefused(t *testing.T) {
	p := newPlace(t)
	joined, err := trust.Join(t.Context(), p.newcomer(p.token(t)))
	require.NoError(t, err)
	joined.Close()
	dir := p.newcomer("").Dir
	for _, name := range []string{"ca.pem", "node.pem", "node-key.pem", "gossip.key", "node.json"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			body, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, body[:len(body)/2], 0o600))
			_, err = trust.Open(dir)
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%v", err)
			require.NoError(t, os.WriteFile(path, body, 0o600))
			require.NoError(t, os.Chmod(path, 0o644))
			_, err = trust.Open(dir)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
			require.NoError(t, os.Chmod(path, 0o600))
		})
	}
	good, err := trust.Open(dir)
	require.NoError(t, err)
	good.Close()
}

// A certificate that ends soon is replaced over the node's own connection, for the
// node that asks and no other one.
func TestANodeGetsItsNextCertificate(t *testing.T) {
	p := newPlace(t)
	joined, err := trust.Join(t.Context(), p.newcomer(p.token(t)))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(p.a.Renewals(zap.NewNop()))
	server.TLS = p.id.ServerTLS("http/1.1")
	server.StartTLS()
	defer server.Close()
	renew := func(id *trust.Identity) (bool, error) {
		transport := &http.Transport{TLSClientConfig: id.ClientTLS(p.id.Node(), "http/1.1")}
		defer transport.CloseIdleConnections()
		return id.Renew(t.Context(), &http.Client{Transport: transport}, server.URL)
	}
	fresh, err := renew(joined)
	require.NoError(t, err)
	require.False(t, fresh, "it is good for long")
	joined.Close()

	dir := p.newcomer("").Dir
	aged := func(node string) {
		ca, err := pki.LoadAuthority(p.dir)
		require.NoError(t, err)
		key, err := pki.LoadKey(dir, "node-key.pem")
		require.NoError(t, err)
		old, err := ca.IssueNode(node, key.Public(), time.Now().Add(-600*24*time.Hour))
		require.NoError(t, err)
		require.NoError(t, pki.SaveCertificate(dir, "node.pem", old))
	}
	aged(joined.Node())
	old, err := trust.Open(dir)
	require.NoError(t, err)
	fresh, err = renew(old)
	require.NoError(t, err)
	require.True(t, fresh)
	fresh, err = renew(old)
	require.NoError(t, err)
	require.False(t, fresh)
	old.Close()
	kept, err := trust.Open(dir)
	require.NoError(t, err)
	fresh, err = renew(kept)
	require.NoError(t, err)
	require.False(t, fresh, "it is kept")
	kept.Close()
}
