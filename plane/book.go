package plane

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-ml/troupe/internal/fault"
)

// book is what both spaces know of their keys: sizes, drafts, the limit.
type book struct {
	place string // for errors: "scratch /dev/shm/troupe-0/x"

	mu     sync.Mutex // guards all below
	limit  int64      // 0 = none
	usage  Usage
	sealed map[string]int64 // key -> bytes
	drafts map[string]int64
	closed bool
}

func newBook(place string, limit int64) *book {
	return &book{place: place, limit: limit, sealed: map[string]int64{}, drafts: map[string]int64{}}
}

// reserve opens a draft of key.
func (b *book) reserve(key string, size int64) error {
	if err := ValidKey(key); err != nil {
		return err
	}
	if size < 0 {
		return fault.New("plane.create", fault.Invalid, "key %q: size %d is negative", key, size)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return b.closedError()
	}
	if _, ok := b.sealed[key]; ok {
		return fault.New("plane.create", fault.Conflict, "key %q is sealed already", key)
	}
	if _, ok := b.drafts[key]; ok {
		return fault.New("plane.create", fault.Conflict, "key %q is being written already", key)
	}
	if b.limit > 0 && size > b.limit-b.usage.Bytes {
		return fault.New("plane.create", fault.Unavailable,
			"%s is full: %d bytes wanted, %d of its limit of %d in use: raise the limit, or run fewer functions at once",
			b.place, size, b.usage.Bytes, b.limit)
	}
	b.drafts[key] = size
	b.usage.Bytes += size
	b.usage.Files++
	b.usage.Peak = max(b.usage.Peak, b.usage.Bytes)
	return nil
}

// seal turns the draft of key into a sealed key.
func (b *book) seal(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	size, ok := b.drafts[key]
	if !ok {
		return b.closedError()
	}
	delete(b.drafts, key)
	b.sealed[key] = size
	return nil
}

// abort forgets the draft of key.
func (b *book) abort(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if size, ok := b.drafts[key]; ok {
		delete(b.drafts, key)
		b.usage.Bytes -= size
		b.usage.Files--
	}
}

// remove forgets those keys that are sealed, and returns them.
func (b *book) remove(keys []string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var gone []string
	for _, key := range keys {
		if size, ok := b.sealed[key]; ok {
			delete(b.sealed, key)
			b.usage.Bytes -= size
			b.usage.Files--
			gone = append(gone, key)
		}
	}
	return gone
}

// find checks that ref names a sealed key of node.
func (b *book) find(node string, ref Ref) error {
	if err := ValidKey(ref.Key); err != nil {
		return err
	}
	if ref.Node != node {
		return fault.New("plane.open", fault.Invalid, "key %q lives on node %q, this is node %q", ref.Key, ref.Node, node)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return b.closedError()
	}
	if _, ok := b.sealed[ref.Key]; !ok {
		return fault.New("plane.open", fault.NotFound, "no key %q in %s", ref.Key, b.place)
	}
	return nil
}

func (b *book) list(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []string
	for key := range maps.Keys(b.sealed) {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func (b *book) report() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usage
}

// close forgets all keys and reports whether it was open.
func (b *book) close() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := !b.closed
	b.closed = true
	b.usage = Usage{Peak: b.usage.Peak}
	clear(b.sealed)
	clear(b.drafts)
	return open
}

func (b *book) closedError() error {
	return fault.New("plane.use", fault.Unavailable, "%s is closed", b.place)
}

// lengthError is what Open returns for bytes of the wrong length.
func lengthError(ref Ref, got int64) error {
	return fault.New("plane.open", fault.Corrupt, "key %q has %d bytes, its ref says %d", ref.Key, got, ref.Bytes)
}

// shortError is what Seal returns for a draft of the wrong length.
func shortError(key string, size, got int64) error {
	return fault.New("plane.seal", fault.Invalid, "key %q: %d bytes written, %d reserved", key, got, size)
}

// overflowError is what Write returns past the reservation.
func overflowError(key string, size int64) error {
	return fault.New("plane.write", fault.Invalid, "key %q: more than the %d bytes reserved", key, size)
}

// endedError is what a draft returns after Seal or Abort.
func endedError(key string) error {
	return fault.New("plane.draft", fault.Conflict, "key %q: its draft has ended", key)
}
