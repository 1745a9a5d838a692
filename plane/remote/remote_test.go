package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/plane/planetest"
	"github.com/troupe-ml/troupe/plane/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConforms(t *testing.T) {
	alone := func(string) (*http.Client, string, error) {
		return nil, "", fault.New("test", fault.Invalid, "there are no others")
	}
	for name, open := range map[string]func(t *testing.T) plane.Space{
		"scratch": func(t *testing.T) plane.Space { return scratch(t, planetest.Node, 0) },
		"memory":  func(*testing.T) plane.Space { return plane.NewMemory(planetest.Node) },
	} {
		t.Run(name, func(t *testing.T) {
			planetest.Run(t, func(t *testing.T) plane.Space {
				s := remote.New(remote.Config{Local: open(t), Node: planetest.Node, Peer: alone})
				t.Cleanup(func() { require.NoError(t, s.Close()) })
				return s
			})
		})
	}
}

func scratch(t *testing.T, node string, limit int64) *plane.Scratch {
	t.Helper()
	s, err := plane.OpenScratch(config.Scratch{Dir: t.TempDir(), Limit: limit}, node, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// pair is node a, which has tensors, and node b, which wants them.
type pair struct {
	t      *testing.T
	a      *plane.Scratch
	b      *remote.Space
	local  *plane.Scratch // of b
	asked  atomic.Int64   // requests of b
	before func(w http.ResponseWriter, r *http.Request) http.ResponseWriter
	member atomic.Bool // a is
}

func newPair(t *testing.T, limit, idle int64) *pair {
	t.Helper()
	p := &pair{t: t, a: scratch(t, "a", 0), local: scratch(t, "b", limit)}
	p.member.Store(true)
	handler := http.StripPrefix("/plane", remote.NewHandler("a", p.a))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		if p.before != nil {
			w = p.before(w, r)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.b = remote.New(remote.Config{Local: p.local, Node: "b", Idle: idle, Peer: func(node string) (*http.Client, string, error) {
		if node != "a" || !p.member.Load() {
			return nil, "", fault.New("test", fault.NotFound, "no node %q", node)
		}
		return server.Client(), server.URL + "/plane", nil
	}})
	t.Cleanup(func() { require.NoError(t, p.b.Close()) })
	return p
}

// seal puts bytes on the plane of a.
func (p *pair) seal(key string, n int) plane.Ref {
	p.t.Helper()
	return seal(p.t, p.a, key, n)
}

func seal(t *testing.T, s plane.Space, key string, n int) plane.Ref {
	t.Helper()
	d, err := s.Create(key, int64(n))
	require.NoError(t, err)
	_, err = d.Write(content(n))
	require.NoError(t, err)
	ref, err := d.Seal()
	require.NoError(t, err)
	return ref
}

func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>7 + i)
	}
	return b
}

func (p *pair) open(ref plane.Ref) plane.Blob {
	p.t.Helper()
	blob, err := p.b.Open(p.t.Context(), ref)
	require.NoError(p.t, err)
	return blob
}

func requireKind(t *testing.T, want fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
}

// Whatever the size, what another node has is read as if it were here: as a file,
// fetched once for many at the same time, and counted.
func TestFetch(t *testing.T) {
	p := newPair(t, 0, 1<<30)
	for i, size := range []int{0, 1, 4096, 3<<20 + 7} {
		ref := p.seal(fmt.Sprintf("j/1/merged/model-%d", size), size)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				blob, err := p.b.Open(t.Context(), ref)
				if err != nil {
					t.Error(err)
					return
				}
				defer blob.Close()
				got, err := io.ReadAll(io.NewSectionReader(blob, 0, blob.Size()))
				if err != nil || !bytes.Equal(got, content(size)) {
					t.Error("other bytes", err)
				}
				file, err := os.ReadFile(blob.Path())
				if err != nil || !bytes.Equal(file, got) {
					t.Error("another file", err)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, i+1, p.asked.Load(), "once")
	}
	require.EqualValues(t, 1+4096+3<<20+7, p.b.Usage().Bytes)
	require.Len(t, p.b.List("j/1/"), 4)
	for _, key := range p.b.List("j/") {
		original, copied := plane.Original(key)
		require.True(t, copied)
		require.True(t, strings.HasPrefix(original, "j/1/merged/model-"))
	}
	require.NoError(t, p.b.Remove(p.b.List("j/")...))
	require.Zero(t, p.b.Usage().Bytes)
}

