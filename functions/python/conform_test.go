package python_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/functionstest"
	"github.com/troupe-ml/troupe/functions/python"
)

func TestPythonConforms(t *testing.T) {
	for mode, c := range map[string]struct{ function, warning string }{
		"workers that are forked":                 {"network", ""},
		"workers that are processes of their own": {"threads", "it starts threads when it is imported"},
	} {
		t.Run(mode, func(t *testing.T) {
			r := open(t, python.Config{Slots: 4}, c.function, "raises")
			functionstest.Run(t, func(*testing.T) functionstest.Subject {
				return functionstest.Subject{Runtime: r, Function: c.function, Raises: "raises", Tolerance: 1e-6}
			})
			warned(t, r, c.warning)
		})
	}
}

// warned checks that there was one warning, or for "" none.
func warned(t *testing.T, r rig, text string) {
	t.Helper()
	if text == "" {
		require.Empty(t, r.warned())
		return
	}
	require.Len(t, r.warned(), 1)
	require.Contains(t, r.warned()[0], text)
}

// Programs that would hang for ever in a fork train, and give the bits that a
// safe one gives. (A third kind is in TestPythonConforms.)
func TestUnsafeProgramsGetFreshProcesses(t *testing.T) {
	safe := open(t, python.Config{}, "network")
	want := bits(t, safe, "network")
	require.NoError(t, safe.Close())
	for program, warning := range map[string]string{
		"setthreads": "it calls torch.set_num_threads(4) when it is imported",
		"computes":   "it starts threads when it is imported",
	} {
		t.Run(program, func(t *testing.T) {
			r := open(t, python.Config{Slots: 2}, program)
			require.Equal(t, want, bits(t, r, program))
			warned(t, r, warning)
		})
	}
}

// bits is what training a function on two threads gives.
func bits(t *testing.T, r rig, function string) []byte {
	t.Helper()
	inv := training(t, r, function)
	var model functions.Buffer
	inv.ModelOut, inv.Threads = &model, 2
	answer, err := r.Run(t.Context(), inv)
	require.NoError(t, err)
	require.Equal(t, map[string]functions.Metric{"train_samples": {Sum: 64 * 16, Weight: 64}}, answer.Metrics)
	return model.Bytes()
}
