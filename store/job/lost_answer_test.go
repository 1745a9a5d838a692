package job_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// forgetful puts what it is given, and says of keys with that end that it did not.
type forgetful struct {
	store.Store
	end string // "": none
}

func (f *forgetful) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	err := f.Store.Put(ctx, key, write)
	if err == nil && f.end != "" && strings.HasSuffix(key, f.end) {
		err = fault.New("store.put", fault.Unavailable, "put %s: the answer was lost", key)
	}
	return err
}

// A state whose write failed may be there nevertheless: the next Save finds out,
// and leaves it whole, whatever becomes of that Save.
func TestAStateThatCameThroughIsNotPruned(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		f := &forgetful{Store: s}
		c := created(t, f)
		claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
		require.NoError(t, err)
		require.NoError(t, save(t.Context(), claim, 1))
		require.NoError(t, save(t.Context(), claim, 2))
		f.end = "/state.json"
		requireKind(t, fault.Unavailable, save(t.Context(), claim, 3))
		f.end = ""
		broken := job.Source{Name: "model-4.safetensors", Bytes: 8, Write: func(io.Writer) error { return errors.New("no room") }}
		require.Error(t, claim.Save(t.Context(), doc(4), []job.Source{broken}))
		state, err := c.Load(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 3, version(state))
		require.Equal(t, content(3), readAll(t, c, id, state, "model-3.safetensors"))
		require.NoError(t, claim.Release())
	})
}
