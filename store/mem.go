package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Mem is a bucket in the memory of this process, for tests and simulations. It
// is a Store.
type Mem struct {
	bucket *blob.Bucket

	mu      sync.Mutex
	keys    map[string]bool // the objects that are there
	folders map[string]int  // objects below each folder
}

var _ Store = (*Mem)(nil)

// NewMem returns an empty bucket.
func NewMem() *Mem {
	return &Mem{
		bucket:  memblob.OpenBucket(&memblob.Options{NoMD5: true}),
		keys:    map[string]bool{},
		folders: map[string]int{},
	}
}

// Get implements Store.
func (m *Mem) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := checkRange(key, offset, length); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, memFault(ctx, "store.get", key, err)
	}
	r, err := m.bucket.NewRangeReader(ctx, key, offset, length, nil)
	if err != nil {
		return nil, memFault(ctx, "store.get", key, err)
	}
	if err := checkOffset(key, offset, r.Size()); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Stat implements Store.
func (m *Mem) Stat(ctx context.Context, key string) (Object, error) {
	if err := CheckKey(key); err != nil {
		return Object{}, err
	}
	if err := ctx.Err(); err != nil {
		return Object{}, memFault(ctx, "store.stat", key, err)
	}
	a, err := m.bucket.Attributes(ctx, key)
	if err != nil {
		return Object{}, memFault(ctx, "store.stat", key, err)
	}
	return memObject(key, a.Size, a.ModTime), nil
}

func memObject(key string, size int64, changed time.Time) Object {
	return Object{Key: key, Size: size, ModTime: changed, Version: uint64(changed.UnixNano())}
}

// Put implements Store.
func (m *Mem) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	return m.put(ctx, "store.put", key, write, &blob.WriterOptions{})
}

// PutIfAbsent implements Store.
func (m *Mem) PutIfAbsent(ctx context.Context, key string, write func(io.Writer) error) error {
	return m.put(ctx, "store.put_if_absent", key, write, &blob.WriterOptions{IfNotExist: true})
}

func (m *Mem) put(ctx context.Context, op, key string, write func(io.Writer) error, opts *blob.WriterOptions) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opts.ContentType = "application/octet-stream" // else the library looks into the bytes
	w, err := m.bucket.NewWriter(ctx, key, opts)
	if err != nil {
		return memFault(ctx, op, key, err)
	}
	committed := false
	defer func() { // also when write panics
		if !committed {
			cancel() // Close of a writer whose context has ended drops it
			_ = w.Close()
		}
	}()
	cw := &memWriter{ctx: ctx, w: w}
	if err := write(cw); err != nil {
		return fmt.Errorf("write %q: %w", key, err)
	}
	if cw.err != nil { // write ignored it
		return fmt.Errorf("write %q: %w", key, cw.err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		return fault.New(op, fault.Unavailable, "the store mem:// is closed")
	}
	if m.clashesLocked(key) {
		return fault.New(op, fault.Conflict, "object %q in mem://: an object cannot be the folder of another", key)
	}
	committed = true
	if err := w.Close(); gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return fault.New(op, fault.Conflict, "object %q exists in mem://", key)
	} else if err != nil {
		return memFault(ctx, op, key, err)
	}
	m.countLocked(key, true)
	return nil
}

// memWriter stops when its context ends, and remembers its first error.
type memWriter struct {
	ctx context.Context
	w   io.Writer
	err error
}

func (w *memWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if err := w.ctx.Err(); err != nil {
		w.err = fault.New("store.put", fault.Unavailable, "stopped: %w", err)
		return 0, w.err
	}
	n, err := w.w.Write(p)
	w.err = err
	return n, err
}

// Delete implements Store.
func (m *Mem) Delete(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.bucket.Delete(ctx, key); gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	} else if err != nil {
		return memFault(ctx, "store.delete", key, err)
	}
	m.countLocked(key, false)
	return nil
}

// List implements Store.
func (m *Mem) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := checkPrefix(prefix); err != nil {
			yield(Object{}, err)
			return
		}
		objects := m.bucket.List(&blob.ListOptions{Prefix: prefix})
		for {
			o, err := objects.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Object{}, memFault(ctx, "store.list", prefix, err))
				return
			}
			if !yield(memObject(o.Key, o.Size, o.ModTime), nil) {
				return
			}
		}
	}
}

// Folders implements Store.
func (m *Mem) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := checkFolder(prefix); err != nil {
			yield("", err)
			return
		}
		objects := m.bucket.List(&blob.ListOptions{Prefix: prefix, Delimiter: "/"})
		for {
			o, err := objects.Next(ctx)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield("", memFault(ctx, "store.folders", prefix, err))
				return
			}
			if o.IsDir && !yield(strings.TrimSuffix(o.Key[len(prefix):], "/"), nil) {
				return
			}
		}
	}
}

// URL implements Store: mem:///key.
func (m *Mem) URL(key string) string { return "mem:///" + key }

// Close implements Store. The objects are gone with it.
func (m *Mem) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		return nil
	}
	m.keys, m.folders = nil, nil
	if err := m.bucket.Close(); err != nil {
		return fault.New("store.close", fault.Unavailable, "close mem://: %w", err)
	}
	return nil
}

// clashesLocked reports whether key is the folder of an object, or below one.
func (m *Mem) clashesLocked(key string) bool {
	if m.folders[key] > 0 {
		return true
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if m.keys[dir] {
			return true
		}
	}
	return false
}

// countLocked keeps keys and folders in step with the bucket.
func (m *Mem) countLocked(key string, there bool) {
	if m.keys == nil || m.keys[key] == there {
		return
	}
	step := 1
	if there {
		m.keys[key] = true
	} else {
		delete(m.keys, key)
		step = -1
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if m.folders[dir] += step; m.folders[dir] == 0 {
			delete(m.folders, dir)
		}
	}
}

// memFault gives an error of the library its kind.
func memFault(ctx context.Context, op, key string, err error) error {
	switch code := gcerrors.Code(err); {
	case ctx.Err() != nil:
		return fault.New(op, fault.Unavailable, "%q in mem://: %w", key, ctx.Err())
	case code == gcerrors.NotFound:
		return fault.New(op, fault.NotFound, "no object %q in mem://", key)
	default:
		return fault.New(op, fault.Unavailable, "%q in mem://: %w", key, err)
	}
}
