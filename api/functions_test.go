package api_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/functions/remote/endpoint"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/pki"
)

// exchanging is a server with the exchange of a job that has a remote function,
// whose endpoint waits in its run until it is let go.
type exchanging struct {
	*server
	tlsDir  string
	runtime *remote.Runtime
	call    functions.Invocation
	began   chan string // the token
	release chan bool
}

func exchange(t *testing.T, listen string) *exchanging {
	e := remote.NewExchange(func(context.Context, remote.Ref) error { return nil })
	x := &exchanging{tlsDir: filepath.Join(t.TempDir(), "tls"), began: make(chan string, 9), release: make(chan bool)}
	x.server = start(t, func(c *config.API, d *api.Deps) { c.Listen, c.TLSDir, d.Jobs = listen, x.tlsDir, e })
	inner, err := native.New()
	require.NoError(t, err)
	end, err := endpoint.New(endpoint.Config{
		Runtime: inner, Slots: 1, Dir: t.TempDir(), Log: zap.NewNop(), TLS: pki.Pinned,
		Function: func(map[string]string) (string, error) { <-x.release; return "softmax", nil },
	})
	require.NoError(t, err)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x.began <- strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		end.ServeHTTP(w, r)
	}))
	x.runtime = remote.New(remote.Config{Exchange: e, URL: func(id string) (string, error) { return x.JobURL(id), nil }, Fingerprint: x.Fingerprint})
	require.NoError(t, x.runtime.Register("far", front.URL))
	t.Cleanup(func() {
		require.NoError(t, x.runtime.Close())
		front.Close()
		end.Close()
	})
	x.call = functions.Invocation{
		Task: functions.Init, Function: "far", JobID: "01j", Incarnation: 1, N: 1, BatchSize: 4, Seed: 1, ModelOut: &functions.Buffer{},
		Data: functionstest.Data(t, []int64{4, 2}, make([]float32, 8), []int64{0, 1, 0, 1}),
	}
	return x
}

// ask asks at the job's URL, and returns status and body.
func (x *exchanging) ask(client *http.Client, path, token string) (int, string) {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.URL()+path, nil)
	require.NoError(x.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(r)
	require.NoError(x.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(x.t, err)
	return response.StatusCode, string(body)
}

// An endpoint on another machine knows the server by the token of its call, and
// nobody else by that of anything.
func TestEndpointsTalkToTheirJobOverTLS(t *testing.T) {
	x := exchange(t, "0.0.0.0:0")
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // who can also get at it
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	over := make(chan error, 1)
	go func() {
		_, err := x.runtime.Run(t.Context(), x.call)
		over <- err
	}()
	token := <-x.began
	admin, err := os.ReadFile(filepath.Join(x.tlsDir, "admin.token"))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		token  string
		status int
	}{
		"none, on loopback too": {"", 401},
		"that of an admin":      {strings.TrimSpace(string(admin)), 403},
		"half of it":            {token[:32], 403},
		"its own":               {token, 200},
	} {
		status, body := x.ask(client, "/jobs/01j/assignment/0", c.token)
		require.Equal(t, c.status, status, "%s: %s", name, body)
	}
	status, _ := x.ask(client, "/tasks", token)
	require.Equal(t, 401, status, "it opens nothing else")
	status, _ = x.ask(client, "/jobs/01other/assignment/0", token)
	require.Equal(t, 409, status)
	close(x.release)
	require.NoError(t, <-over)
	require.NotEmpty(t, x.call.ModelOut.(*functions.Buffer).Bytes())
	status, _ = x.ask(client, "/jobs/01j/assignment/0", token)
	require.Equal(t, 409, status, "it is over")
}

// An endpoint sends a token, and what a function made, to no other server.
func TestEndpointsTalkToTheirJobAlone(t *testing.T) {
	x, other := exchange(t, "0.0.0.0:0"), exchange(t, "0.0.0.0:0")
	close(x.release)
	runtime := remote.New(remote.Config{
		Exchange: remote.NewExchange(nil), URL: func(id string) (string, error) { return other.JobURL(id), nil }, Fingerprint: x.Fingerprint,
	})
	defer runtime.Close()
	front := httptest.NewServer(http.NotFoundHandler())
	defer front.Close()
	end, err := endpoint.New(endpoint.Config{Runtime: nil, Slots: 1, Dir: t.TempDir(), Log: zap.NewNop(), TLS: pki.Pinned})
	require.NoError(t, err)
	defer end.Close()
	front.Config.Handler = end
	require.NoError(t, runtime.Register("far", front.URL))
	_, err = runtime.Run(t.Context(), x.call)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "the server is not the one that the token is for")
}

// On loopback there is no TLS, and a page in a browser gets nothing.
func TestEndpointsOfThisMachine(t *testing.T) {
	x := exchange(t, "127.0.0.1:0")
	require.Empty(t, x.Fingerprint())
	go func() { <-x.began; close(x.release) }()
	_, err := x.runtime.Run(t.Context(), x.call)
	require.NoError(t, err)
	response, _ := x.do("POST", "/jobs/01j/next/0", "", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, 403, response.StatusCode)
	response, body := x.do("GET", "/jobs/01j/nothing", "")
	require.Equal(t, 404, response.StatusCode, body)
	require.True(t, bytes.HasPrefix([]byte(x.JobURL("01j")), []byte("http://127.0.0.1:")))
}
