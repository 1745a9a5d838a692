package remote

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
)

// Config is what a Space is made of. Local and Peer are required.
type Config struct {
	Local plane.Space // what this node has, and the copies; the Space's to close
	Node  string      // whose refs Local opens
	// Peer says how the Handler of another node is reached now. NotFound: there is
	// no such node, which ends what is fetched from it.
	Peer func(node string) (client *http.Client, baseURL string, err error)
	// Idle is how many bytes of copies are kept that nobody reads. They also make
	// room for whatever else is wanted.
	Idle int64
}

// Space is a plane.Space that opens refs of other nodes.
type Space struct {
	Config
	running sync.WaitGroup // of fetches
	windows windows

	mu     sync.Mutex // guards what follows, and what is in copies
	copies map[plane.Ref]*copied
	byKey  map[string]*copied // by plane.CopyKey
	clock  uint64             // counts uses
	closed bool
}

var _ plane.Space = (*Space)(nil)

// copied is a copy, or one that is being fetched.
type copied struct {
	ref     plane.Ref // of the original
	local   plane.Ref // of the copy
	readers int       // who have it open, or wait for it
	used    uint64    // when it was last wanted
	fetch   *fetch    // nil: it is here
}

// New returns a Space.
func New(c Config) *Space {
	return &Space{Config: c, copies: map[plane.Ref]*copied{}, byKey: map[string]*copied{}}
}

// Create implements plane.Space. Copies that nobody reads make room.
func (s *Space) Create(key string, size int64) (plane.Draft, error) {
	for {
		draft, err := s.Local.Create(key, size)
		if fault.KindOf(err) != fault.Unavailable || !s.evict() {
			return draft, err
		}
	}
}

// Open implements plane.Space. What another node has is fetched unless it is here,
// and checked against its digest: Corrupt names the node. NotFound: that node does
// not have it any more; Unavailable: it is not reached, or ctx ended. A fetch ends
// when nobody waits for it any more.
func (s *Space) Open(ctx context.Context, ref plane.Ref) (plane.Blob, error) {
	if err := plane.ValidKey(ref.Key); err != nil {
		return nil, err
	}
	if ref.Node == s.Node {
		return s.Local.Open(ctx, ref)
	}
	for {
		c, err := s.want(ctx, ref)
		if err != nil {
			return nil, err
		}
		blob, err := s.Local.Open(ctx, c.local)
		if err == nil {
			return &copyBlob{Blob: blob, release: sync.OnceFunc(func() { s.release(c) })}, nil
		}
		s.release(c)
		if fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		s.forget(c) // it was removed meanwhile, in whatever way
	}
}

// copyBlob is a copy that stays while it is open.
type copyBlob struct {
	plane.Blob
	release func()
}

func (b *copyBlob) Close() error {
	defer b.release()
	return b.Blob.Close()
}

// Remove implements plane.Space: of copies too, by their own keys.
func (s *Space) Remove(keys ...string) error {
	s.mu.Lock()
	var going []*copied
	for _, key := range keys {
		if c := s.byKey[key]; c != nil && c.fetch == nil {
			going = append(going, c)
			c.fetch = newRemoval()
		}
	}
	s.mu.Unlock()
	defer s.gone(going)
	return s.Local.Remove(keys...)
}

// newRemoval is in the place of a copy's fetch while it is being removed: whoever
// wants it waits, and fetches it anew.
func newRemoval() *fetch {
	return &fetch{cancel: func(error) {}, ending: true, done: make(chan struct{}), err: context.Canceled}
}

func (s *Space) gone(removed []*copied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range removed {
		s.forgetLocked(c)
		close(c.fetch.done)
	}
}

// List implements plane.Space. Copies are among the keys: see plane.Original.
func (s *Space) List(prefix string) []string { return s.Local.List(prefix) }

// Usage implements plane.Space.
func (s *Space) Usage() plane.Usage { return s.Local.Usage() }

// Close implements plane.Space. It returns when nothing is fetched any more.
func (s *Space) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cut(func(*copied) bool { return true }, fault.New("plane.open", fault.Unavailable, "the plane is closed"))
	s.running.Wait()
	return s.Local.Close()
}

// Gone ends what is fetched from a node that is not there any more. What was
// fetched stays: it never changes.
func (s *Space) Gone(node string) {
	s.cut(func(c *copied) bool { return c.ref.Node == node }, fault.New("plane.open", fault.Unavailable, "node %q is gone", node))
}

// release lets go of a copy that its caller wanted.
func (s *Space) release(c *copied) {
	s.mu.Lock()
	c.readers--
	s.mu.Unlock()
	s.trim()
}

// trim removes the copies that are too many, the one first that was not used for
// longest.
func (s *Space) trim() {
	for {
		s.mu.Lock()
		idle := int64(0)
		for _, c := range s.copies {
			if c.isIdle() {
				idle += c.ref.Bytes
			}
		}
		s.mu.Unlock()
		if idle <= s.Idle || !s.evict() {
			return
		}
	}
}

func (c *copied) isIdle() bool { return c.readers == 0 && c.fetch == nil }

// evict removes the idle copy that was not used for longest, if there is one.
func (s *Space) evict() bool {
	s.mu.Lock()
	var oldest *copied
	for _, c := range s.copies {
		if c.isIdle() && (oldest == nil || cmp.Less(c.used, oldest.used)) {
			oldest = c
		}
	}
	if oldest != nil {
		oldest.fetch = newRemoval()
	}
	s.mu.Unlock()
	if oldest == nil {
		return false
	}
	_ = s.Local.Remove(oldest.local.Key) // what stays goes with the space
	s.gone([]*copied{oldest})
	return true
}

func (s *Space) forget(c *copied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(c)
}

func (s *Space) forgetLocked(c *copied) {
	if s.copies[c.ref] == c {
		delete(s.copies, c.ref)
		delete(s.byKey, plane.CopyKey(c.ref))
	}
}
