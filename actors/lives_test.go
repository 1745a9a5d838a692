package actors_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// A stop that comes late is about the life of the job that its sender saw: one
// that was resumed since goes on, here and with the next server.
func TestALateStopLeavesTheNextLifeAlone(t *testing.T) {
	url := "file://" + t.TempDir()
	c := serve(t, url, 1)
	mergedBy := func(incarnation uint64) func(*messages.JobEvent) bool {
		return func(e *messages.JobEvent) bool {
			return e.GetRoundMerged() != nil && e.GetJob().GetIncarnation() >= incarnation
		}
	}
	id, _, err := c.SubmitJob(t.Context(), "", digits(1_000_000))
	require.NoError(t, err)
	await(t, c, id, "", mergedBy(1))
	seen, err := c.Job(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, c.StopLife(t.Context(), id, "enough", seen.GetLife()))
	await(t, c, id, "", ended)
	require.NoError(t, c.ResumeStoredJob(t.Context(), id, 0))
	now, err := c.Job(t.Context(), id)
	require.NoError(t, err)
	require.Greater(t, now.GetLife(), seen.GetLife())

	err = c.StopLife(t.Context(), id, "enough", seen.GetLife())
	require.Equal(t, fault.Conflict, fault.KindOf(err), "it was repeated, and came late")
	require.ErrorContains(t, err, "was resumed since")
	bucket, err := store.Open(t.Context(), url) // as a server that died in between would have kept it
	require.NoError(t, err)
	late, err := protojson.Marshal(&messages.StoredRequest{Stop: &messages.StopJob{JobId: id, Reason: "late"}, Life: new(seen.GetLife())})
	require.NoError(t, err)
	_, err = job.New(bucket).AddRequest(t.Context(), id, late)
	require.NoError(t, err)
	require.NoError(t, bucket.Close())
	await(t, c, id, "", mergedBy(2))
	require.NoError(t, c.Close())

	c = serve(t, url, 1)
	defer func() { require.NoError(t, c.Close()) }()
	await(t, c, id, "", mergedBy(3))
	again, err := c.Job(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, messages.Phase_PHASE_RUNNING, again.GetPhase(), again.GetResult().GetFailure().GetText())
	require.Equal(t, now.GetLife(), again.GetLife(), "a server that goes on with it begins no life")
	require.NoError(t, c.StopLife(t.Context(), id, "enough", now.GetLife()))
	all := await(t, c, id, "", ended)
	require.Equal(t, "enough", all[len(all)-1].Event.GetEnded().GetResult().GetFailure().GetText())
}

// How long a job waited, started and ran is known when its server is gone, too,
// and is no number where nobody knows it.
func TestTimesSurviveTheServer(t *testing.T) {
	url := "file://" + t.TempDir()
	c := serve(t, url, 1)
	first, _, err := c.SubmitJob(t.Context(), "", digits(3))
	require.NoError(t, err)
	second, _, err := c.SubmitJob(t.Context(), "", digits(2))
	require.NoError(t, err)
	stopped, _, err := c.SubmitJob(t.Context(), "", digits(2))
	require.NoError(t, err)
	require.NoError(t, c.StopStoredJob(t.Context(), stopped, "no need"))
	views := map[string]*messages.JobView{}
	for _, id := range []string{first, second, stopped} {
		await(t, c, id, "", ended)
		if views[id], err = c.Job(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	require.NoError(t, c.Close())
	c = serve(t, url, 1)
	defer func() { require.NoError(t, c.Close()) }()
	for id, was := range views {
		v, err := c.Job(t.Context(), id)
		require.NoError(t, err)
		require.NotNil(t, v.QueuedS)
		require.InDelta(t, was.GetQueuedS(), v.GetQueuedS(), 1e-6, id)
		require.InDelta(t, was.GetStartingS(), v.GetStartingS(), 1e-6, id)
		require.InDelta(t, was.GetRunningS(), v.GetRunningS(), 1e-6, id)
	}
	v, err := c.Job(t.Context(), second)
	require.NoError(t, err)
	ran := views[first]
	require.Greater(t, v.GetRunningS(), 0.0)
	require.Greater(t, v.GetStartingS(), 0.0)
	require.Greater(t, v.GetQueuedS(), ran.GetRunningS()/2, "it waited for the first one")
	require.Less(t, v.GetQueuedS()+v.GetStartingS()+v.GetRunningS(), time.Minute.Seconds())
	queued, err := c.Job(t.Context(), stopped)
	require.NoError(t, err)
	require.Greater(t, queued.GetQueuedS(), 0.0)
	require.Zero(t, queued.GetRunningS())
}
