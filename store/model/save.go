package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Save stores what write writes, a safetensors file, as the model of
// incarnation of the job id, with its card, and returns the file's URL. It
// sets the card's ID, Incarnation, Bytes and SHA256. Incarnations count from 1.
//
// Saving the same bytes again returns the same URL and leaves the first card;
// so an interrupted Save is repeated whole. write may be called twice and must
// write the same both times. Conflict: this incarnation has other bytes;
// Invalid: the id; and the store's errors.
func (c *Catalog) Save(ctx context.Context, id string, incarnation uint64, card Card, write func(io.Writer) error) (string, error) {
	const op = "model.save"
	if err := checkID(op, id); err != nil {
		return "", err
	}
	if incarnation == 0 {
		return "", fault.New(op, fault.Invalid, "model %s: incarnation 0, they count from 1", id)
	}
	card.ID, card.Incarnation = id, incarnation
	if _, err := json.Marshal(card); err != nil { // before anything is written
		return "", fault.New(op, fault.Invalid, "model %s: card: %w", id, err)
	}
	key := weightsKey(id, incarnation)
	var err error
	if card.Bytes, card.SHA256, err = c.saveWeights(ctx, key, write); err != nil {
		return "", fault.New(op, fault.KindOf(err), "save model %s: %w", id, err)
	}
	if err := c.saveCard(ctx, card); err != nil {
		return "", fault.New(op, fault.KindOf(err), "save model %s: %w", id, err)
	}
	return c.store.URL(key), nil
}

// saveWeights writes the file, or finds that the same bytes are there.
func (c *Catalog) saveWeights(ctx context.Context, key string, write func(io.Writer) error) (int64, string, error) {
	sum := newSum()
	err := c.store.PutIfAbsent(ctx, key, func(w io.Writer) error {
		sum = newSum()
		return write(io.MultiWriter(w, sum))
	})
	if fault.KindOf(err) != fault.Conflict {
		return sum.n, sum.hex(), err
	}
	sum = newSum()
	if err := write(sum); err != nil {
		return 0, "", err
	}
	r, err := c.store.Get(ctx, key, 0, -1)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = r.Close() }()
	there := newSum()
	if _, err := io.Copy(there, r); err != nil {
		return 0, "", fault.New("model.save", fault.Unavailable, "read %s: %w", key, err)
	}
	if there.hex() != sum.hex() {
		return 0, "", fault.New("model.save", fault.Conflict, "%s holds another model: sha256 %.12s…, not %.12s…", key, there.hex(), sum.hex())
	}
	return sum.n, sum.hex(), nil
}

// saveCard writes the card, or finds that one for the same bytes is there.
func (c *Catalog) saveCard(ctx context.Context, card Card) error {
	b, err := json.MarshalIndent(card, "", "  ")
	if err != nil {
		return fault.New("model.save", fault.Invalid, "card: %w", err)
	}
	err = c.store.PutIfAbsent(ctx, cardKey(card.ID, card.Incarnation), func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
	if fault.KindOf(err) != fault.Conflict {
		return err
	}
	there, err := c.readCard(ctx, card.ID, card.Incarnation)
	if err == nil && there.SHA256 != card.SHA256 {
		err = fault.New("model.save", fault.Conflict, "its card is that of another model: sha256 %.12s…, not %.12s…", there.SHA256, card.SHA256)
	}
	return err
}

// sum counts and digests what is written to it.
type sum struct {
	io.Writer
	n   int64
	hex func() string
}

func newSum() *sum {
	h := sha256.New()
	return &sum{Writer: h, hex: func() string { return hex.EncodeToString(h.Sum(nil)) }}
}

func (s *sum) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	s.n += int64(n)
	return n, err
}
