package model_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/model"
)

const id = "01jcx5zq0000000000000000aa"

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func keys(t *testing.T, s store.Store) []string {
	t.Helper()
	keys := []string{}
	for o, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

func card() model.Card {
	accuracy := 96.25
	return model.Card{
		Function: "mlp", Dataset: "digits", DatasetDigest: "0c0d", Epochs: 5, Accuracy: &accuracy, TrainLoss: new(0.125),
		Parallelism: 4, Merge: "average", Seed: 1<<63 + 1, Created: time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC),
	}
}

// drivers runs a test on a store of each kind.
func drivers(t *testing.T, test func(t *testing.T, s store.Store, c *model.Catalog)) {
	t.Run("file", func(t *testing.T) {
		s, err := store.NewFile(filepath.Join(t.TempDir(), "store"))
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		test(t, s, model.New(s))
	})
	t.Run("mem", func(t *testing.T) {
		s := store.NewMem()
		test(t, s, model.New(s))
	})
}

func TestSaveAndOpen(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *model.Catalog) {
		url, err := c.Save(t.Context(), id, 1, card(), text("weights"))
		require.NoError(t, err)
		require.Equal(t, s.URL("models/"+id+".1.safetensors"), url)
		require.Equal(t, []string{"models/" + id + ".1.json", "models/" + id + ".1.safetensors"}, keys(t, s))

		m, err := c.Open(t.Context(), id)
		require.NoError(t, err)
		want := card()
		sum := sha256.Sum256([]byte("weights"))
		want.ID, want.Incarnation, want.Bytes, want.SHA256 = id, 1, 7, hex.EncodeToString(sum[:])
		require.Equal(t, want, m.Card)
		require.Equal(t, url, m.URL)
		r, err := c.Read(t.Context(), m)
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, "weights", string(b))
	})
}

func TestTheCardsNamesAreStable(t *testing.T) {
	s := store.NewMem()
	_, err := model.New(s).Save(t.Context(), "j", 2, card(), text("weights"))
	require.NoError(t, err)
	r, err := s.Get(t.Context(), "models/j.2.json", 0, -1)
	require.NoError(t, err)
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.JSONEq(t, `{"id":"j","incarnation":2,"function":"mlp","dataset":"digits","dataset_digest":"0c0d","epochs":5,
		"accuracy":96.25,"validation_loss":null,"train_loss":0.125,"parallelism":4,"merge":"average","seed":9223372036854775809,
		"bytes":7,"sha256":"9a129038d9a00aed0cf6a7ea059ca50a813449061ab87848cf1a13eafdf33b2c","created":"2026-11-30T01:02:03.000000004Z"}`, string(b))
}

func TestSavingTheSameAgainIsFine(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *model.Catalog) {
		first, err := c.Save(t.Context(), id, 1, card(), text("weights"))
		require.NoError(t, err)
		later := card()
		later.Created = later.Created.Add(time.Hour)
		again, err := c.Save(t.Context(), id, 1, later, text("weights"))
		require.NoError(t, err)
		require.Equal(t, first, again)
		m, err := c.Open(t.Context(), id)
		require.NoError(t, err)
		require.True(t, m.Created.Equal(card().Created), "the first card stays")

		_, err = c.Save(t.Context(), id, 1, card(), text("others"))
		require.Equal(t, fault.Conflict, fault.KindOf(err))
		require.ErrorContains(t, err, "another model")
		require.NoError(t, s.Delete(t.Context(), "models/"+id+".1.safetensors"))
		_, err = c.Save(t.Context(), id, 1, card(), text("others"))
		require.Equal(t, fault.Conflict, fault.KindOf(err), "a card of other bytes")
	})
}

// A save that ended before the card is no model, and a repeat completes it.
func TestAnInterruptedSaveIsCompleted(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *model.Catalog) {
		require.NoError(t, s.Put(t.Context(), "models/"+id+".1.safetensors", text("weights")))
		_, err := c.Open(t.Context(), id)
		require.Equal(t, fault.NotFound, fault.KindOf(err))
		list, err := c.List(t.Context())
		require.NoError(t, err)
		require.Empty(t, list)
		_, err = c.Save(t.Context(), id, 1, card(), text("weights"))
		require.NoError(t, err)
		m, err := c.Open(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 7, m.Bytes)
	})
}

func TestTheHighestIncarnationWithACardCounts(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *model.Catalog) {
		for _, n := range []uint64{2, 10, 9} {
			_, err := c.Save(t.Context(), id, n, card(), text(fmt.Sprint("weights", n)))
			require.NoError(t, err)
		}
		require.NoError(t, s.Put(t.Context(), "models/"+id+".11.safetensors", text("no card yet")))
		_, err := c.Save(t.Context(), id+"b", 1, card(), text("w"))
		require.NoError(t, err)
		require.NoError(t, s.Put(t.Context(), "models/readme.txt", text("a stranger's")))

		m, err := c.Open(t.Context(), id)
		require.NoError(t, err)
		require.EqualValues(t, 10, m.Incarnation)
		list, err := c.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, m, list[0])
		require.Equal(t, id+"b", list[1].ID)

		require.NoError(t, c.Delete(t.Context(), id))
		require.Equal(t, []string{"models/" + id + "b.1.json", "models/" + id + "b.1.safetensors", "models/readme.txt"}, keys(t, s))
		require.Equal(t, fault.NotFound, fault.KindOf(c.Delete(t.Context(), id)))
	})
}

func TestAFailedSaveLeavesNothing(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *model.Catalog) {
		_, err := c.Save(t.Context(), id, 1, card(), func(w io.Writer) error {
			_, _ = io.WriteString(w, "half")
			return fault.New("test", fault.Corrupt, "%w", errors.New("no more"))
		})
		require.Equal(t, fault.Corrupt, fault.KindOf(err))
		bad := card()
		bad.TrainLoss = new(math.NaN())
		_, err = c.Save(t.Context(), id, 1, bad, text("weights"))
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		_, err = c.Save(t.Context(), id, 0, card(), text("weights"))
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		for _, id := range []string{"", "a/b", "..", "a.1", "ü", "a b", id + id + id} {
			_, err = c.Save(t.Context(), id, 1, card(), text("weights"))
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%q", id)
			_, err = c.Open(t.Context(), id)
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%q", id)
			require.Equal(t, fault.Invalid, fault.KindOf(c.Delete(t.Context(), id)), "%q", id)
		}
		require.Empty(t, keys(t, s))
	})
}

func TestWhatIsBrokenIsCorrupt(t *testing.T) {
	drivers(t, func(t *testing.T, s store.Store, c *model.Catalog) {
		weights, cardKey := "models/"+id+".1.safetensors", "models/"+id+".1.json"
		for name, damage := range map[string]func() error{
			"a short file": func() error { return s.Put(t.Context(), weights, text("w")) },
			"no file":      func() error { return s.Delete(t.Context(), weights) },
			"no JSON":      func() error { return s.Put(t.Context(), cardKey, text("{")) },
			"another card": func() error { return s.Put(t.Context(), cardKey, text(`{"id":"x"}`)) },
		} {
			_, err := c.Save(t.Context(), id, 1, card(), text("weights"))
			require.NoError(t, err)
			require.NoError(t, damage())
			_, err = c.Open(t.Context(), id)
			require.Equal(t, fault.Corrupt, fault.KindOf(err), "%s: %v", name, err)
			require.NoError(t, c.Delete(t.Context(), id))
		}
	})
}
