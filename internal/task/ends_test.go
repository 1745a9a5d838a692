package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// What nothing but a validation can bring about is refused where there is
// nothing to validate on.
func TestEndsNeedTestSamples(t *testing.T) {
	for flag, o := range map[string]*messages.TrainOptions{
		"goal-accuracy": {GoalAccuracy: 90}, "patience": {Patience: 2}, "keep best": {Keep: "best"},
	} {
		asked := sound()
		asked.Options = o
		resolved, err := task.Resolve(asked)
		require.NoError(t, err, flag)
		err = task.CheckData(resolved)
		require.ErrorContains(t, err, flag+` needs validations, and data set "digits" has no test samples: give it some, or leave the flag out`)
		require.Equal(t, fault.Invalid, fault.KindOf(err))
		resolved.TestSamples = 1
		require.NoError(t, task.CheckData(resolved))
	}
	require.NoError(t, task.CheckData(sound()))
	limited := sound()
	limited.Options.MaxTimeMs, limited.Options.ValidateEvery = 1, -1
	resolved, err := task.Resolve(limited)
	require.NoError(t, err)
	require.NoError(t, task.CheckData(resolved), "time passes whether or not anything is validated")
}
