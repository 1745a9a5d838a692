package access_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/loopback"
	"github.com/troupe-ml/troupe/internal/pki"
)

func open(t *testing.T, dir string) *access.Setup {
	t.Helper()
	s, err := access.Open(dir, []string{"troupe.example", "192.0.2.7"})
	require.NoError(t, err)
	return s
}

func token(t *testing.T, dir, role string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, role+".token"))
	require.NoError(t, err)
	return strings.TrimSpace(string(body))
}

func request(token string) *http.Request {
	r := httptest.NewRequest("POST", "https://troupe.example:8780/train", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

func TestTheFirstStartMakesAllAndTheNextKeepsIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "tls")
	require.True(t, open(t, dir).First)
	before := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), e.Name())
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		before[e.Name()] = string(body)
	}
	require.Len(t, before, 9)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.False(t, open(t, dir).First)
	for name, body := range before {
		again, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, body, string(again), name)
	}
	for _, role := range []string{"read", "submit", "admin"} {
		require.NotContains(t, before["tokens.json"], token(t, dir, role), "only its hash is kept")
		sum := sha256.Sum256([]byte(token(t, dir, role)))
		require.Contains(t, before["tokens.json"], hex.EncodeToString(sum[:]))
	}
}

func TestATokenCarriesTheFingerprintOfTheAuthority(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	body, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	block, _ := pem.Decode(body)
	fingerprint, _, err := pki.ParseToken(pki.ForAPI, token(t, dir, "read"))
	require.NoError(t, err)
	require.Equal(t, sha256.Sum256(block.Bytes), fingerprint)
	for _, wrong := range []string{"", "x", "1.2.3", "2." + token(t, dir, "read")[2:], token(t, dir, "read")[:80], token(t, dir, "read") + ".x"} {
		_, _, err := pki.ParseToken(pki.ForAPI, wrong)
		require.Equal(t, fault.Invalid, fault.KindOf(err), wrong)
		if len(wrong) > 3 {
			require.NotContains(t, err.Error(), wrong[3:], "no secret in an error")
		}
	}
}

func TestWhatDiedHalfWayIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	old := token(t, dir, "admin")
	require.NoError(t, os.Remove(filepath.Join(dir, "tokens.json"))) // which is written last
	require.True(t, open(t, dir).First)
	require.NotEqual(t, old, token(t, dir, "admin"))
}

func TestManyFirstStartsAtOnceMakeOne(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	firsts := make(chan bool, 8)
	for range cap(firsts) {
		wg.Go(func() {
			s, err := access.Open(dir, nil)
			firsts <- err == nil && s.First
		})
	}
	wg.Wait()
	n := 0
	for range cap(firsts) {
		if <-firsts {
			n++
		}
	}
	require.Equal(t, 1, n)
}

func TestDamagedOrOpenFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		do   func(path string) error
		kind fault.Kind
		says string
	}{
		"a key that others may read":  {"ca-key.pem", func(p string) error { return os.Chmod(p, 0o644) }, fault.Invalid, "chmod 600"},
		"tokens that others may read": {"tokens.json", func(p string) error { return os.Chmod(p, 0o640) }, fault.Invalid, "chmod 600"},
		"no authority":                {"ca.pem", os.Remove, fault.Corrupt, "restore it"},
		"a damaged key":               {"ca-key.pem", func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) }, fault.Corrupt, "is damaged"},
		"damaged tokens":              {"tokens.json", func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) }, fault.Corrupt, "anew"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			require.NoError(t, c.do(filepath.Join(dir, c.file)))
			_, err := access.Open(dir, nil)
			require.Equal(t, c.kind, fault.KindOf(err))
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := access.Open("", nil)
	require.ErrorContains(t, err, "--tls-dir")
}

func TestTheServersCertificateIsMadeAgainWhenItMust(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	old, err := os.ReadFile(filepath.Join(dir, "server.pem"))
	require.NoError(t, err)
	s, err := access.Open(dir, []string{"other.example"})
	require.NoError(t, err)
	cert, err := s.TLS.GetCertificate(nil)
	require.NoError(t, err)
	require.NoError(t, cert.Leaf.VerifyHostname("other.example"))
	changed, err := os.ReadFile(filepath.Join(dir, "server.pem"))
	require.NoError(t, err)
	require.NotEqual(t, old, changed)
	kept, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	require.NoError(t, err)
	require.Equal(t, ca, kept)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server-key.pem"), []byte("x"), 0o600))
	open(t, dir)
}

