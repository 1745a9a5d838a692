package plane

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Memory is a Space of slices, for simulations: thousands of small keys cost a
// map entry each. It behaves as Scratch does, but has no paths.
type Memory struct {
	node string
	book *book

	mu    sync.RWMutex // guards bytes
	bytes map[string][]byte
}

var _ Space = (*Memory)(nil)

// NewMemory returns an empty space without a limit, whose refs name node.
func NewMemory(node string) *Memory {
	return &Memory{node: node, book: newBook("memory of node "+node, 0), bytes: map[string][]byte{}}
}

// SetLimit makes the space full at limit bytes from now on (0 = never): what a
// simulation calls a full disk. What is held already stays.
func (m *Memory) SetLimit(limit int64) {
	m.book.mu.Lock()
	defer m.book.mu.Unlock()
	m.book.limit = limit
}

// Create implements Space.
func (m *Memory) Create(key string, size int64) (Draft, error) {
	if err := m.book.reserve(key, size); err != nil {
		return nil, err
	}
	return &memoryDraft{space: m, key: key, size: size}, nil
}

// Open implements Space.
func (m *Memory) Open(_ context.Context, ref Ref) (Blob, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.book.find(m.node, ref); err != nil {
		return nil, err
	}
	b := m.bytes[ref.Key]
	if int64(len(b)) != ref.Bytes {
		return nil, lengthError(ref, int64(len(b)))
	}
	return memoryBlob{bytes.NewReader(b)}, nil
}

// Remove implements Space.
func (m *Memory) Remove(keys ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range m.book.remove(keys) {
		delete(m.bytes, key)
	}
	return nil
}

// List implements Space.
func (m *Memory) List(prefix string) []string { return m.book.list(prefix) }

// Usage implements Space.
func (m *Memory) Usage() Usage { return m.book.report() }

// Close implements Space.
func (m *Memory) Close() error {
	m.book.close()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.bytes)
	return nil
}

type memoryDraft struct {
	space *Memory
	key   string
	size  int64
	buf   []byte
	ended bool
}

var _ io.ReaderFrom = (*memoryDraft)(nil)

func (d *memoryDraft) Write(p []byte) (int, error) {
	if d.ended {
		return 0, endedError(d.key)
	}
	if int64(len(p)) > d.size-int64(len(d.buf)) {
		return 0, overflowError(d.key, d.size)
	}
	if d.buf == nil {
		d.buf = make([]byte, 0, d.size)
	}
	d.buf = append(d.buf, p...)
	return len(p), nil
}

func (d *memoryDraft) ReadFrom(r io.Reader) (int64, error) {
	return fill(d, d.size-int64(len(d.buf)), r)
}

func (d *memoryDraft) Path() string { return "" }

func (d *memoryDraft) Seal() (Ref, error) {
	if d.ended {
		return Ref{}, endedError(d.key)
	}
	if int64(len(d.buf)) != d.size {
		_ = d.Abort()
		return Ref{}, shortError(d.key, d.size, int64(len(d.buf)))
	}
	d.ended = true
	m := d.space
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.book.seal(d.key); err != nil {
		return Ref{}, err
	}
	m.bytes[d.key] = d.buf
	return Ref{Node: m.node, Key: d.key, Bytes: d.size, Digest: xxhash.Sum64(d.buf)}, nil
}

func (d *memoryDraft) Abort() error {
	if !d.ended {
		d.ended = true
		d.space.book.abort(d.key)
	}
	return nil
}

// memoryBlob reads a slice; the garbage collector closes it.
type memoryBlob struct{ *bytes.Reader }

func (memoryBlob) Path() string { return "" }
func (memoryBlob) Close() error { return nil }