// A copy is fetched again after it was removed, by whoever did it; who has it open
// reads on.
func TestRemovedCopies(t *testing.T) {
	p := newPair(t, 0, 1<<30)
	ref := p.seal("j/k", 1000)
	first := p.open(ref)
	require.NoError(t, p.b.Remove(plane.CopyKey(ref)))
	second := p.open(ref)
	require.NoError(t, p.local.Remove(plane.CopyKey(ref)))
	third := p.open(ref)
	for _, blob := range []plane.Blob{first, second, third} {
		got := make([]byte, 1000)
		_, err := blob.ReadAt(got, 0)
		require.NoError(t, err)
		require.Equal(t, content(1000), got)
		require.NoError(t, blob.Close())
		require.NoError(t, blob.Close())
	}
	require.EqualValues(t, 3, p.asked.Load())
	require.Equal(t, plane.Usage{Bytes: 1000, Files: 1, Peak: 1000}, p.b.Usage())
}

// What nobody reads is kept up to a bound, and makes room for what is wanted.
func TestCopiesAreBounded(t *testing.T) {
	p := newPair(t, 10_000, 5000)
	refs := make([]plane.Ref, 6)
	for i := range refs {
		refs[i] = p.seal(fmt.Sprint("j/", i), 2000)
	}
	held := p.open(refs[0])
	for _, ref := range refs[1:4] {
		require.NoError(t, p.open(ref).Close())
	}
	require.Equal(t, []string{plane.CopyKey(refs[0]), plane.CopyKey(refs[2]), plane.CopyKey(refs[3])}, p.b.List(""))
	own, err := p.b.Create("own", 7000) // more than there is beside all three
	require.NoError(t, err)
	require.Equal(t, []string{plane.CopyKey(refs[0])}, p.b.List(""))
	_, err = p.b.Open(t.Context(), refs[4])
	requireKind(t, fault.Unavailable, err)
	require.ErrorContains(t, err, "raise the limit")
	require.NoError(t, own.Abort())
	require.NoError(t, held.Close())
	require.NoError(t, p.open(refs[5]).Close())
	require.Equal(t, []string{plane.CopyKey(refs[0]), plane.CopyKey(refs[5])}, p.b.List(""))
}

// What is gone there is not found at once; what is damaged, or of another length,
// is not taken, and leaves nothing; of the same key something right is.
func TestWrongRefs(t *testing.T) {
	p := newPair(t, 0, 1<<30)
	ref := p.seal("j/k", 1000)
	for name, c := range map[string]struct {
		ref  plane.Ref
		kind fault.Kind
		says string
	}{
		"gone":           {plane.Ref{Node: "a", Key: "j/gone", Bytes: 1000}, fault.NotFound, "j/gone"},
		"another length": {plane.Ref{Node: "a", Key: "j/k", Bytes: 999}, fault.Corrupt, "1000 bytes"},
		"another digest": {plane.Ref{Node: "a", Key: "j/k", Bytes: 1000, Digest: 1}, fault.Corrupt, `node "a" is damaged`},
		"no such node":   {plane.Ref{Node: "c", Key: "j/k", Bytes: 1000}, fault.Unavailable, `no node "c"`},
		"no key":         {plane.Ref{Node: "a", Key: "../k", Bytes: 1000}, fault.Invalid, "../k"},
	} {
		_, err := p.b.Open(t.Context(), c.ref)
		requireKind(t, c.kind, err)
		require.ErrorContains(t, err, c.says, name)
		require.Zero(t, p.b.Usage().Bytes, name)
	}
	require.NoError(t, p.open(ref).Close())
	require.NoError(t, p.open(plane.Ref{Node: "a", Key: "j/k", Bytes: 1000}).Close(), "a ref without a digest")
}

// cutting cuts each connection after some bytes, until there were so many.
func (p *pair) cutting(after int64, cuts int64) {
	var n atomic.Int64
	p.before = func(w http.ResponseWriter, _ *http.Request) http.ResponseWriter {
		if n.Add(1) > cuts {
			return w
		}
		return &cutWriter{ResponseWriter: w, left: after}
	}
}

type cutWriter struct {
	http.ResponseWriter
	left int64
}

func (w *cutWriter) Write(b []byte) (int, error) {
	if w.left -= int64(len(b)); w.left < 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return w.ResponseWriter.Write(b)
}

func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Connections that are cut cost what was lacking.
func TestCutConnections(t *testing.T) {
	p := newPair(t, 0, 1<<30)
	p.cutting(1<<20, 3)
	ref := p.seal("j/k", 5<<20)
	blob := p.open(ref)
	defer blob.Close()
	digest := xxhash.New()
	_, err := io.Copy(digest, io.NewSectionReader(blob, 0, blob.Size()))
	require.NoError(t, err)
	require.Equal(t, ref.Digest, digest.Sum64())
	require.EqualValues(t, 4, p.asked.Load())
}

