package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/functionstest"
)

// The functions of a server's job wait for the merge of their round by POST /next,
// wherever the job runs.
func TestE2EKubeMLsFunctionsWaitForTheMerge(t *testing.T) {
	t.Parallel()
	for _, jobs := range []string{"in-process", "process"} {
		t.Run(jobs, func(t *testing.T) {
			t.Parallel()
			k := &functionstest.KubeML{T: t, Loss: func(string) string { return "1" }}
			endpoint := httptest.NewServer(http.Handler(k))
			defer endpoint.Close()
			s := newHome(t).up(t, "--listen", "127.0.0.1:0", "--slots", "2", "--jobs", jobs)
			require.Zero(t, s.ask(t, "function", "create", "--name", "far", "--url", endpoint.URL).code)
			e := s.ask(t, "train", "-f", "far", "-d", "digits", "-e", "2", "-b", "64", "-K", "6", "-p", "2", "--static")
			require.Zero(t, e.code, e.err)
			e = s.ask(t, "task", "show", "--id", strings.TrimSpace(e.out), "--follow")
			require.Zero(t, e.code, e.err)
			require.Equal(t, map[int]int{200: 8}, k.Next(), "two functions in each of two rounds of two epochs")
			require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
		})
	}
}
