package train_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/messages"
)

// POST /next answers once the round is merged, also the function that is done
// long before the others of its round; and says why where it is not.
func TestKubeMLsFunctionsWaitForTheMerge(t *testing.T) {
	for name, c := range map[string]struct {
		loss func(function string) string
		ends messages.Phase
		cut  bool
		next map[int]int
		says string
	}{
		"merged": {func(string) string { return "1" }, messages.Phase_PHASE_SUCCEEDED, false, map[int]int{200: 4}, ""},
		"given up": {func(function string) string {
			if function == "1" {
				return `"NaN"`
			}
			return "1"
		}, messages.Phase_PHASE_FAILED, false, map[int]int{500: 3}, "diverged: the loss is NaN"},
		"no models": {func(string) string { return "1" }, messages.Phase_PHASE_FAILED, true, nil, "look at what the function (its endpoint, where it has one) sends"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.LeakCheck(t)
			defer http.DefaultClient.CloseIdleConnections()
			company, job := alone(t, "kubeml")
			k := &functionstest.KubeML{T: t, Loss: c.loss, Cut: c.cut}
			endpoint := httptest.NewServer(k)
			defer endpoint.Close()
			_, err := company.Functions().Link(t.Context(), "far", []string{endpoint.URL})
			require.NoError(t, err)
			l, err := train.Listen(0)
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() { served <- job.ServeOn(t.Context(), l) }()
			response, err := http.Post("http://"+l.Addr().String()+"/start", "application/json", strings.NewReader(
				`{"function_name":"far","dataset":"digits","epochs":1,"batch_size":64,"options":{"default_parallelism":2,"static_parallelism":true,"k":6}}`))
			require.NoError(t, err)
			response.Body.Close()
			require.Equal(t, 200, response.StatusCode)
			events, err := http.Get("http://" + l.Addr().String() + "/events") // who has heard the end need not be waited for
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, events.Body)
			require.NoError(t, err)
			events.Body.Close()
			require.NoError(t, <-served)
			require.Equal(t, c.ends, job.Result().GetPhase(), job.Result().GetFailure().GetText())
			endpoint.Close() // once its handlers have returned
			require.Contains(t, job.Result().GetFailure().GetText(), c.says)
			if c.next == nil { // how many began before the job had ended is not said
				require.NotContains(t, k.Next(), 200)
				return
			}
			require.Equal(t, c.next, k.Next())
		})
	}
}
