package store

import (
	"context"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Read returns an object of at most limit bytes; what is longer is cut there.
// Errors are those of Get, and Unavailable where reading fails.
func Read(ctx context.Context, s Store, key string, limit int64) ([]byte, error) {
	object, err := s.Get(ctx, key, 0, limit)
	if err != nil {
		return nil, err
	}
	defer func() { _ = object.Close() }()
	b, err := io.ReadAll(object)
	if err != nil {
		return nil, fault.New("store.read", fault.Unavailable, "read %s: %w", key, err)
	}
	return b, nil
}
