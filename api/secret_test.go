package api_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

// What a job has in its environment is for who may submit jobs; who may look at
// them sees the names alone, wherever a task is shown.
func TestTheEnvironmentIsForThoseWhoSubmit(t *testing.T) {
	dir := t.TempDir()
	s := start(t, func(c *config.API, _ *api.Deps) { c.Listen, c.TLSDir = "0.0.0.0:0", dir })
	for _, v := range []*messages.JobView{running("r"), finished("e")} {
		v.Task.Options.Env = map[string]string{"API_KEY": "hush"}
		s.company.Add(v)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ask := func(role, path string) string {
		token, err := os.ReadFile(filepath.Join(dir, role+".token"))
		require.NoError(t, err)
		request, err := http.NewRequestWithContext(t.Context(), "GET", s.URL()+path, nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode, string(body))
		return string(body)
	}
	for _, path := range []string{"/tasks", "/tasks/r", "/tasks/e", "/history", "/history/e"} {
		require.Contains(t, ask("submit", path), `"env":{"API_KEY":"hush"}`, path)
		require.Contains(t, ask("admin", path), `"env":{"API_KEY":"hush"}`, path)
		require.Contains(t, ask("read", path), `"env":{"API_KEY":"***"}`, path)
		require.NotContains(t, ask("read", path), "hush", path)
		require.Contains(t, ask("submit", path), "hush", "it was hidden from a reader alone")
	}
	s.company.Emit("r", over())
	require.NotContains(t, ask("read", "/events?job=r"), "hush")
}
