package sim

import (
	"context"
	"io"
	"iter"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// Strike is what happens to one call of a store.
type Strike int

const (
	Spared  Strike = iota
	Refused        // it does nothing, and says that it cannot
	Unheard        // it does what it is asked, and the answer is lost; a read is cut
)

// Faulty is a store that fails as Strikes says.
type Faulty struct {
	store.Store
	Strikes func() Strike // for each call
}

var _ store.Store = (*Faulty)(nil)

// sound returns a store without its faults.
func sound(s store.Store) store.Store {
	if f, ok := s.(*Faulty); ok {
		return f.Store
	}
	return s
}

func (f *Faulty) strike(key string, do func() error) error {
	away := fault.New("sim.store", fault.Unavailable, "the store is away: %s", key)
	switch f.Strikes() {
	case Refused:
		return away
	case Unheard:
		if err := do(); err != nil {
			return err
		}
		return away
	}
	return do()
}

// Get implements store.Store.
func (f *Faulty) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	strike := f.Strikes()
	if strike == Refused {
		return nil, fault.New("sim.store", fault.Unavailable, "the store is away: %s", key)
	}
	r, err := f.Store.Get(ctx, key, offset, length)
	if err == nil && strike == Unheard {
		r = cutReader{r}
	}
	return r, err
}

// Put implements store.Store.
func (f *Faulty) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	return f.strike(key, func() error { return f.Store.Put(ctx, key, write) })
}

// PutIfAbsent implements store.Store.
func (f *Faulty) PutIfAbsent(ctx context.Context, key string, write func(io.Writer) error) error {
	return f.strike(key, func() error { return f.Store.PutIfAbsent(ctx, key, write) })
}

// List implements store.Store.
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	if f.Strikes() != Spared {
		return func(yield func(store.Object, error) bool) {
			yield(store.Object{}, fault.New("sim.store", fault.Unavailable, "the store is away: %s", prefix))
		}
	}
	return f.Store.List(ctx, prefix)
}

// Folders implements store.Store.
func (f *Faulty) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if f.Strikes() != Spared {
		return func(yield func(string, error) bool) {
			yield("", fault.New("sim.store", fault.Unavailable, "the store is away: %s", prefix))
		}
	}
	return f.Store.Folders(ctx, prefix)
}

// Delete implements store.Store.
func (f *Faulty) Delete(ctx context.Context, key string) error {
	return f.strike(key, func() error { return f.Store.Delete(ctx, key) })
}

// Stat implements store.Store.
func (f *Faulty) Stat(ctx context.Context, key string) (store.Object, error) {
	if f.Strikes() != Spared {
		return store.Object{}, fault.New("sim.store", fault.Unavailable, "the store is away: %s", key)
	}
	return f.Store.Stat(ctx, key)
}

// cutReader gives no more than a byte.
type cutReader struct{ io.ReadCloser }

// Read implements io.Reader.
func (r cutReader) Read(p []byte) (int, error) {
	n := 0
	if len(p) > 0 {
		n, _ = r.ReadCloser.Read(p[:1])
	}
	return n, fault.New("sim.store", fault.Unavailable, "the store went away")
}
