// Package model is the catalog of trained models: a safetensors file and its
// card each, in the store under
//
//	models/<job>.<incarnation>.safetensors, models/<job>.<incarnation>.json
//
// Both are written once, the card last. A model without a card is not there;
// of several incarnations of a job only the highest with a card is.
package model

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
)

const (
	folder     = "models/"
	weightsExt = ".safetensors"
	cardExt    = ".json"
	maxCard    = 1 << 20 // bytes
)

// Catalog gives access to the models of a store. It is safe for concurrent
// use, beside other processes too.
type Catalog struct{ store store.Store }

// New returns the catalog of a store, which stays the caller's to close.
func New(s store.Store) *Catalog { return &Catalog{store: s} }

// Model is a model in the store.
type Model struct {
	Card
	Key string // of the safetensors file in the store
	URL string // of the same
}

// Open finds the model of a job: that of the highest incarnation with a card.
// NotFound; Invalid: the id; Corrupt: a broken card, a file that is missing or
// of another length.
func (c *Catalog) Open(ctx context.Context, id string) (Model, error) {
	const op = "model.open"
	saved, err := c.saved(ctx, op, id)
	if err != nil {
		return Model{}, err
	}
	saved = slices.DeleteFunc(saved, func(s incarnation) bool { return !s.card })
	if len(saved) == 0 {
		return Model{}, fault.New(op, fault.NotFound, "no model %s", id)
	}
	last := saved[len(saved)-1]
	card, err := c.readCard(ctx, id, last.n)
	if err != nil {
		return Model{}, fault.New(op, fault.KindOf(err), "model %s: %w", id, err)
	}
	key := weightsKey(id, last.n)
	if last.bytes != card.Bytes {
		return Model{}, fault.New(op, fault.Corrupt, "model %s: %s has %d bytes, its card says %d", id, key, max(last.bytes, 0), card.Bytes)
	}
	return Model{Card: card, Key: key, URL: c.store.URL(key)}, nil
}

// Read opens the safetensors file of a model from its start. The caller closes
// it, and compares its digest where that matters.
func (c *Catalog) Read(ctx context.Context, m Model) (io.ReadCloser, error) {
	return c.store.Get(ctx, m.Key, 0, -1)
}

// List returns the models of all jobs, in the order of their ids.
func (c *Catalog) List(ctx context.Context) ([]Model, error) {
	const op = "model.list"
	var ids []string
	for o, err := range c.store.List(ctx, folder) {
		if err != nil {
			return nil, fault.New(op, fault.KindOf(err), "list models: %w", err)
		}
		if id, _, ext := parseKey(o.Key); ext == cardExt {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	models := []Model{}
	for _, id := range slices.Compact(ids) {
		m, err := c.Open(ctx, id)
		if fault.KindOf(err) == fault.NotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, fault.New(op, fault.KindOf(err), "list models: %w", err)
		}
		models = append(models, m)
	}
	return models, nil
}

// Delete removes the model of a job, all incarnations of it. NotFound.
func (c *Catalog) Delete(ctx context.Context, id string) error {
	const op = "model.delete"
	saved, err := c.saved(ctx, op, id)
	if err != nil {
		return err
	}
	if len(saved) == 0 {
		return fault.New(op, fault.NotFound, "no model %s", id)
	}
	// The highest goes last, and a card before its file: whatever ends this in
	// the middle, no lower incarnation shows up and no card is left alone.
	for _, s := range saved {
		for _, key := range []string{cardKey(id, s.n), weightsKey(id, s.n)} {
			if err := c.store.Delete(ctx, key); err != nil {
				return fault.New(op, fault.KindOf(err), "delete model %s: %w", id, err)
			}
		}
	}
	return nil
}

// incarnation is what the store has of one incarnation of a job.
type incarnation struct {
	n     uint64
	card  bool
	bytes int64 // of the safetensors file, -1 if it is not there
}

// saved lists what the store has of a job, lowest incarnation first.
func (c *Catalog) saved(ctx context.Context, op, id string) ([]incarnation, error) {
	if err := checkID(op, id); err != nil {
		return nil, err
	}
	found := map[uint64]incarnation{}
	for o, err := range c.store.List(ctx, folder+id+".") {
		if err != nil {
			return nil, fault.New(op, fault.KindOf(err), "model %s: %w", id, err)
		}
		_, n, ext := parseKey(o.Key)
		if ext == "" {
			continue
		}
		s, ok := found[n]
		if !ok {
			s = incarnation{n: n, bytes: -1}
		}
		if ext == cardExt {
			s.card = true
		} else {
			s.bytes = o.Size
		}
		found[n] = s
	}
	byNumber := func(a, b incarnation) int { return cmp.Compare(a.n, b.n) }
	return slices.SortedFunc(maps.Values(found), byNumber), nil
}

// parseKey takes a key apart; ext is "" for one that is not a model's.
func parseKey(key string) (id string, n uint64, ext string) {
	id, rest, _ := strings.Cut(strings.TrimPrefix(key, folder), ".")
	number, name, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if ext = "." + name; err != nil || ext != cardExt && ext != weightsExt {
		return "", 0, ""
	}
	return id, n, ext
}

func (c *Catalog) readCard(ctx context.Context, id string, incarnation uint64) (Card, error) {
	key := cardKey(id, incarnation)
	b, err := store.Read(ctx, c.store, key, maxCard)
	if err != nil {
		return Card{}, err
	}
	var card Card
	if err := json.Unmarshal(b, &card); err != nil {
		return Card{}, fault.New("model.open", fault.Corrupt, "broken card %s: %w", key, err)
	}
	if card.ID != id || card.Incarnation != incarnation {
		return Card{}, fault.New("model.open", fault.Corrupt, "card %s is that of %q, incarnation %d", key, card.ID, card.Incarnation)
	}
	return card, nil
}

func weightsKey(id string, n uint64) string {
	return fmt.Sprintf("%s%s.%d%s", folder, id, n, weightsExt)
}

func cardKey(id string, n uint64) string { return fmt.Sprintf("%s%s.%d%s", folder, id, n, cardExt) }
