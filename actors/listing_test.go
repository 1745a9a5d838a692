package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// A server says nothing of what runs before it has looked at the jobs of its
// store. A stop is obeyed at every moment: also of a job that is just being taken
// up, so that the Scheduler does not have it yet.
func TestAServerThatHasJustStarted(t *testing.T) {
	url := "file://" + t.TempDir()
	c := serve(t, url, 1)
	id, _, err := c.SubmitJob(t.Context(), "", digits(10_000))
	require.NoError(t, err)
	await(t, c, id, "", func(e *messages.JobEvent) bool { return e.GetRoundMerged() != nil })
	require.NoError(t, c.Ready())
	require.NoError(t, c.Close())
	require.Equal(t, fault.Unavailable, fault.KindOf(c.Ready()))
	bucket, err := store.Open(t.Context(), url)
	require.NoError(t, err)
	var other *job.Claim // so that the server does not get on with it
	for seen := (job.Sighting{}); other == nil; {
		other, seen, err = job.New(bucket).Claim(t.Context(), id, job.Owner{Node: "other", Boot: "other"}, seen)
		require.True(t, err == nil || seen != job.Sighting{}, err)
	}

	c = serve(t, url, 1)
	defer func() { require.NoError(t, c.Close()) }()
	jobs, err := c.RunningJobs(t.Context())
	require.NoError(t, err)
	require.Len(t, jobs, 1, "at once")
	require.NoError(t, c.Ready())
	require.Eventually(t, func() bool {
		v, err := c.Job(t.Context(), id)
		return err == nil && v.GetWaitingFor() == "its last owner to be gone for sure"
	}, 5*time.Second, 5*time.Millisecond)
	require.Equal(t, fault.Conflict, fault.KindOf(c.ResumeStoredJob(t.Context(), id, 0)), "it has not ended")
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.Equal(t, fault.Unavailable, fault.KindOf(c.ResizeJob(soon, id, 2)), "it is still being taken up")
	require.NoError(t, c.StopStoredJob(t.Context(), id, "enough"))
	require.NoError(t, other.Release())
	require.NoError(t, bucket.Close())
	seen := await(t, c, id, "", ended)
	result := seen[len(seen)-1].Event.GetEnded().GetResult()
	require.Equal(t, messages.Phase_PHASE_STOPPED, result.GetPhase())
	require.Equal(t, "enough", result.GetFailure().GetText())
}

// Requests wait for what a server has still to look at, and not for ever.
func TestWhatIsNotLookedAtIsWaitedFor(t *testing.T) {
	l := actors.NewListing()
	require.Equal(t, fault.Unavailable, fault.KindOf(l.Ready()))
	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, fault.Unavailable, fault.KindOf(l.Knows(over, "a")))
	known := make(chan error, 1)
	go func() { known <- l.Knows(t.Context(), "a") }()
	l.Finish(map[string]error{"b": fault.New("test", fault.Unavailable, "the disk is asleep")})
	require.NoError(t, <-known)
	require.NoError(t, l.Ready())
	err := l.Knows(t.Context(), "b")
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "the disk is asleep")
	l.Finish(nil)
	require.NoError(t, l.Knows(t.Context(), "b"))
}
