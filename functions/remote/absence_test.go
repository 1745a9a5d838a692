package remote_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
)

// at is an endpoint of the stage on an address that may have had another one.
func (s *stage) at(address string) *httptest.Server {
	s.t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(s.t, err)
	e := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(s.invoked)}}
	e.Start()
	s.t.Cleanup(e.Close)
	return e
}

// Reported: an endpoint that is started again ended its job, whose attempts were
// all made while it was not there.
func TestAnEndpointThatComesBackIsWaitedFor(t *testing.T) {
	s := newPatientStage(t, time.Minute)
	gone := s.at("127.0.0.1:0")
	gone.Close()
	require.NoError(t, s.runtime.Register("f", gone.URL+"/f?key=secret"))
	inv, model, _ := training(t)
	ended := s.run(inv)
	said := <-s.warned
	require.Contains(t, said, "waiting up to 1m0s")
	require.Contains(t, said, gone.URL+"/f: ")
	require.Contains(t, said, "refused")
	s.at(strings.TrimPrefix(gone.URL, "http://"))
	c := <-s.calls
	require.Equal(t, inv.Attempt, c.Attempt, "it is the same attempt")
	c.put("/model/1", dict(t, 3))
	c.reply(200, good)
	_, err := ended()
	require.NoError(t, err)
	require.Equal(t, dict(t, 3), model.Bytes())
	require.Empty(t, s.warned, "once is enough")
}

// A gateway that has nobody behind it says so with a page of its own.
func TestAGatewayWithoutAFunctionIsWaitedFor(t *testing.T) {
	s := newPatientStage(t, time.Minute)
	inv, _, _ := training(t)
	c, ended := s.open(inv)
	for _, status := range []int{502, 503, 504} {
		c.replyWith(text(status, "no healthy upstream"))
		c = <-s.calls
	}
	require.Contains(t, <-s.warned, "502 Bad Gateway")
	c.get("/assignment/1")
	c.replyWith(text(502, "upstream connect error"))
	over := make(chan error, 1)
	go func() { _, err := ended(); over <- err }()
	var err error
	select {
	case err = <-over:
	case <-s.calls:
		t.Fatal("a function that had begun is called again")
	}
	require.ErrorContains(t, err, "upstream connect error")

	for _, answer := range []func(http.ResponseWriter){ // a function's failure, whatever its status; and a server's
		text(503, `{"error": "its worker has died", "code": 503, "kind": "unavailable"}`), text(500, "oops"), cut(""),
	} {
		c, ended = s.open(inv)
		c.replyWith(answer)
		_, err = ended()
		require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	}
}

// Where there are several the next one is called at once.
func TestAnotherEndpointStandsIn(t *testing.T) {
	s := newPatientStage(t, time.Minute)
	gone := httptest.NewServer(nil)
	gone.Close()
	require.NoError(t, s.runtime.Register("f", s.endpoint.URL+"/f?key=secret", gone.URL, gone.URL))
	for attempt := range 3 {
		inv, _, _ := training(t)
		inv.Attempt = attempt
		c, ended := s.open(inv)
		c.put("/model/1", dict(t, 3))
		c.reply(200, good)
		_, err := ended()
		require.NoError(t, err)
	}
	require.Empty(t, s.warned)
}

// The wait is well within the time of the attempt, ends with it, and is not had
// again by the next attempt.
func TestTheWaitForAnEndpointEnds(t *testing.T) {
	s := newPatientStage(t, time.Hour)
	gone := httptest.NewServer(nil)
	gone.Close()
	require.NoError(t, s.runtime.Register("f", gone.URL))
	inv, _, _ := training(t)
	inv.Timeout = 300 * time.Millisecond
	_, err := s.run(inv)()
	require.Equal(t, fault.Unavailable, fault.KindOf(err), err)
	require.ErrorContains(t, err, "refused")
	require.ErrorContains(t, err, "(nobody was there for ")
	<-s.warned
	_, err = s.run(inv)()
	require.ErrorContains(t, err, "(nobody was there for ")
	require.Empty(t, s.warned, "it did not wait")

	require.NoError(t, s.runtime.Register("f", gone.URL+"/other"))
	inv.Timeout = 0
	ctx, cancel := context.WithCancel(t.Context())
	ended := s.runIn(ctx, inv)
	<-s.warned
	cancel()
	_, err = ended()
	require.ErrorIs(t, err, context.Canceled)
	ended = s.run(inv)
	require.NoError(t, s.runtime.Close())
	_, err = ended()
	require.ErrorContains(t, err, "closed")
}
