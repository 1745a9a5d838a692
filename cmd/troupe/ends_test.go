package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
)

// Why a job took fewer epochs than were asked for is told as it happens and with
// the result; so is which epoch's model it is, where that is not the last.
func TestRunSaysWhyItEndedEarly(t *testing.T) {
	c := succeeded()
	c.events = slices.Insert(c.events, len(c.events)-1, &messages.JobEvent{
		What: &messages.JobEvent_TrainingEnded{TrainingEnded: &messages.TrainingEnded{Reason: "enough is enough"}},
	})
	c.result.EndedEarly, c.result.ModelEpoch = "enough is enough", 1
	r := newWorld(t).run(c, "run", "mlp", "-d", "digits", "-e", "9")
	require.Zero(t, r.code)
	require.Contains(t, r.err, "training ends early: enough is enough\nepoch 2/9")
	require.Contains(t, r.out, `job 01job SUCCEEDED after 2 epochs in 1.9 s
  early     enough is enough
  best      epoch 1
  accuracy  93.1 %
`)
}
