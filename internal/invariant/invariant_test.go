package invariant_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/invariant"
)

// The same test serves both builds: `make test` runs it with the tag and without.
func TestCheckActsOnlyWhenEnabled(t *testing.T) {
	broken := errors.New("done holds function 7 of 4")
	calls := 0
	failing := func() error { calls++; return broken }

	if !invariant.Enabled {
		invariant.Check(failing)
		require.Zero(t, calls, "a disabled check costs nothing")
		return
	}
	defer func() {
		err, ok := recover().(error)
		require.True(t, ok, "supervisors read the kind of an error")
		require.ErrorIs(t, err, broken)
		require.Equal(t, 1, calls)
	}()
	invariant.Check(failing)
	t.Fatal("a broken invariant went by")
}

func TestCheckIsSilentWhileTheInvariantHolds(t *testing.T) {
	require.NotPanics(t, func() { invariant.Check(func() error { return nil }) })
}
