package remote

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/httpfault"
)

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	return s.put(ctx, upload{op: "store.put", key: key}, write)
}

// PutIfAbsent implements store.Store. Whoever creates the object is not told that
// it was there, though the answer be lost: see doc.go.
func (s *Store) PutIfAbsent(ctx context.Context, key string, write func(io.Writer) error) error {
	return s.put(ctx, upload{op: "store.put_if_absent", key: key, absent: true}, write)
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	const op = "store.delete"
	if err := s.prepare(ctx, op, key); err != nil {
		return err
	}
	return s.insist(ctx, op, key, "", func(id string) sent {
		return s.send(ctx, op, http.MethodDelete, key, id, false, nil)
	})
}

// attemptName is a write that was sent.
type attemptName struct{ id, key, sent string }

// sent is how a write ended.
type sent struct {
	err  error
	lost bool // whether it was done is not known: err is of the connection
	none bool // nothing was sent: err is of the connection, or of the peer's address
}

// prepare is what comes before a write: none of before may come after it.
func (s *Store) prepare(ctx context.Context, op, key string) error {
	if err := s.check(ctx, op, key); err != nil {
		return err
	}
	s.mu.Lock()
	doubts := slices.Clone(s.doubts[key])
	s.mu.Unlock()
	for _, a := range doubts {
		if known, err := s.settle(ctx, op, a); !known {
			return err
		}
		s.doubtNoMore(a)
	}
	return nil
}

func (s *Store) doubt(a attemptName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts[a.key] = append(s.doubts[a.key], a)
}

func (s *Store) doubtNoMore(a attemptName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doubts[a.key] = slices.DeleteFunc(s.doubts[a.key], func(b attemptName) bool { return a == b }); len(s.doubts[a.key]) == 0 {
		delete(s.doubts, a.key)
	}
}

// insist sends a write until it is known what became of it.
func (s *Store) insist(ctx context.Context, op, key, content string, send func(id string) sent) error {
	began := time.Now()
	for try := 0; ; try++ {
		a := attemptName{rand.Text(), key, content}
		outcome := send(a.id)
		if !outcome.none && !outcome.lost {
			return outcome.err
		}
		if outcome.lost {
			done, err := s.outcome(ctx, op, a, outcome.err)
			if done {
				return err
			}
		}
		if err := pause(ctx, op, try, began, outcome.err); err != nil {
			return err
		}
	}
}

// outcome is what became of a write whose answer was lost: done is false if it
// was not done and may be tried again.
func (s *Store) outcome(ctx context.Context, op string, a attemptName, why error) (done bool, err error) {
	if ctx.Err() != nil { // a last question
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
	}
	known, err := s.settle(ctx, op, a)
	switch {
	case !known:
		s.doubt(a)
		return true, fault.New(op, fault.Unavailable, "%q: the answer was lost (%w), and it is not known whether it was done: %w", a.key, why, err)
	case err == nil, fault.KindOf(err) == fault.Conflict:
		return true, err
	}
	return false, err
}

// settle asks what became of a write, which is not done any more from then on.
func (s *Store) settle(ctx context.Context, op string, a attemptName) (known bool, err error) {
	query := url.Values{"key": {a.key}}
	if a.sent != "" {
		query.Set("sent", a.sent)
	}
	var l line
	if err := s.askLine(ctx, op, request{method: http.MethodPost, path: "/settle", query: query, attempt: a.id}, &l); err != nil {
		return false, err
	}
	return true, l.failure(op)
}

// send sends a write. A body says with commit that it is all.
func (s *Store) send(ctx context.Context, op, method, key, id string, absent bool, b *body) sent {
	client, base, err := s.reach(op)
	if err != nil {
		return sent{err: err}
	}
	var wrote atomic.Bool
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { wrote.Store(true) }})
	r, err := http.NewRequestWithContext(traced, method, base+objectPath("objects", key), nil)
	if err != nil {
		return sent{err: fault.New(op, fault.Invalid, "%w", err)}
	}
	s.pinned(ctx, r.Header)
	r.Header.Set(attemptHeader, id)
	if absent {
		r.Header.Set("If-None-Match", "*")
	}
	wait := silence
	if b != nil {
		r.Body, r.ContentLength, r.Trailer = b, -1, http.Header{commitTrailer: nil}
		b.trailer = r.Trailer
		wait = commitFor
	}
	silent := time.AfterFunc(wait, cancel)
	defer silent.Stop()
	if b != nil {
		b.heard = func() { silent.Reset(commitFor) }
	}
	answer, err := client.Do(r)
	if err != nil {
		return sent{err: err, lost: wrote.Load(), none: !wrote.Load()}
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode < http.StatusMultipleChoices {
		return sent{}
	}
	err = httpfault.Failure(answer)
	return sent{err: fault.New(op, fault.KindOf(err), "%w", err)}
}

// body is what is sent, and at its end the word that it is all.
type body struct {
	io.Reader
	all     func() string // what commit says; "": it is not all
	trailer http.Header
	heard   func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.heard()
	}
	if err == io.EOF {
		if all := b.all(); all != "" {
			b.trailer.Set(commitTrailer, all)
		}
	}
	return n, err
}

func (*body) Close() error { return nil }

// stopped is the error of a write whose context has ended.
func stopped(op, key string, err error) error {
	return fault.New(op, fault.Unavailable, "write %q: %w", key, fmt.Errorf("stopped: %w", err))
}
