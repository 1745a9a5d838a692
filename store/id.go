package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

const (
	idKey = "store.json"
	maxID = 4 << 10 // bytes
)

// identity is what store.json says.
type identity struct {
	ID string `json:"id"`
}

// ID returns what tells a store from every other, whatever URL it is reached
// by. The first who asks makes it, and all others, in other processes too, get
// the same. Corrupt: store.json is damaged; Unavailable.
func ID(ctx context.Context, s Store) (string, error) {
	const op = "store.id"
	id, err := readID(ctx, s)
	if fault.KindOf(err) != fault.NotFound {
		return id, err
	}
	err = s.PutIfAbsent(ctx, idKey, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(identity{ID: rand.Text()})
	})
	if err != nil && fault.KindOf(err) != fault.Conflict {
		return "", fault.New(op, fault.KindOf(err), "name the store: %w", err)
	}
	return readID(ctx, s)
}

// KnownID is ID, but for a store that has none it makes none, and returns "".
func KnownID(ctx context.Context, s Store) (string, error) {
	id, err := readID(ctx, s)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	return id, err
}

func readID(ctx context.Context, s Store) (string, error) {
	const op = "store.id"
	r, err := s.Get(ctx, idKey, 0, maxID)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(r)
	if err != nil {
		return "", fault.New(op, fault.Unavailable, "read %s: %w", s.URL(idKey), err)
	}
	id := parseID(b)
	if id == "" {
		return "", fault.New(op, fault.Corrupt, "%s is damaged: restore it from a backup; removing it gives the store another id", s.URL(idKey))
	}
	return id, nil
}

// parseID reads store.json: "" if it is damaged.
func parseID(b []byte) string {
	var doc identity
	if json.Unmarshal(b, &doc) != nil {
		return ""
	}
	return doc.ID
}
