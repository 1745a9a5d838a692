package actors_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// takeOver claims a job as another process does that has watched its owner for
// long, and returns what the owner is to say.
func takeOver(t *testing.T, dir, id string) string {
	t.Helper()
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	catalog := job.New(s)
	for {
		seen, err := catalog.Look(t.Context(), id)
		require.NoError(t, err)
		claim, _, err := catalog.Claim(t.Context(), id, job.Owner{Node: "n9", PID: 99}, seen)
		if fault.KindOf(err) == fault.Conflict {
			continue // it has given a sign of life
		}
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, claim.Release()) })
		return fmt.Sprintf("job %s was taken over by pid 99 (node n9) as incarnation %d", id, claim.Incarnation())
	}
}

// Who runs a job that another process takes over ends with that process's name,
// and not as if the job had ended.
func TestARunThatIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir)
	defer func() { require.NoError(t, c.Close()) }()
	sub, err := c.StartJob(t.Context(), digits(100_000))
	require.NoError(t, err)
	var events []*messages.JobEvent
	var says string
	result, err := c.WatchJob(t.Context(), sub.ID, func(e *messages.JobEvent) {
		events = append(events, e)
		if e.GetEpochFinished().GetRecord().GetEpoch() == 1 {
			says = takeOver(t, dir, sub.ID)
		}
	})
	require.Nil(t, result)
	require.EqualError(t, err, says)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	for _, e := range events {
		require.Nil(t, e.GetEnded())
	}
	_, err = c.WatchJob(t.Context(), sub.ID, func(*messages.JobEvent) {})
	require.EqualError(t, err, says, "however late one asks")
}

// A server forgets a job that another process has taken over: it shows what the
// store has, and whose it is; who follows it is told.
func TestAServersJobIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, "file://"+dir, 1)
	defer func() { require.NoError(t, c.Close()) }()
	id, _, err := c.SubmitJob(t.Context(), "", digits(100_000))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seen []*messages.JobEvent
	var says string
	err = c.JobEvents(ctx, id, "", func(s actors.Seen) error {
		seen = append(seen, s.Event)
		if s.Event.GetEpochFinished().GetRecord().GetEpoch() == 1 {
			says = takeOver(t, dir, id)
		}
		return nil
	})
	require.EqualError(t, err, says)
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.Equal(t, says, seen[len(seen)-1].GetTakenOver().GetFailure().GetText())
	running, err := c.RunningJobs(t.Context())
	require.NoError(t, err)
	require.Empty(t, running)
	v, err := c.Job(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, messages.Phase_PHASE_RUNNING, v.GetPhase())
	require.EqualValues(t, 2, v.GetIncarnation())
	require.Contains(t, v.GetWaitingFor(), "n9 (pid 99), its owner")
	require.Equal(t, fault.Conflict, fault.KindOf(c.StopStoredJob(t.Context(), id, "enough")))
	other, _, err := c.SubmitJob(t.Context(), "", digits(1)) // its slot is free
	require.NoError(t, err)
	require.NotEmpty(t, await(t, c, other, "", ended))

	require.NoError(t, c.Close())
	s, err := store.NewFile(dir)
	require.NoError(t, err)
	defer s.Close()
	for n := range uint64(3) {
		for line, err := range job.New(s).Events(t.Context(), id, n) {
			require.NoError(t, err)
			require.NotContains(t, string(line), "nded\":", "nothing in the store says that it is over")
			require.NotContains(t, string(line), "akenOver")
		}
	}
}

// Nobody waits for a job that there never was; one that has ended before this
// process began is told at once.
func TestWatchingAJobThatIsNotHere(t *testing.T) {
	dir := t.TempDir()
	id := begun(t, dir)
	c := open(t, dir)
	defer func() { require.NoError(t, c.Close()) }()
	_, err := c.WatchJob(t.Context(), "01nobody", func(*messages.JobEvent) {})
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.ErrorContains(t, err, "no job 01nobody in file://"+dir)
	var events []*messages.JobEvent
	result, err := c.WatchJob(t.Context(), id, func(e *messages.JobEvent) { events = append(events, e) })
	require.NoError(t, err)
	require.Equal(t, messages.Phase_PHASE_STOPPED, result.GetPhase())
	require.Len(t, events, 1)
	require.Equal(t, result, events[0].GetEnded().GetResult())
}
