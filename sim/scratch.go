package sim

import (
	"context"
	"strings"

	"github.com/troupe-ml/troupe/plane"
)

// Scratch is the company's tensor plane, with an account of what each job has
// in it. SetLimit makes it full.
type Scratch struct {
	*plane.Memory
	node string
	keys map[string]bool
	held map[string]*Held // by job
	far  func(context.Context, plane.Ref) (plane.Blob, error)
}

// Held counts what a job has in scratch, what is being written included.
type Held struct {
	Answers    int // models that functions gave back in a round
	Optimizers int // states, of functions and merged ones
	Residuals  int // what encoded answers lack
	Sums       int // of answers, of either
	First      int // models that an init gave back
	Merged     int // reference models
	Momentum   int // states of the outer optimizer
}

var _ plane.Space = (*Scratch)(nil)

// newScratch returns the plane of a node, where far opens what others hold.
func newScratch(node string, far func(context.Context, plane.Ref) (plane.Blob, error)) *Scratch {
	return &Scratch{node: node, far: far, Memory: plane.NewMemory(node), keys: map[string]bool{}, held: map[string]*Held{}}
}

// Held returns what a job has now.
func (s *Scratch) Held(job string) Held {
	if h := s.held[job]; h != nil {
		return *h
	}
	return Held{}
}

// Open implements plane.Space.
func (s *Scratch) Open(ctx context.Context, ref plane.Ref) (plane.Blob, error) {
	if ref.Node != s.node {
		return s.far(ctx, ref)
	}
	return s.Memory.Open(ctx, ref)
}

// Create implements plane.Space.
func (s *Scratch) Create(key string, size int64) (plane.Draft, error) {
	draft, err := s.Memory.Create(key, size)
	if err != nil {
		return nil, err
	}
	s.keys[key] = true
	*s.account(key)++
	return &scratchDraft{Draft: draft, scratch: s, key: key}, nil
}

// Remove implements plane.Space.
func (s *Scratch) Remove(keys ...string) error {
	for _, key := range keys {
		s.gone(key)
	}
	return s.Memory.Remove(keys...)
}

func (s *Scratch) gone(key string) {
	if s.keys[key] {
		delete(s.keys, key)
		*s.account(key)--
	}
}

// account returns what counts a key; see the keys of hosts and jobs.
func (s *Scratch) account(key string) *int {
	job, rest, _ := strings.Cut(key, "/")
	h := s.held[job]
	if h == nil {
		h = &Held{}
		s.held[job] = h
	}
	_, rest, _ = strings.Cut(rest, "/")
	switch {
	case strings.Contains(rest, "/sum-"):
		return &h.Sums
	case strings.Contains(rest, "optimizer"):
		return &h.Optimizers
	case strings.Contains(rest, "residual"):
		return &h.Residuals
	case strings.Contains(rest, "momentum"):
		return &h.Momentum
	case strings.HasPrefix(rest, "merged/answer-"): // of a node that leaves
		return &h.Answers
	case strings.HasPrefix(rest, "merged/"):
		return &h.Merged
	case strings.HasPrefix(rest, "0-0-"): // epoch and round of an init
		return &h.First
	}
	return &h.Answers
}

type scratchDraft struct {
	plane.Draft
	scratch *Scratch
	key     string
	sealed  bool
}

// Seal implements plane.Draft.
func (d *scratchDraft) Seal() (plane.Ref, error) {
	ref, err := d.Draft.Seal()
	if err != nil {
		d.scratch.gone(d.key)
	}
	d.sealed = err == nil
	return ref, err
}

// Abort implements plane.Draft.
func (d *scratchDraft) Abort() error {
	if !d.sealed {
		d.scratch.gone(d.key)
	}
	return d.Draft.Abort()
}
