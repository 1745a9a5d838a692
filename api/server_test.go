package api_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/apitest"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// server is a running server, with its company.
type server struct {
	*api.Server
	company *apitest.Company
	spool   string
	t       testing.TB
}

// start serves a fake company until the test ends, and sees that nothing is left.
func start(t testing.TB, change ...func(*config.API, *api.Deps)) *server {
	t.Helper()
	c := config.DefaultAPI()
	c.Listen = "127.0.0.1:0"
	s := &server{company: apitest.New(), spool: filepath.Join(t.TempDir(), "spool"), t: t}
	deps := api.Deps{Company: s.company, Log: zaptest.NewLogger(t), Version: "test", Spool: s.spool}
	for _, f := range change {
		f(&c, &deps)
	}
	before := goleak.IgnoreCurrent()
	var err error
	s.Server, err = api.Start(c, deps)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Close(ctx))
		http.DefaultClient.CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
	return s
}

// do does a request, and returns the answer with its body.
func (s *server) do(method, path, body string, headers ...string) (*http.Response, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.URL()+path, strings.NewReader(body))
	require.NoError(s.t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response, string(answer)
}

func TestAClientWithKubeMLsFieldsGetsSensibleOptions(t *testing.T) {
	s := start(t)
	response, id := s.do("POST", "/train", `{"model_type":"net","batch_size":32,"epochs":2,"dataset":"digits","lr":0.1,"function_name":"mlp"}`)
	require.Equal(t, http.StatusOK, response.StatusCode, id)
	require.Equal(t, "text/plain; charset=utf-8", response.Header.Get("Content-Type"))
	require.Equal(t, "00000000000000000000000001", id, "nothing but the id")
	v, err := s.company.Job(t.Context(), id)
	require.NoError(t, err)
	want, err := task.Resolve(&messages.TrainTask{ModelType: "net", BatchSize: 32, Epochs: 2, Dataset: "digits", Lr: 0.1, FunctionName: "mlp"})
	require.NoError(t, err)
	require.Truef(t, proto.Equal(want, v.GetTask()), "%v", v.GetTask())
}
