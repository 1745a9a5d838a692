package ranged_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/ranged"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is so long that no test waits for it.
const long = time.Hour

// served is a resource whose connections end badly.
type served struct {
	data []byte
	tag  string
	err  error
	// broken may hold up or cut off an answer that has begun: n counts requests
	// from 1, at is the offset behind each write.
	broken func(r *http.Request, n int, at int64)
	n      int
	ranges []string
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.n++
	s.ranges = append(s.ranges, r.Header.Get("Range"))
	n := s.n
	err := ranged.Serve(w, r, ranged.Content{Size: int64(len(s.data)), Tag: s.tag, Open: func(offset, length int64) (io.ReadCloser, error) {
		if s.err != nil {
			return nil, s.err
		}
		return &pieces{s: s, r: r, n: n, at: offset, left: length, w: w}, nil
	}})
	if err != nil {
		httpfault.Fail(w, err)
	}
}

// pieces gives a few bytes at a time, and has them sent.
type pieces struct {
	s        *served
	r        *http.Request
	w        http.ResponseWriter
	n        int
	at, left int64
}

func (p *pieces) Read(b []byte) (int, error) {
	if f, ok := p.w.(http.Flusher); ok {
		f.Flush()
	}
	if p.s.broken != nil {
		p.s.broken(p.r, p.n, p.at)
	}
	if p.left == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(int64(len(b)), 1000)], p.s.data[p.at:p.at+p.left])
	p.at += int64(n)
	p.left -= int64(n)
	return n, nil
}

func (*pieces) Close() error { return nil }

func start(t *testing.T, s *served) ranged.Source {
	t.Helper()
	if s.tag == "" {
		s.tag = "v1"
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return ranged.Source{Op: "test", What: "it", Silence: long, Patience: long, Ask: func() (*http.Client, string, error) { return server.Client(), server.URL, nil }}
}

func data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i >> 3)
	}
	return b
}

func requireKind(t *testing.T, want fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
}

func TestRanges(t *testing.T) {
	s := &served{data: data(10)}
	source := start(t, s)
	for _, c := range []struct{ offset, length, from, to int64 }{
		{0, -1, 0, 10}, {3, -1, 3, 10}, {3, 4, 3, 7}, {9, 100, 9, 10}, {0, 0, 0, 0}, {10, -1, 0, 0}, {10, 5, 0, 0}, {5, 1<<63 - 2, 5, 10},
	} {
		body, err := ranged.Open(t.Context(), source, c.offset, c.length)
		require.NoError(t, err, "%+v", c)
		got, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.NoError(t, body.Close())
		require.Equal(t, string(s.data[c.from:c.to]), string(got), "%+v", c)
		require.EqualValues(t, 10, body.Size())
	}
	_, err := ranged.Open(t.Context(), source, 11, 1)
	requireKind(t, fault.Invalid, err)
	s.data = nil
	body, err := ranged.Open(t.Context(), source, 0, -1)
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, body.Close())
}

// However often the connection is cut, every byte is there, and none is sent
// twice.
func TestCutConnections(t *testing.T) {
	s := &served{data: data(100_000)}
	s.broken = func(_ *http.Request, n int, at int64) {
		if at >= int64(n)*20_000 && n < 5 {
			panic(http.ErrAbortHandler)
		}
	}
	body, err := ranged.Open(t.Context(), start(t, s), 100, -1)
	require.NoError(t, err)
	defer body.Close()
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.True(t, bytes.Equal(s.data[100:], got))
	require.Len(t, s.ranges, 5)
	for i, r := range s.ranges[1:] {
		var from int
		_, err := fmt.Sscanf(r, "bytes=%d-", &from)
		require.NoError(t, err, r)
		require.GreaterOrEqual(t, from, i*20_000, "it goes on where it was")
	}
}

// A peer that says nothing any more is asked again over another connection.
func TestSilence(t *testing.T) {
	s := &served{data: data(10_000)}
	s.broken = func(r *http.Request, n int, at int64) {
		if n == 1 && at >= 5000 {
			<-r.Context().Done()
		}
	}
	source := start(t, s)
	source.Silence = 50 * time.Millisecond
	body, err := ranged.Open(t.Context(), source, 0, -1)
	require.NoError(t, err)
	defer body.Close()
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.True(t, bytes.Equal(s.data, got))
}

// One that stays silent, or is gone, is given up in the end.
func TestPatience(t *testing.T) {
	s := &served{data: data(10_000), broken: func(r *http.Request, _ int, at int64) {
		if at >= 5000 {
			<-r.Context().Done()
		}
	}}
	source := start(t, s)
	source.Silence, source.Patience = 20*time.Millisecond, 200*time.Millisecond
	body, err := ranged.Open(t.Context(), source, 0, -1)
	require.NoError(t, err)
	defer body.Close()
	_, err = io.ReadAll(body)
	requireKind(t, fault.Unavailable, err)
	require.ErrorContains(t, err, "no answer for 200ms")

	server := httptest.NewServer(s)
	server.Close()
	source.Ask = func() (*http.Client, string, error) { return http.DefaultClient, server.URL, nil }
	_, err = ranged.Open(t.Context(), source, 0, -1)
	requireKind(t, fault.Unavailable, err)
	require.ErrorContains(t, err, "refused")
}

func TestTheContextEndsReading(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{data: data(10_000), broken: func(r *http.Request, _ int, at int64) {
		if at >= 5000 {
			<-r.Context().Done()
		}
	}}
	body, err := ranged.Open(ctx, start(t, s), 0, -1)
	require.NoError(t, err)
	defer body.Close()
	_, err = io.ReadFull(body, make([]byte, 1000))
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(body)
	requireKind(t, fault.Unavailable, err)
	require.ErrorIs(t, err, context.Canceled)
}

// What was replaced in the middle is not mixed with what has come.
func TestReplaced(t *testing.T) {
	s := &served{data: data(10_000)}
	s.broken = func(_ *http.Request, n int, at int64) {
		if n == 1 && at >= 5000 {
			s.tag = "v2"
			panic(http.ErrAbortHandler)
		}
	}
	body, err := ranged.Open(t.Context(), start(t, s), 0, -1)
	require.NoError(t, err)
	defer body.Close()
	_, err = io.ReadAll(body)
	requireKind(t, fault.Unavailable, err)
	require.ErrorContains(t, err, "replaced")
}

// Errors keep their kind, and are not asked for again.
func TestErrors(t *testing.T) {
	for _, kind := range []fault.Kind{fault.NotFound, fault.Corrupt, fault.Unavailable, fault.Invalid, fault.Conflict} {
		s := &served{data: data(10), err: fault.New("x", kind, "it is so")}
		source := start(t, s)
		for _, offset := range []int64{0, 5} {
			_, err := ranged.Open(t.Context(), source, offset, -1)
			requireKind(t, kind, err)
			require.EqualError(t, err, "it is so")
		}
		require.Equal(t, 2, s.n)
	}
	why := errors.New("no such node")
	_, err := ranged.Open(t.Context(), ranged.Source{Ask: func() (*http.Client, string, error) { return nil, "", why }}, 0, -1)
	require.ErrorIs(t, err, why)
}
