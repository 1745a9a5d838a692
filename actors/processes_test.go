package actors_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// What a process of a job is going to claim is known before, and it can: nothing of
// the job is held here. Numbers under which an end was told are over.
func TestWhatAProcessWillClaimIsForeseen(t *testing.T) {
	bucket, err := store.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	defer bucket.Close()
	catalog, now := job.New(bucket), func() int64 { return 1 }
	here := actors.NewJobs(catalog, job.Owner{Node: "here", Boot: "a", PID: 1}, "server", now)
	process := actors.NewJobs(catalog, job.Owner{Node: "here", Boot: "b", PID: 2}, "job", now)
	for _, over := range []uint64{0, 0, 1, 5} {
		start := &messages.StartJob{JobId: "j", Task: &messages.TrainTask{}, AfterIncarnation: over}
		next, _, err := here.Foresee(t.Context(), "j", start)
		require.NoError(t, err)
		require.Greater(t, next.Incarnation, over)
		owned, _, err := process.Own(t.Context(), "j", start.GetTask(), job.Sighting{})
		require.NoError(t, err)
		require.Equal(t, next.Incarnation, owned.Incarnation())
		owned.Release()
	}

	owned, _, err := process.Own(t.Context(), "j", &messages.TrainTask{}, job.Sighting{})
	require.NoError(t, err)
	defer owned.Release()
	_, seen, err := here.Foresee(t.Context(), "j", &messages.StartJob{JobId: "j", AfterIncarnation: 99})
	require.Equal(t, fault.Conflict, fault.KindOf(err), "somebody has it")
	require.Equal(t, owned.Incarnation(), seen.Incarnation)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = here.Foresee(ended, "k", &messages.StartJob{JobId: "k"})
	require.Error(t, err)
}