// hang has node a say nothing, and tells of each request, and of its end.
func (p *pair) hang() (came, left chan struct{}) {
	came, left = make(chan struct{}, 10), make(chan struct{}, 10)
	p.before = func(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
		came <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
		panic(http.ErrAbortHandler)
	}
	return came, left
}

// A fetch ends when the last one who waits has left, and not before; who comes
// then begins anew.
func TestAFetchEndsWithTheLastWhoWaits(t *testing.T) {
	p := newPair(t, 0, 1<<30)
	came, left := p.hang()
	ref := p.seal("j/k", 1000)
	first, leaveFirst := context.WithCancel(t.Context())
	second, leaveSecond := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	open := func(ctx context.Context) {
		_, err := p.b.Open(ctx, ref)
		errs <- err
	}
	go open(first)
	<-came
	go open(second)
	leaveFirst()
	err := <-errs
	requireKind(t, fault.Unavailable, err)
	require.ErrorIs(t, err, context.Canceled)
	leaveSecond()
	requireKind(t, fault.Unavailable, <-errs)
	select {
	case <-left:
	case <-time.After(5 * time.Second): // less than until it is given up for its silence
		require.Fail(t, "it goes on")
	}
	p.before = nil
	require.NoError(t, p.open(ref).Close())
}

// A node that is gone holds up nobody: neither who waits for it, nor who asks.
func TestANodeThatIsGone(t *testing.T) {
	p := newPair(t, 0, 1<<30)
	came, _ := p.hang()
	ref := p.seal("j/k", 1000)
	errs := make(chan error)
	go func() {
		_, err := p.b.Open(t.Context(), ref)
		errs <- err
	}()
	<-came
	p.member.Store(false)
	p.b.Gone("elsewhere")
	p.b.Gone("a")
	err := <-errs
	requireKind(t, fault.Unavailable, err)
	require.ErrorContains(t, err, `node "a" is gone`)
	_, err = p.b.Open(t.Context(), ref)
	requireKind(t, fault.Unavailable, err)
	require.Zero(t, p.b.Usage().Bytes)
}

// Closing waits for what is fetched, which ends.
func TestCloseEndsFetches(t *testing.T) {
	p := newPair(t, 0, 1<<30)
	came, _ := p.hang()
	ref := p.seal("j/k", 1000)
	errs := make(chan error)
	go func() {
		_, err := p.b.Open(t.Context(), ref)
		errs <- err
	}()
	<-came
	require.NoError(t, p.b.Close())
	err := <-errs
	requireKind(t, fault.Unavailable, err)
	require.ErrorContains(t, err, "closed")
	_, err = p.b.Open(t.Context(), ref)
	requireKind(t, fault.Unavailable, err)
}

// Many open, close and remove the same few at once.
func TestManyAtOnce(t *testing.T) {
	p := newPair(t, 0, 3000)
	refs := make([]plane.Ref, 4)
	for i := range refs {
		refs[i] = p.seal(fmt.Sprint("j/", i), 1000+i)
	}
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 50 {
				ref := refs[(w+i)%len(refs)]
				ctx, cancel := context.WithCancel(t.Context())
				if (w+i)%7 == 0 {
					cancel()
				}
				blob, err := p.b.Open(ctx, ref)
				cancel()
				if err != nil {
					if fault.KindOf(err) != fault.Unavailable || ctx.Err() == nil {
						t.Error(err)
					}
					continue
				}
				got := make([]byte, ref.Bytes)
				if _, err := blob.ReadAt(got, 0); err != nil || !bytes.Equal(got, content(int(ref.Bytes))) {
					t.Error("other bytes", err)
				}
				if i%5 == 0 {
					if err := p.b.Remove(plane.CopyKey(ref)); err != nil {
						t.Error(err)
					}
				}
				if err := blob.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, p.b.Usage().Bytes, int64(3000))
}

func TestTheHandlerRefuses(t *testing.T) {
	s := scratch(t, "a", 0)
	seal(t, s, "j/k", 10)
	handler := remote.NewHandler("a", s)
	for target, status := range map[string]int{
		"/j/k?bytes=10": http.StatusOK, "/j/k": http.StatusBadRequest, "/j/k?bytes=x": http.StatusBadRequest,
		"/j/x?bytes=10": http.StatusNotFound, "/j/k?bytes=11": http.StatusInternalServerError, "/?bytes=1": http.StatusBadRequest,
		"/../j/k?bytes=10": http.StatusBadRequest, "/j/k?bytes=-10": http.StatusInternalServerError,
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		require.Equal(t, status, w.Code, target)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/j/k?bytes=10", nil))
	require.Equal(t, http.StatusBadRequest, w.Code)
}
