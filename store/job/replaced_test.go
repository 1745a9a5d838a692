package job_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// copyOf copies a store's folder as it is.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// swap puts a copy in the place of a store, which is not lost.
func swap(t *testing.T, dir, copied string) {
	t.Helper()
	require.NoError(t, os.Rename(dir, filepath.Join(t.TempDir(), "old")))
	require.NoError(t, os.Rename(copied, dir))
}

// A store that is restored from a copy of earlier gets everything that a running
// job needs anew, and names nothing that it lacks.
func TestAJobIsSavedAnewInACopy(t *testing.T) {
	for name, c := range map[string]struct {
		at     int    // saves that the copy has; -1: from before the job was there
		lacks  string // files that the copy lacks end so
		before int    // which state is the one before then, 0 for none
	}{
		"as it was":               {at: 3, before: 3},
		"one save behind":         {at: 2, before: 2},
		"from before any save":    {at: 0},
		"from before the job":     {at: -1},
		"without its files":       {at: 3, lacks: ".safetensors"},
		"without its states":      {at: 3, lacks: ".json"},
		"without its newest file": {at: 3, lacks: "model-3.safetensors", before: 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			s := openFile(t, dir)
			_, err := store.ID(t.Context(), s)
			require.NoError(t, err)
			catalog, copied := job.New(s), ""
			keep := func(at int) {
				if at == c.at {
					copied = copyOf(t, dir)
				}
			}
			keep(-1)
			require.NoError(t, catalog.Create(t.Context(), id, json.RawMessage(`{"epochs":3}`)))
			claim, _, err := catalog.Claim(t.Context(), id, me, job.Sighting{})
			require.NoError(t, err)
			for v := range 4 {
				if v > 0 {
					require.NoError(t, save(t.Context(), claim, v))
				}
				keep(v)
			}
			if c.lacks != "" {
				drop(t, copied, c.lacks)
			}
			swap(t, dir, copied)

			require.NoError(t, save(t.Context(), claim, 4))
			other := openStore(t, dir)
			task, err := other.Task(t.Context(), id)
			require.NoError(t, err)
			require.JSONEq(t, `{"epochs":3}`, string(task))
			_, _, err = other.Claim(t.Context(), id, me, job.Sighting{})
			requireKind(t, fault.Conflict, err)
			state, err := other.Load(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, 4, version(state))
			for _, name := range []string{"model-4.safetensors", "optimizer-0-1.safetensors"} {
				readAll(t, other, id, state, name)
			}
			require.NoError(t, os.Truncate(filepath.Join(dir, "jobs", id, "incarnations", "1", "state.json"), 3))
			state, err = other.Load(t.Context(), id) // the state before is whole, or there is none
			if c.before > 0 {
				require.NoError(t, err)
				require.Equal(t, c.before, version(state))
			} else {
				requireKind(t, fault.Corrupt, err)
				require.NotContains(t, err.Error(), "previous.json")
			}
			require.NoError(t, save(t.Context(), claim, 5))
			require.NoError(t, save(t.Context(), claim, 6))
			goesOn(t, other, dir, claim)
		})
	}
}

// goesOn saves twice and requires that nothing else is left.
func goesOn(t *testing.T, c *job.Catalog, dir string, claim *job.Claim) {
	t.Helper()
	for v := 10; v <= 11; v++ {
		require.NoError(t, save(t.Context(), claim, v))
		state, err := c.Load(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, v, version(state))
	}
	left := []string{}
	for _, k := range keys(t, openFile(t, dir), id) {
		if !strings.HasSuffix(k, "/claim") {
			left = append(left, strings.Join(strings.Split(k, "-")[:1], ""))
		}
	}
	n := claim.Incarnation()
	require.Equal(t, []string{
		fmt.Sprintf("%d/lock", n), fmt.Sprintf("%d/model", n), fmt.Sprintf("%d/model", n),
		fmt.Sprintf("%d/optimizer", n), fmt.Sprintf("%d/previous.json", n), fmt.Sprintf("%d/state.json", n),
	}, left)
	require.NoError(t, claim.Release())
}

func drop(t *testing.T, dir, suffix string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "jobs", id, "incarnations", "*", "*"+suffix))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.NoError(t, os.Remove(name))
	}
}

// pinning is a store whose place can be taken.
type pinning struct {
	store.Store
	store.Replaceable
}

// A copy that takes the store's place in the middle of a Save, at whatever point,
// has no state with files that it lacks.
func TestACopyInTheMiddleOfASave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := openFile(t, dir)
	_, err := store.ID(t.Context(), s)
	require.NoError(t, err)
	ops := 0
	for at := 1; ; at++ {
		var copied string
		m := &meddler{Store: s, meddle: func() (before, after error) {
			if ops++; copied != "" && ops == at {
				swap(t, dir, copied)
			}
			return nil, nil
		}}
		catalog, name := job.New(pinning{m, s}), "j"+strings.Repeat("x", at%40)
		require.NoError(t, catalog.Create(t.Context(), name, json.RawMessage(`{}`)))
		claim, _, err := catalog.Claim(t.Context(), name, me, job.Sighting{})
		require.NoError(t, err)
		require.NoError(t, save(t.Context(), claim, 1))
		copied, ops = copyOf(t, dir), 0
		err = save(t.Context(), claim, 2)
		done := ops < at
		copied = ""
		other := openStore(t, dir)
		state, lerr := other.Load(t.Context(), name)
		require.NoError(t, lerr)
		require.Contains(t, []int{1, 2}, version(state))
		if err != nil { // else it was saved before the copy came, which has taken it back
			requireKind(t, fault.Unavailable, err)
			require.Equal(t, 1, version(state))
		}
		require.NoError(t, save(t.Context(), claim, 3))
		state, lerr = other.Load(t.Context(), name)
		require.NoError(t, lerr)
		require.Equal(t, 3, version(state))
		require.NoError(t, claim.Release())
		require.NoError(t, other.Delete(t.Context(), name))
		if done {
			require.GreaterOrEqual(t, at, 8)
			return
		}
	}
}

// A store that is emptied where it is gets nothing until its store.json is back,
// and then all that a running job needs.
func TestAJobIsSavedAnewWhereTheStoreWasEmptied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := openFile(t, dir)
	storeID, err := store.ID(t.Context(), s)
	require.NoError(t, err)
	catalog := job.New(s)
	require.NoError(t, catalog.Create(t.Context(), id, json.RawMessage(`{"epochs":3}`)))
	claim, _, err := catalog.Claim(t.Context(), id, me, job.Sighting{})
	require.NoError(t, err)
	require.NoError(t, save(t.Context(), claim, 1))

	name := filepath.Join(dir, "store.json")
	for _, gone := range []string{filepath.Join(dir, "jobs"), name} {
		require.NoError(t, os.RemoveAll(gone))
	}
	for _, err := range []error{save(t.Context(), claim, 2), claim.Beat(t.Context()), catalog.PutEvents(t.Context(), id, 1, 0, []byte("{}\n"))} {
		requireKind(t, fault.Unavailable, err)
		require.ErrorContains(t, err, "write that to "+name)
	}
	require.NoDirExists(t, filepath.Join(dir, "jobs"))

	require.NoError(t, os.WriteFile(name, []byte(`{"id":"`+storeID+`"}`), 0o600))
	require.NoError(t, save(t.Context(), claim, 2))
	other := openStore(t, dir)
	_, err = other.Task(t.Context(), id)
	require.NoError(t, err)
	_, _, err = other.Claim(t.Context(), id, me, job.Sighting{})
	requireKind(t, fault.Conflict, err)
	goesOn(t, other, dir, claim)
}
