package jobprocess_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/jobprocess"
	"github.com/troupe-ml/troupe/messages"
)

// What endpoints of remote functions ask a job at the server its process answers;
// nothing else of it can be reached there.
func TestEndpointsReachTheProcessThroughTheServer(t *testing.T) {
	s := newScene(t)
	s.segments = [][]*messages.JobEvent{{}}
	l := launcher(t, shell("echo "+s.URL+"; sleep 1000"), func() {})
	call := func(method, path, body string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, "http://server:8780"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer t")
		l.ServeHTTP(w, r)
		return w
	}
	require.Equal(t, http.StatusConflict, call("GET", "/jobs/j/model", "").Code, "nobody is there")
	h := newHeard()
	p, err := l.Launch(t.Context(), job, h.watch())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, call("GET", "/jobs/j/model?epoch=1", "").Code)
	require.Equal(t, http.StatusOK, call("PUT", "/jobs/j/optimizer/3", "tensors").Code)
	require.Equal(t, []string{"GET /model?epoch=1", "PUT /optimizer/3 tensors"}, s.asked)
	for _, path := range []string{"/jobs/j/start", "/jobs/j/stop", "/jobs/j/health", "/jobs/j/events", "/jobs/j", "/jobs/j/model/3/more", "/jobs/../stop"} {
		require.NotEqual(t, http.StatusOK, call("GET", path, "").Code, path)
	}
	require.Equal(t, http.StatusConflict, call("GET", "/jobs/other/model", "").Code)
	require.Len(t, s.asked, 2)

	s.Close()
	require.Equal(t, http.StatusServiceUnavailable, call("GET", "/jobs/j/model", "").Code)
	p.Kill()
	<-h.exited
}

var _ http.Handler = (*jobprocess.Launcher)(nil)
