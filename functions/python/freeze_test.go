package python_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/python"
)

// A frozen worker is a process that is really stopped, in the middle of its
// batches; it is really killed when its time is over, and another takes its place.
func TestAFrozenWorkerIsStoppedAndThenKilled(t *testing.T) {
	r := open(t, python.Config{Slots: 1}, "network")
	inv := training(t, r, "network")
	inv.Sabotage = functions.Sabotage{Freeze: true, At: 0.5}
	ctx, cancel := context.WithCancelCause(t.Context())
	end := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, inv)
		end <- err
	}()
	var frozen int
	eventually(t, time.Minute, func() bool {
		for _, pid := range processes(t, r.user) {
			if state(pid) == "T" {
				frozen = pid
				return true
			}
		}
		return false
	}, "a process that is stopped")

	cut := time.Now()
	cancel(context.DeadlineExceeded)
	require.ErrorIs(t, <-end, context.Canceled)
	require.Less(t, time.Since(cut), time.Second)
	eventually(t, time.Second, func() bool { return state(frozen) == "" || state(frozen) == "Z" }, "the end of the process")

	inv.Sabotage = functions.Sabotage{}
	_, err := r.Run(t.Context(), inv)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Empty(t, processes(t, r.user))
}

// state is the state letter of a process, "" when there is none.
func state(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	return statFields(stat)[0]
}
