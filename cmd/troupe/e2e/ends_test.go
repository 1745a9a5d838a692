package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Jobs that end early have SUCCEEDED, with the epochs they did, and say why.
func TestE2EEndsOfTraining(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	job := func(flags ...string) (result, string) {
		e := h.troupe(t, append([]string{"run", "mlp", "-d", "digits", "-b", "16", "-p", "2", "--static", "--lr", "0.1", "-o", "json"}, flags...)...)
		require.Zero(t, e.code, e.err)
		return parse(t, e.out), e.err
	}
	full, _ := job("-e", "12")
	require.Len(t, full.Epochs, 12)

	goal, said := job("-e", "12", "--goal-accuracy", "90")
	require.Less(t, len(goal.Epochs), 12)
	require.GreaterOrEqual(t, goal.Accuracy, 90.0)
	require.Contains(t, said, "training ends early: epoch")
	require.Contains(t, said, "the goal is 90 %")
	for i, e := range goal.Epochs {
		require.Equal(t, full.Epochs[i].Accuracy, e.Accuracy, "until then the job is the same")
	}

	best, _ := job("-e", "12", "--keep", "best")
	top := 0.0
	for _, e := range best.Epochs {
		top = max(top, *e.Accuracy)
	}
	require.Equal(t, top, best.Accuracy)

	patient, said := job("-e", "200", "--patience", "3", "--keep", "best")
	require.Less(t, len(patient.Epochs), 200)
	last := len(patient.Epochs)
	require.Equal(t, patient.Accuracy, *patient.Epochs[last-4].Accuracy, "three epochs were no better")
	require.Contains(t, said, "training ends early: no epoch was better than epoch")

	began := time.Now()
	timed, said := job("-e", "1000000", "--max-time", "1s", "--validate-every", "-1")
	require.Less(t, time.Since(began), time.Minute)
	require.Less(t, len(timed.Epochs), 1_000_000)
	require.GreaterOrEqual(t, timed.WallS, 1.0)
	require.Greater(t, timed.Accuracy, 90.0, "the model it ended with was validated")
	require.Contains(t, said, "it may for 1s")

	refused := h.troupe(t, "run", "mlp", "-d", "digits", "--goal-accuracy", "90", "--validate-every", "-1")
	require.Equal(t, 2, refused.code)
	require.Contains(t, refused.err, "goal-accuracy needs validations on the way")
}
