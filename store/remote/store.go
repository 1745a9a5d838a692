package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
	"github.com/troupe-ml/troupe/internal/ranged"
	"github.com/troupe-ml/troupe/store"
)

// Peer says how the Handler of another node is reached now, and the URL that
// paths are appended to. Its errors are final, for what is asked just then.
type Peer func() (client *http.Client, baseURL string, err error)

// At is the Peer that is always at one place.
func At(client *http.Client, baseURL string) Peer {
	return func() (*http.Client, string, error) { return client, baseURL, nil }
}

// Store is a store of another node. Where that is not reached for some seconds, or
// says nothing, the answer is Unavailable; what is written up to a megabyte, asked
// or read is tried again by itself until then. What Get gives ends with its ctx.
type Store struct {
	peer Peer

	mu     sync.Mutex // guards what follows
	closed bool
	doubts map[string][]attemptName // by key: writes of which nobody knows what became
	life   uint64                   // how many places the other node has told
	place  string                   // the last of them
	url    string                   // that keys are appended to, as the other node shows them; "": not heard yet
}

var (
	_ store.Store       = (*Store)(nil)
	_ store.Replaceable = (*Store)(nil)
)

// New returns the store that peer's Handler serves. Nobody is asked yet.
func New(peer Peer) *Store { return &Store{peer: peer, doubts: map[string][]attemptName{}} }

// Get implements store.Store. Reading goes on where a connection ended, as long
// as the object is the same.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	const op = "store.get"
	if offset < 0 || length < -1 {
		return nil, fault.New(op, fault.Invalid, "%q: offset %d, length %d: want offset >= 0 and length >= -1", key, offset, length)
	}
	if err := s.check(ctx, op, key); err != nil {
		return nil, err
	}
	header := http.Header{}
	s.pinned(ctx, header)
	body, err := ranged.Open(ctx, ranged.Source{
		Op: op, What: fmt.Sprintf("object %q", key), Header: header, Silence: silence, Patience: patience,
		Ask: func() (*http.Client, string, error) {
			client, base, err := s.reach(op)
			return client, base + objectPath("objects", key), err
		},
	}, offset, length)
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Stat implements store.Store.
func (s *Store) Stat(ctx context.Context, key string) (store.Object, error) {
	const op = "store.stat"
	if err := s.check(ctx, op, key); err != nil {
		return store.Object{}, err
	}
	var answer line
	if err := s.askLine(ctx, op, request{method: http.MethodGet, path: objectPath("stat", key)}, &answer); err != nil {
		return store.Object{}, err
	}
	if answer.Object == nil {
		return store.Object{}, fault.New(op, fault.Unavailable, "%q: the answer describes no object", key)
	}
	return *answer.Object, nil
}

// URL implements store.Store: it is that of the other node's store, once Pin has heard
// it.
func (s *Store) URL(key string) string {
	s.mu.Lock()
	known := s.url
	s.mu.Unlock()
	if known != "" {
		return known + (&url.URL{Path: key}).EscapedPath()
	}
	_, base, err := s.peer()
	if err != nil {
		base = "https://unknown" // nobody is reached by it anyway
	}
	return base + objectPath("objects", key)
}

// Close implements store.Store. Readers that Get gave out stay valid.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// check is what comes before anything about a key.
func (s *Store) check(ctx context.Context, op, key string) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fault.New(op, fault.Unavailable, "%q: %w", key, err)
	}
	_, _, err := s.reach(op)
	return err
}

// reach is peer, of a store that is open.
func (s *Store) reach(op string) (*http.Client, string, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, "", fault.New(op, fault.Unavailable, "the store of the other node is closed")
	}
	client, base, err := s.peer()
	if err != nil {
		return nil, "", fault.New(op, fault.Unavailable, "reach the node that has the store: %w", err)
	}
	return client, base, nil
}

func objectPath(what, key string) string {
	return (&url.URL{Path: "/" + what + "/" + key}).EscapedPath()
}

// request is a question of few bytes.
type request struct {
	method, path string
	query        url.Values
	attempt      string
}

// ask sends a question until there is an answer, whose body the caller closes, or
// patience is at its end. It may arrive more than once. Silence ends reading the
// answer, too, unless heard is called again and again.
func (s *Store) ask(ctx context.Context, op string, q request) (answer *http.Response, heard func(), err error) {
	began := time.Now()
	for try := 0; ; try++ {
		answer, heard, err = s.askOnce(ctx, op, q)
		if err == nil || fault.KindOf(err) != fault.Unknown {
			return answer, heard, err
		}
		if err := pause(ctx, op, try, began, err); err != nil {
			return nil, nil, err
		}
	}
}

// askOnce is ask without patience: an Unknown error is one of the connection.
func (s *Store) askOnce(ctx context.Context, op string, q request) (answer *http.Response, heard func(), err error) {
	client, base, err := s.reach(op)
	if err != nil {
		return nil, nil, err
	}
	target := base + q.path
	if q.query != nil {
		target += "?" + q.query.Encode()
	}
	ctx, cancel := context.WithCancel(ctx)
	r, err := http.NewRequestWithContext(ctx, q.method, target, nil)
	if err != nil {
		cancel()
		return nil, nil, fault.New(op, fault.Invalid, "%w", err)
	}
	s.pinned(ctx, r.Header)
	if q.attempt != "" {
		r.Header.Set(attemptHeader, q.attempt)
	}
	silent := time.AfterFunc(silence, cancel)
	answer, err = client.Do(r)
	if err != nil {
		silent.Stop()
		cancel()
		return nil, nil, err
	}
	answer.Body = &guarded{ReadCloser: answer.Body, end: func() { silent.Stop(); cancel() }}
	if answer.StatusCode >= http.StatusMultipleChoices {
		err := httpfault.Failure(answer)
		_ = answer.Body.Close()
		return nil, nil, fault.New(op, fault.KindOf(err), "%w", err)
	}
	return answer, func() { silent.Reset(silence) }, nil
}

// guarded ends its request when it is closed.
type guarded struct {
	io.ReadCloser
	end func()
}

func (g *guarded) Close() error {
	defer g.end()
	return g.ReadCloser.Close()
}

// askLine asks what is answered by one line.
func (s *Store) askLine(ctx context.Context, op string, q request, l *line) error {
	answer, _, err := s.ask(ctx, op, q)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(l); err != nil {
		return fault.New(op, fault.Unavailable, "read the answer: %w", err)
	}
	return nil
}

// pause waits before another try, or says that it is enough.
func pause(ctx context.Context, op string, try int, began time.Time, why error) error {
	wait := min(20*time.Millisecond<<min(try, 10), time.Second)
	if ctx.Err() == nil && time.Since(began)+wait <= patience {
		select {
		case <-time.After(wait):
			return nil
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		why = ctx.Err()
	}
	return fault.New(op, fault.Unavailable, "reach the node that has the store: %w", why)
}
