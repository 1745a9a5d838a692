package remote_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/remote"
)

// loser does what it is asked, and loses some of the answers.
type loser struct {
	handler http.Handler
	lose    func(r *http.Request, n int) bool // n counts requests from 1

	mu sync.Mutex // guards n
	n  int
}

func (l *loser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.n++
	n := l.n
	l.mu.Unlock()
	if l.lose(r, n) {
		l.handler.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	l.handler.ServeHTTP(w, r)
}

// losing serves a store whose answers to the first request of each method are
// lost, as often as times says.
func losing(t *testing.T, handler func() http.Handler, times map[string]int) *remote.Store {
	t.Helper()
	var mu sync.Mutex
	l := &loser{handler: handler(), lose: func(r *http.Request, _ int) bool {
		mu.Lock()
		defer mu.Unlock()
		times[r.Method]--
		return times[r.Method] >= 0
	}}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	return remote.New(remote.At(server.Client(), server.URL))
}

// Whoever created an object is told so though the answer was lost, and whoever did
// not is not: of short and of long ones, and where the server was restarted since
// then, which knows by the content.
func TestALostAnswer(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<17)
	for name, content := range map[string]string{"short": "mine", "empty": "", "long": long} {
		t.Run(name, func(t *testing.T) {
			mem := store.NewMem()
			s := losing(t, func() http.Handler { return remote.NewHandler(mem) }, map[string]int{http.MethodPut: 1, http.MethodDelete: 1, http.MethodPost: 1})
			require.NoError(t, s.PutIfAbsent(t.Context(), "a", text(content)))
			requireKind(t, fault.Conflict, s.PutIfAbsent(t.Context(), "a", text(content)))
			require.NoError(t, s.Delete(t.Context(), "a"))
			_, err := mem.Stat(t.Context(), "a")
			requireKind(t, fault.NotFound, err)
		})
		t.Run(name+" put", func(t *testing.T) {
			mem := store.NewMem()
			s := losing(t, func() http.Handler { return remote.NewHandler(mem) }, map[string]int{http.MethodPut: 1})
			require.NoError(t, s.Put(t.Context(), "a", text(content)))
			o, err := mem.Stat(t.Context(), "a")
			require.NoError(t, err)
			require.EqualValues(t, len(content), o.Size)
		})
		t.Run(name+" and refused", func(t *testing.T) {
			mem := store.NewMem()
			require.NoError(t, mem.Put(t.Context(), "a", text("another's")))
			s := losing(t, func() http.Handler { return remote.NewHandler(mem) }, map[string]int{http.MethodPut: 1})
			requireKind(t, fault.Conflict, s.PutIfAbsent(t.Context(), "a", text(content)))
		})
		t.Run(name+" restarted", func(t *testing.T) {
			mem := store.NewMem()
			fresh := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { remote.NewHandler(mem).ServeHTTP(w, r) })
			s := losing(t, func() http.Handler { return fresh }, map[string]int{http.MethodPut: 1})
			require.NoError(t, s.PutIfAbsent(t.Context(), "a", text(content)))
			s = losing(t, func() http.Handler { return fresh }, map[string]int{http.MethodPut: 1})
			requireKind(t, fault.Conflict, s.PutIfAbsent(t.Context(), "a", text(content+"x")))
		})
	}
}

// slow is a store whose next Put waits, once it has its content, until told.
type slow struct {
	store.Store
	came, proceed chan struct{}
	once          sync.Once
}

func (s *slow) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return err
	}
	s.once.Do(func() {
		close(s.came)
		<-s.proceed
		ctx = context.WithoutCancel(ctx) // it is past the point where it could be stopped
	})
	return s.Store.Put(ctx, key, func(w io.Writer) error { _, err := content.WriteTo(w); return err })
}

// What a writer gave up does not come after what it writes later, however late the
// server does it.
func TestNothingOvertakes(t *testing.T) {
	s := &slow{Store: store.NewMem(), came: make(chan struct{}), proceed: make(chan struct{})}
	over := serve(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.came
		cancel()
	}()
	requireKind(t, fault.Unavailable, over.Put(ctx, "k", text("old")))
	second := make(chan error)
	go func() { second <- over.Put(t.Context(), "k", text("new")) }()
	close(s.proceed)
	require.NoError(t, <-second)
	require.Equal(t, "new", read(t, over, "k"))
}

// A write that reaches the server after it was settled is not done.
func TestWhatIsSettledIsNotDone(t *testing.T) {
	mem := store.NewMem()
	handler := remote.NewHandler(mem)
	request := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Troupe-Attempt", "a1")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	require.NoError(t, mem.Put(t.Context(), "k", text("x")))
	require.Contains(t, request(http.MethodPost, "/settle?key=k").Body.String(), "gave it up")
	require.Equal(t, http.StatusServiceUnavailable, request(http.MethodDelete, "/objects/k").Code)
	require.Equal(t, "x", read(t, mem, "k"))
}
