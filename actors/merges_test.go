package actors_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/remote"
	"github.com/troupe-ml/troupe/messages"
)

func of(incarnation uint64, what *messages.JobEvent) *messages.JobEvent {
	what.Job = &messages.JobRef{Id: "j", Incarnation: incarnation}
	return what
}

func reached(epoch, round uint32) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_Started{Started: &messages.JobStarted{Epoch: epoch, Round: round}}}
}

func mergedAt(epoch, round uint32) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_RoundMerged{RoundMerged: &messages.RoundMerged{Epoch: epoch, Round: round}}}
}

func failedAt(task messages.Task, epoch, round, function, attempt uint32) *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_FunctionFailed{FunctionFailed: &messages.FunctionFailed{
		Attempt: &messages.AttemptRef{Task: task, Epoch: epoch, Round: round, Function: function, Attempt: attempt}, Failure: &messages.Failure{Text: "boom"},
	}}}
}

func jobEnded() *messages.JobEvent {
	return &messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: &messages.JobResult{Phase: messages.Phase_PHASE_STOPPED}}}}
}

// A function that has finished its round hears what became of it, whether it asks
// before or after.
func TestNextWaitsForTheMerge(t *testing.T) {
	ref := remote.Ref{Job: "j", Incarnation: 2, Task: functions.Train, Epoch: 2, Round: 1, Function: 3, Attempt: 0}
	const waits = "waits"
	for name, c := range map[string]struct {
		events []*messages.JobEvent
		want   string // of the error; "": none
	}{
		"its round":                  {[]*messages.JobEvent{of(2, mergedAt(2, 2))}, ""},
		"a later one":                {[]*messages.JobEvent{of(2, mergedAt(3, 1))}, ""},
		"an earlier one":             {[]*messages.JobEvent{of(2, mergedAt(2, 1))}, waits},
		"its round, twice":           {[]*messages.JobEvent{of(2, mergedAt(2, 2)), of(2, mergedAt(2, 2)), of(2, mergedAt(2, 1))}, ""},
		"its round, by another life": {[]*messages.JobEvent{of(1, mergedAt(2, 2)), of(2, reached(2, 1))}, waits},
		"resumed behind it":          {[]*messages.JobEvent{of(2, reached(2, 2))}, ""},
		"taken over":                 {[]*messages.JobEvent{of(2, mergedAt(2, 1)), of(3, reached(2, 1)), of(2, mergedAt(2, 2))}, "incarnation 2 of the job is over, 3 runs"},
		"it failed":                  {[]*messages.JobEvent{of(2, failedAt(messages.Task_TASK_TRAIN, 2, 2, 3, 1))}, "the attempt was not merged: boom"},
		"it failed, others merged":   {[]*messages.JobEvent{of(2, failedAt(messages.Task_TASK_TRAIN, 2, 2, 3, 1)), of(2, mergedAt(2, 2))}, "the attempt was not merged: boom"},
		"another attempt failed":     {[]*messages.JobEvent{of(2, failedAt(messages.Task_TASK_TRAIN, 2, 2, 3, 2)), of(2, failedAt(messages.Task_TASK_TRAIN, 2, 2, 2, 1))}, waits},
		"a validation failed":        {[]*messages.JobEvent{of(2, failedAt(messages.Task_TASK_VALIDATE, 2, 2, 3, 1))}, waits},
		"the job ended":              {[]*messages.JobEvent{of(2, mergedAt(2, 1)), of(2, jobEnded())}, "epoch 2, round 1 was not merged: the job has ended"},
		"the job ended with it":      {[]*messages.JobEvent{of(2, mergedAt(2, 2)), of(2, jobEnded())}, ""},
		"nobody knows the job":       {nil, `job "j" does not run here`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ask := func(m *actors.Merges) error {
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { done <- m.Wait(ctx, ref) }()
					synctest.Wait()
					defer cancel()
					select {
					case err := <-done:
						return err
					default:
						cancel()
						require.ErrorIs(t, <-done, context.Canceled)
						return context.Canceled
					}
				}
				check := func(err error) {
					switch c.want {
					case "":
						require.NoError(t, err)
					case waits:
						require.ErrorIs(t, err, context.Canceled)
					default:
						require.ErrorContains(t, err, c.want)
					}
				}
				after := actors.NewMerges()
				after.Add(c.events)
				check(ask(after))
				if c.events == nil {
					return
				}
				before := actors.NewMerges()
				before.Add([]*messages.JobEvent{of(2, reached(0, 0))})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- before.Wait(ctx, ref) }()
				synctest.Wait()
				before.Add(c.events)
				synctest.Wait()
				cancel()
				check(<-done)
			})
		})
	}
}
