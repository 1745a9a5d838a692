package store

import (
	"context"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Replaceable is what a Store also is if another can take its place while it is
// open, with other contents: a folder that is moved away and restored from a
// copy.
type Replaceable interface {
	// Pin returns a context under which the store works in one place alone: once
	// another has taken it, whatever is asked under that context is Unavailable.
	// A context that is pinned already stays so. life tells places apart. Where
	// there is no store yet nothing is pinned and life is 0.
	Pin(ctx context.Context) (pinned context.Context, life uint64, err error)
}

// Pin is for those who remember what s has: when life is not what it was, they
// look again; and what belongs together they write under one pinned context. Of
// a store whose place nobody can take, life is 0.
func Pin(ctx context.Context, s Store) (pinned context.Context, life uint64, err error) {
	if r, ok := s.(Replaceable); ok {
		return r.Pin(ctx)
	}
	return ctx, 0, nil
}

type pinKey struct{}

// pin is what a context says of a File.
type pin struct {
	file *File
	life uint64
}

// Pin implements Replaceable.
func (f *File) Pin(ctx context.Context) (context.Context, uint64, error) {
	root, err := f.openRoot(ctx, "store.pin", "")
	if fault.KindOf(err) == fault.NotFound {
		return ctx, 0, nil
	}
	if err != nil {
		return ctx, 0, err
	}
	if pinned, ok := ctx.Value(pinKey{}).(pin); ok && pinned.file == f {
		return ctx, pinned.life, nil
	}
	f.mu.Lock()
	life, same := f.life, f.open != nil && f.open.root == root
	f.mu.Unlock()
	if !same {
		return f.Pin(ctx)
	}
	return context.WithValue(ctx, pinKey{}, pin{f, life}), life, nil
}
