package remote

import (
	"context"
	"crypto/rand"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

// probes is where Shares writes. What lies there means nothing.
const probes = "probes/"

// Shares reports whether own, a store of this node, is the very one that other
// serves: it has its id, and shows what is written there, which a copy of it does
// not. Nothing is left in either, and own is not made where there is none.
// Corrupt: one has an id that cannot be read; Unavailable.
func Shares(ctx context.Context, own, other store.Store) (bool, error) {
	mine, err := store.KnownID(ctx, own)
	if err != nil || mine == "" {
		return false, err
	}
	theirs, err := store.ID(ctx, other)
	if err != nil || mine != theirs {
		return false, err
	}
	key := probes + rand.Text()
	defer func() { _ = other.Delete(context.WithoutCancel(ctx), key) }() // what stays is 0 bytes that nobody reads
	if err := other.Put(ctx, key, func(io.Writer) error { return nil }); err != nil {
		return false, err
	}
	_, err = own.Stat(ctx, key)
	if fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	return err == nil, err
}