func TestRoles(t *testing.T) {
	dir := t.TempDir()
	gate := access.NewGate(open(t, dir).Tokens)
	roles := []access.Role{access.Anybody, access.Read, access.Submit, access.Admin}
	for have, bearer := range map[access.Role]string{
		access.Anybody: "", access.Read: token(t, dir, "read"), access.Submit: token(t, dir, "submit"), access.Admin: token(t, dir, "admin"),
	} {
		for _, need := range roles {
			err := gate.Check(request(bearer), need)
			switch {
			case have >= need:
				require.NoError(t, err, "%v may do what takes %v", have, need)
			case have == access.Anybody:
				require.ErrorIs(t, err, access.ErrNoToken)
			default:
				require.ErrorIs(t, err, access.ErrRole)
			}
		}
	}
	right := token(t, dir, "admin")
	for _, wrong := range []string{right[:len(right)-1], right + "x", strings.ToUpper(right), "nonsense", right + " x"} {
		err := gate.Check(request(wrong), access.Read)
		require.ErrorIs(t, err, access.ErrNoToken, wrong)
		require.NotContains(t, err.Error(), wrong[1:], "no secret in an error")
	}
	basic := request("")
	basic.Header.Set("Authorization", "Basic "+right)
	require.ErrorIs(t, gate.Check(basic, access.Read), access.ErrNoToken)
	lower := request("")
	lower.Header.Set("Authorization", "bearer "+right)
	require.NoError(t, gate.Check(lower, access.Admin))
}

func TestTokensAreCreatedAndRevoked(t *testing.T) {
	dir := t.TempDir()
	tokens := open(t, dir).Tokens
	made, err := tokens.Create("ci", access.Submit)
	require.NoError(t, err)
	require.NoError(t, access.NewGate(tokens).Check(request(made), access.Submit))
	require.NoError(t, access.NewGate(open(t, dir).Tokens).Check(request(made), access.Submit), "after a restart too")
	_, err = tokens.Create("ci", access.Read)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	_, err = tokens.Create("C I", access.Read)
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.NoError(t, tokens.Revoke("ci"))
	require.ErrorIs(t, access.NewGate(tokens).Check(request(made), access.Read), access.ErrNoToken)
	require.ErrorIs(t, access.NewGate(open(t, dir).Tokens).Check(request(made), access.Read), access.ErrNoToken)
	require.Equal(t, fault.NotFound, fault.KindOf(tokens.Revoke("ci")))
	require.Equal(t, fault.Conflict, fault.KindOf(tokens.Revoke("admin")), "somebody must be able to make more")
	for _, role := range access.Roles() {
		parsed, err := access.ParseRole(role.String())
		require.NoError(t, err)
		require.Equal(t, role, parsed)
	}
}

func TestLoopbackIsForThisMachineAndNoWebPage(t *testing.T) {
	gate := access.NewGate(nil)
	for host, ok := range map[string]bool{
		"localhost": true, "localhost:8780": true, "LOCALHOST:1": true, "127.0.0.1": true, "127.0.0.1:8780": true, "127.9.9.9:1": true, "[::1]:8780": true,
		"[::1]": true, "[::ffff:127.0.0.1]:1": true,
		"evil.example": false, "evil.example:8780": false, "localhost.evil.example": false, "127.0.0.1.evil.example:80": false, "": false, "10.0.0.1": false, "0.0.0.0:8780": false,
	} {
		require.Equal(t, ok, loopback.Is(host), host)
		r := httptest.NewRequest("GET", "/tasks", nil)
		r.Host = host
		err := gate.Check(r, access.Admin)
		if ok {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, access.ErrForeign, host)
		}
	}
	for header, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		r := httptest.NewRequest("POST", "http://127.0.0.1:8780/train", nil)
		r.Header.Set(header, value)
		require.ErrorIs(t, gate.Check(r, access.Submit), access.ErrForeign)
	}
	require.True(t, access.Loopback("127.0.0.1:8780"))
	require.False(t, access.Loopback("0.0.0.0:8780"))
	require.False(t, access.Loopback(":8780"))
}

// dial talks TLS to a server with that setup.
func dial(t *testing.T, s *access.Setup, bearer string) error {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.TLS = s.TLS
	server.StartTLS()
	defer server.Close()
	config, err := access.ClientTLS(bearer)
	require.NoError(t, err)
	c, err := tls.Dial("tcp", server.Listener.Addr().String(), config)
	if err == nil {
		c.Close()
	}
	return err
}

func TestATokenPinsItsServer(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	mine, other := open(t, a), open(t, b)
	require.NoError(t, dial(t, mine, token(t, a, "read")))
	require.ErrorContains(t, dial(t, other, token(t, a, "read")), "not the one that the token is for")

	// One that shows the right authority beside a certificate of its own.
	forged := *other
	config := other.TLS.Clone()
	forged.TLS = config
	get := config.GetCertificate
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		wrong, err := get(hello)
		if err != nil {
			return nil, err
		}
		right, err := mine.TLS.GetCertificate(hello)
		return &tls.Certificate{Certificate: [][]byte{wrong.Certificate[0], right.Certificate[1]}, PrivateKey: wrong.PrivateKey}, err
	}
	require.Error(t, dial(t, &forged, token(t, a, "read")))
	_, err := access.ClientTLS("nonsense")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}
