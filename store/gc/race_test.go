package gc_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/cache"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
	"github.com/troupe-ml/troupe/store/gc"
	"github.com/troupe-ml/troupe/store/job"
)

// meddler is a store that does something before one of its operations, counted
// from 1, Delete left out: between its last look and a Delete a collector is
// blind.
type meddler struct {
	store.Store
	at     int
	meddle func()
}

func (m *meddler) step() {
	if m.at--; m.at == 0 {
		m.meddle()
	}
}

func (m *meddler) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	m.step()
	return m.Store.Get(ctx, key, offset, length)
}

func (m *meddler) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	m.step()
	return m.Store.Put(ctx, key, write)
}

func (m *meddler) PutIfAbsent(ctx context.Context, key string, write func(io.Writer) error) error {
	m.step()
	return m.Store.PutIfAbsent(ctx, key, write)
}

func (m *meddler) List(ctx context.Context, prefix string) iter.Seq2[store.Object, error] {
	m.step()
	return m.Store.List(ctx, prefix)
}

func (m *meddler) Stat(ctx context.Context, key string) (store.Object, error) {
	m.step()
	return m.Store.Stat(ctx, key)
}

// eachStep runs test with 1, 2, ... until the meddler's turn does not come.
func eachStep(t *testing.T, test func(p *place, m *meddler)) {
	for at := 1; ; at++ {
		mem := store.NewMem()
		m := &meddler{Store: mem, at: at}
		test(newPlace(t, mem), m)
		require.NoError(t, mem.Close())
		if m.at > 0 {
			require.Greater(t, at, 10)
			return
		}
	}
}

// Whenever somebody takes an ended job over, what it finds then stays; and of
// the two, taking it over and collecting it, one happens.
func TestResumingInTheMiddleOfACollection(t *testing.T) {
	outcomes := map[string]int{}
	eachStep(t, func(p *place, m *meddler) {
		at := m.at
		m.at = 0 // not yet
		resumer := p.jobs
		p.jobs = job.New(m)
		p.deps.Store, p.deps.Jobs = m, p.jobs
		p.ended("a")
		seen, err := resumer.Look(t.Context(), "a")
		require.NoError(t, err)
		var outcome error
		m.at, m.meddle = at, func() {
			if _, _, outcome = resumer.Claim(t.Context(), "a", me, seen); outcome == nil {
				_, outcome = resumer.Load(t.Context(), "a")
			}
		}
		done, err := gc.Collect(t.Context(), p.deps, after(2*month))
		require.NoError(t, err)
		if m.at > 0 { // nobody came
			require.Len(t, done.Items, 2)
			return
		}
		outcomes[fault.KindOf(outcome).String()]++
		_, err = resumer.Load(t.Context(), "a")
		if outcome == nil {
			require.NoError(t, err, "what it found stays")
			require.Empty(t, done.Items)
		} else {
			requireKind(t, fault.Conflict, outcome)
			require.Len(t, done.Items, 2)
		}
	})
	require.Greater(t, outcomes[fault.Unknown.String()], 10, "resumed: %v", outcomes)
	require.Greater(t, outcomes[fault.Conflict.String()], 3, "refused: %v", outcomes)
}

// reimport makes version 1 the latest again, which must then be whole.
func reimport(t *testing.T, s store.Store) (check func(s store.Store)) {
	dir := t.TempDir()
	program, table := filepath.Join(dir, "prog.py"), filepath.Join(dir, "table.csv")
	require.NoError(t, os.WriteFile(program, []byte("# 1"), 0o600))
	require.NoError(t, os.WriteFile(table, []byte("a,b\n1,1\n2,0\n3,1\n"), 0o600))
	f, err := function.New(s).ImportAs(t.Context(), "prog", function.Source{Path: program})
	require.NoError(t, err)
	d, err := dataset.New(s).Open(t.Context(), table, dataset.Options{})
	require.NoError(t, err)
	return func(s store.Store) {
		_, err := function.New(s).Materialise(t.Context(), f.Name, f.Version, t.TempDir())
		require.NoError(t, err)
		_, err = dataset.New(s).Materialise(t.Context(), d.Name, d.Digest, cache.New(s, t.TempDir(), 0))
		require.NoError(t, err)
	}
}

// Whenever a version is imported again, it is whole afterwards.
func TestImportingInTheMiddleOfACollection(t *testing.T) {
	eachStep(t, func(p *place, m *meddler) {
		p.imports("1", "2")
		var check func(store.Store)
		m.meddle = func() { check = reimport(t, p.store) }
		deps := p.deps
		deps.Store, deps.Jobs = m, job.New(m)
		_, err := gc.Collect(t.Context(), deps, after(2*month))
		require.NoError(t, err)
		if check != nil {
			check(p.store)
		}
	})
}

// Whenever a collector comes in the middle of an import, what is imported is
// whole afterwards.
func TestCollectingInTheMiddleOfAnImport(t *testing.T) {
	removed := 0
	eachStep(t, func(p *place, m *meddler) {
		p.imports("1", "2")
		m.meddle = func() {
			done, err := gc.Collect(t.Context(), p.deps, after(2*month))
			require.NoError(t, err)
			removed += len(done.Items)
		}
		reimport(t, m)(p.store)
	})
	require.Greater(t, removed, 20, fmt.Sprint(removed))
}
