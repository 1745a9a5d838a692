package actors_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// What an endpoint asks of an attempt on another node goes there, with its token,
// method, query and body; without a token nothing goes. All else stays here.
func TestEndpointsAreRelayed(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Repr-Digest", "d")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("Range"), string(body)}, "|"))
	}))
	defer node.Close()
	relay := httptest.NewServer(actors.NewRelay(func(name string) (*http.Client, string, error) {
		if name != "n1" {
			return nil, "", fault.New("test", fault.NotFound, "there is no node %s now", name)
		}
		return node.Client(), node.URL + "/company", nil
	}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "here "+r.URL.Path) })))
	defer relay.Close()
	ask := func(method, path, token string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, relay.URL+path, strings.NewReader("body"))
		require.NoError(t, err)
		r.Header.Set("Range", "bytes=1-")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := relay.Client().Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(text)
	}
	status, text := ask("PUT", "/jobs/j/at/n1/model/3?epoch=1&attempt=2", "t.f")
	require.Equal(t, http.StatusTeapot, status)
	require.Equal(t, "PUT|/company/jobs/j/model/3?epoch=1&attempt=2|Bearer t.f|bytes=1-|body", text)
	status, text = ask("GET", "/jobs/j/at/n1/model", "")
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, text, "send the token of the invocation")
	status, text = ask("GET", "/jobs/j/at/n2/model", "t")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, text, "there is no node n2 now")
	for _, path := range []string{"/jobs/j/model", "/jobs/j/at/n1/../../x", "/jobs/j/at/n1/secrets"} {
		_, text = ask("GET", path, "t")
		require.True(t, strings.HasPrefix(text, "here "), "%s: %s", path, text)
	}
}

// leading has a node find the one that leads.
type leading struct{}

func (leading) Leader() string                { return "leader" }
func (leading) Nodes() []string               { return nil }
func (leading) PID(string, string) *actor.PID { return nil }

// A node that does not lead hears from the one that does what became of a round:
// once it is known, though the leader was away meanwhile.
func TestWhatWasMergedIsAskedOfTheLeader(t *testing.T) {
	merges := actors.NewMerges()
	merged := func(round uint32) {
		merges.Add([]*messages.JobEvent{{Job: &messages.JobRef{Id: "j", Incarnation: 1}, Seq: uint64(round), What: &messages.JobEvent_RoundMerged{
			RoundMerged: &messages.RoundMerged{Epoch: 1, Round: round},
		}}})
	}
	merged(1)
	asked := make(chan bool, 10)
	tell := actors.TellMerged(merges)
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		tell(w, r)
	}))
	defer leader.Close()
	away := true
	next := actors.AskMerged(&actors.Nodes{Directory: leading{}, Client: func(name string) (*http.Client, string, error) {
		if away {
			away = false
			return nil, "", fault.New("test", fault.NotFound, "there is no node %s now", name)
		}
		return leader.Client(), leader.URL, nil
	}})
	ref := remote.Ref{Job: "j", Incarnation: 1, Task: functions.Train, Epoch: 1, Function: 2}
	require.NoError(t, next(t.Context(), ref))
	<-asked

	ref.Round = 1
	end := make(chan error, 1)
	go func() { end <- next(t.Context(), ref) }()
	<-asked
	select {
	case err := <-end:
		t.Fatalf("the round is not merged, and it says %v", err)
	default:
	}
	merged(2)
	require.NoError(t, <-end)

	ref.Incarnation = 2
	err := next(t.Context(), ref)
	require.Equal(t, fault.Conflict, fault.KindOf(err), "%v", err)
	ctx, cancel := context.WithCancel(t.Context())
	ref.Incarnation, ref.Round = 1, 7
	go func() { end <- next(ctx, ref) }()
	<-asked
	<-asked
	cancel()
	require.Error(t, <-end)
}
