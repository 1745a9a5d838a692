package host_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/plane"
)

// What a function warns of comes with its answer, and with its failure.
func TestWarningsComeAlong(t *testing.T) {
	b := newBench(t, plane.NewMemory("here"))
	var fails error
	b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
		inv.Warn("careful")
		inv.Warn("careful")
		if fails != nil {
			return functions.Answer{}, fails
		}
		return answerOf(inv), functions.WriteDict(inv.ModelOut, model())
	}
	answer, err := b.Execute(t.Context(), b.train(), 0, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"careful"}, answer.GetWarnings())
	fails = fault.New("test", fault.UserCode, "raised")
	_, err = b.Execute(t.Context(), b.train(), 0, nil)
	require.Equal(t, fault.UserCode, fault.KindOf(err))
	require.Equal(t, "raised", err.Error())
	require.Equal(t, []string{"careful"}, host.WarningsOf(err))
}
