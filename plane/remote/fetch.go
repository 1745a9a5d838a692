package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/ranged"
	"github.com/troupe-ml/troupe/plane"
)

// fetch is a copy on its way.
type fetch struct {
	cancel context.CancelCauseFunc
	ending bool          // it was cancelled: whoever wants it waits for its end, and begins anew
	done   chan struct{} // closed at its end
	err    error         // known then
}

// want returns a copy that is here; the caller releases it.
func (s *Space) want(ctx context.Context, ref plane.Ref) (*copied, error) {
	for {
		c, f, err := s.join(ref)
		if err != nil || f == nil {
			return c, err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			s.leave(c, f)
			return nil, fault.New("plane.open", fault.Unavailable, "fetch key %q of node %q: %w", ref.Key, ref.Node, ctx.Err())
		}
		s.mu.Lock()
		ended := f.ending
		s.mu.Unlock()
		switch {
		case f.err == nil:
			return c, nil
		case !ended || ctx.Err() != nil:
			return nil, f.err
		}
	}
}

// join counts the caller among those who want a copy, and returns the fetch to
// wait for, or nil if it is here.
func (s *Space) join(ref plane.Ref) (*copied, *fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fault.New("plane.open", fault.Unavailable, "the plane is closed")
	}
	c := s.copies[ref]
	if c == nil {
		c = &copied{ref: ref}
		s.copies[ref], s.byKey[plane.CopyKey(ref)] = c, c
		s.begin(c)
	}
	s.clock++
	c.used = s.clock
	c.readers++
	return c, c.fetch, nil
}

// leave is what who does not wait any more does. The last one ends the fetch.
func (s *Space) leave(c *copied, f *fetch) {
	s.mu.Lock()
	c.readers--
	last := c.readers == 0 && c.fetch == f
	f.ending = f.ending || last
	s.mu.Unlock()
	if last {
		f.cancel(context.Canceled)
	} else {
		s.trim() // it may have come just now
	}
}

// cut ends fetches for a reason, which those who wait hear.
func (s *Space) cut(which func(*copied) bool, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.copies {
		if c.fetch != nil && which(c) {
			c.fetch.cancel(why)
		}
	}
}

// begin starts a fetch. It needs mu.
func (s *Space) begin(c *copied) {
	ctx, cancel := context.WithCancelCause(context.Background())
	f := &fetch{cancel: cancel, done: make(chan struct{})}
	c.fetch = f
	s.running.Go(func() {
		defer cancel(nil)
		local, err := s.run(ctx, c.ref)
		if cause := context.Cause(ctx); err != nil && fault.KindOf(cause) != fault.Unknown {
			err = cause
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		c.local, c.fetch = local, nil
		if f.err = err; err != nil {
			s.forgetLocked(c)
		}
		close(f.done)
	})
}

// run brings what ref names here.
func (s *Space) run(ctx context.Context, ref plane.Ref) (plane.Ref, error) {
	const op = "plane.open"
	what := fmt.Sprintf("key %q of node %q", ref.Key, ref.Node)
	body, err := ranged.Open(ctx, ranged.Source{
		Op: op, What: "fetch " + what, Silence: silence, Patience: patience,
		Ask: func() (*http.Client, string, error) {
			client, base, err := s.Peer(ref.Node)
			if fault.KindOf(err) == fault.NotFound { // the node, not what it has
				err = fault.New(op, fault.Unavailable, "fetch %s: %w", what, err)
			}
			return client, base + pathOf(ref), err
		},
	}, 0, -1)
	if err != nil {
		return plane.Ref{}, err
	}
	defer func() { _ = body.Close() }()
	if body.Size() != ref.Bytes {
		return plane.Ref{}, fault.New(op, fault.Corrupt, "%s has %d bytes, its ref says %d", what, body.Size(), ref.Bytes)
	}
	draft, err := s.Create(plane.CopyKey(ref), ref.Bytes)
	if err != nil {
		return plane.Ref{}, err
	}
	defer func() { _ = draft.Abort() }()
	through := s.windows.get()
	defer s.windows.put(through)
	if err := receive(draft, body, (*through)[:min(window, ref.Bytes)]); err != nil {
		return plane.Ref{}, err
	}
	local, err := draft.Seal()
	if err != nil {
		return plane.Ref{}, err
	}
	if ref.Digest != 0 && local.Digest != ref.Digest {
		_ = s.Local.Remove(local.Key)
		return plane.Ref{}, fault.New(op, fault.Corrupt, "%s is damaged: its xxhash64 is %016x, its ref says %016x", what, local.Digest, ref.Digest)
	}
	return local, nil
}

// receive copies in whole windows: TLS gives but 16 KiB at a time.
func receive(w io.Writer, r io.Reader, window []byte) error {
	for {
		n, err := io.ReadFull(r, window)
		if _, e := w.Write(window[:n]); e != nil {
			return e
		}
		switch {
		case len(window) == 0, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil // how much it was, Seal finds out
		case err != nil:
			return err
		}
	}
}
