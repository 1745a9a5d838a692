package api_test

import (
	"context"
	"io"
	"net"
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
	"github.com/troupe-ml/troupe/internal/fault"
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

// What listens everywhere can be reached by the addresses of the machine; 0 is no
// port that anybody can use.
func TestAddressesThatOthersCanUse(t *testing.T) {
	for listen, here := range map[string]string{"0.0.0.0:0": "127.0.0.1", "127.0.0.1:0": "127.0.0.1"} {
		l, err := api.Listen(listen)
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		addresses := api.Addresses(l)
		require.Equal(t, net.JoinHostPort(here, port), addresses[len(addresses)-1])
		others := addresses[:len(addresses)-1]
		if listen == "127.0.0.1:0" {
			require.Empty(t, others)
		}
		for _, other := range others {
			conn, err := net.Dial("tcp", other)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			require.NotContains(t, other, "127.0.0.1")
		}
		_, err = api.Listen(l.Addr().String())
		require.Equal(t, fault.Conflict, fault.KindOf(err))
		require.NoError(t, l.Close())
	}
	_, err := api.Listen("127.0.0.1:99999")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}
