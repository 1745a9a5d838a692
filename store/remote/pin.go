package remote

import (
	"context"
	"io"
	"net/http"

	"github.com/troupe-ml/troupe/internal/fault"
)

type pinKey struct{}

// pin is what a context says of a Store.
type pin struct {
	store *Store
	place string
	life  uint64
}

// Pin implements store.Replaceable. A place is what the other node has open: it
// is another one too after that node's restart.
func (s *Store) Pin(ctx context.Context) (context.Context, uint64, error) {
	const op = "store.pin"
	answer, _, err := s.ask(ctx, op, request{method: http.MethodGet, path: "/life"}) // which is refused in another place
	if err != nil {
		return ctx, 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	const most = 1 << 10
	s.learn(answer.Header.Get(urlHeader))
	place, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return ctx, 0, fault.New(op, fault.Unavailable, "read the answer: %w", err)
	}
	if pinned, ok := ctx.Value(pinKey{}).(pin); ok && pinned.store == s {
		return ctx, pinned.life, nil
	}
	if len(place) == 0 {
		return ctx, 0, nil
	}
	p := pin{s, string(place), s.lifeOf(string(place))}
	return context.WithValue(ctx, pinKey{}, p), p.life, nil
}

// learn takes in what the keys of the other node's store follow.
func (s *Store) learn(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.url = url
}

// lifeOf numbers the places.
func (s *Store) lifeOf(place string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.place != place {
		s.place = place
		s.life++
	}
	return s.life
}

// pinned says in a header what its context is pinned to.
func (s *Store) pinned(ctx context.Context, header http.Header) {
	if p, ok := ctx.Value(pinKey{}).(pin); ok && p.store == s {
		header.Set(lifeHeader, p.place)
	}
}
