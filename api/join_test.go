package api_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/apitest"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// door is a fake of what lets nodes in.
type door map[string]bool

func (door) Point() api.JoinPoint {
	return api.JoinPoint{Address: "10.0.0.1:4711", Protocol: 3, Version: "v"}
}

func (d door) CreateToken(name string) (string, error) {
	d[name] = true
	return "secret", nil
}

func (d door) RevokeToken(name string) error {
	if !d[name] {
		return fault.New("door.revoke", fault.NotFound, "there is no join token %s", name)
	}
	delete(d, name)
	return nil
}

// Tokens to join with are there on loopback too, where no other ones are.
func TestNodesGetTokensOnLoopback(t *testing.T) {
	c := config.DefaultAPI()
	c.Listen = "127.0.0.1:0"
	d := door{}
	server, err := api.Start(c, api.Deps{Company: apitest.New(), Log: zap.NewNop(), Joins: d, Version: "test", Spool: filepath.Join(t.TempDir(), "spool")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close(context.Background())) })
	for _, step := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/cluster/join", "", 200, `{"address":"10.0.0.1:4711","protocol":3,"version":"v"}`},
		{"POST", "/cluster/tokens", `{"name":"n","role":"join"}`, 201, `{"name":"n","role":"join","token":"secret"}`},
		{"POST", "/cluster/tokens", `{"name":"n","role":"read"}`, 409, "has no tokens"},
		{"DELETE", "/cluster/tokens?name=n", "", 204, ""},
		{"DELETE", "/cluster/tokens?name=n", "", 404, "there is no join token n"},
	} {
		request, err := http.NewRequest(step.method, server.URL()+step.path, strings.NewReader(step.body))
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, step.status, response.StatusCode, string(text))
		require.Contains(t, string(text), step.says)
	}
	require.Empty(t, d)
}
