package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
)

func TestKindOfOutermostErrorWins(t *testing.T) {
	inner := fault.New("store.get", fault.NotFound, "no key %q: %w", "a", io.EOF)
	outer := fault.New("model.open", fault.Corrupt, "open model: %w", inner)
	require.Equal(t, fault.Corrupt, fault.KindOf(fmt.Errorf("run: %w", outer)))
	require.Equal(t, fault.NotFound, fault.KindOf(inner))
	require.ErrorIs(t, outer, io.EOF)
	require.Equal(t, `open model: no key "a": EOF`, outer.Error())
}

func TestErrorsWithoutAKindAreUnknown(t *testing.T) {
	require.Equal(t, fault.Unknown, fault.KindOf(nil))
	require.Equal(t, fault.Unknown, fault.KindOf(errors.New("x")))
}

func TestTraceIsFoundThroughWrapping(t *testing.T) {
	e := fault.New("native.train", fault.UserCode, "boom")
	e.Trace = "main.go:1"
	require.Equal(t, "main.go:1", fault.TraceOf(fault.New("host.run", fault.UserCode, "function 2: %w", e)))
	require.Empty(t, fault.TraceOf(io.EOF))
}

func TestEveryKindHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range fault.Kinds() {
		require.NotContains(t, k.String(), "kind(")
		require.False(t, seen[k.String()])
		seen[k.String()] = true
	}
}
