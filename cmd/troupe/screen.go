package main

import (
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/troupe-ml/troupe/internal/fault"
)

// screen is where everything for people goes, one writer at a time. While a
// live bar is shown, what is written appears above it.
type screen struct {
	under io.Writer

	mu   sync.Mutex
	over io.Writer // guarded by mu; nil without a bar
}

func newScreen(w io.Writer) *screen { return &screen{under: w} }

// Write never fails: a job goes on when nobody can see it.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		if _, err := s.over.Write(b); err == nil {
			return len(b), nil
		}
	}
	_, _ = s.under.Write(b)
	return len(b), nil
}

// cover sends what is written to w from now on, and back to the screen itself
// for nil.
func (s *screen) cover(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = w
}

// home brings the cursor back to where a live bar left it, at the start of a
// line: a terminal that has echoed ^C has moved it.
func (s *screen) home() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		_, _ = io.WriteString(s.under, "\r")
	}
}

// output is where results go. A reader that has had enough (head, say) is no
// error; that a result cannot be written is fault.Unavailable, which is kept for
// whoever writes by something that does not look.
type output struct {
	under  io.Writer
	failed error // the first; nil: none
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.under.Write(b)
	switch {
	case errors.Is(err, syscall.EPIPE):
		return len(b), nil
	case err != nil:
		err = fault.New("troupe.write", fault.Unavailable, "cannot write to standard output: %w", err)
		if o.failed == nil {
			o.failed = err
		}
		return n, err
	}
	return n, nil
}
