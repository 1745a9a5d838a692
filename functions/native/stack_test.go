package native_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/native"
)

// Stacks has the frames of a function down to where we have called it, and those
// of the goroutines that it has started.
func TestStacksAreOfTheFunction(t *testing.T) {
	reached, leave := make(chan struct{}), make(chan struct{})
	wait := func() {
		reached <- struct{}{}
		<-leave
	}
	r := newRuntime(t, scripted(func(*native.Call, []float32) (native.Model, error) {
		return script{train: func(b native.Batch) (float64, error) {
			if b.Index == 0 {
				go wait()
				wait()
			}
			return 1, nil
		}}, nil
	}))
	defer r.Close()
	inv := train(t, tiny(t))
	inv.JobID, inv.Index = "job", 3
	end := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), inv)
		end <- err
	}()
	<-reached
	<-reached
	const file = ` /.*/stack_test\.go:\d+\n`
	stacks := r.Stacks("job")
	require.Len(t, stacks, 1)
	require.Contains(t, stacks[3], ".script.Train ")
	require.NotContains(t, stacks[3], "native.(*run)")
	require.NotContains(t, stacks[3], "+0x")
	require.Regexp(t, `(?s)TestStacksAreOfTheFunction\.func1`+file+`.*TestStacksAreOfTheFunction\.func1`+file, stacks[3], "of both goroutines")
	require.Empty(t, r.Stacks("another"))
	close(leave)
	require.NoError(t, <-end)
}
