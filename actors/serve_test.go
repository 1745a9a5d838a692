package actors_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// serve starts the company of a server on a store.
func serve(t *testing.T, url string, slots int) *actors.Company {
	t.Helper()
	node := config.DefaultNode()
	node.Store, node.Slots = url, slots
	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node, Server: true})
	require.NoError(t, err)
	return c
}

func digits(epochs uint32) *messages.TrainTask {
	return &messages.TrainTask{
		FunctionName: "mlp", Dataset: "digits", Epochs: epochs, BatchSize: 16,
		Options: &messages.TrainOptions{DefaultParallelism: 1, StaticParallelism: true, K: 4},
	}
}

// after calls back once with the first event that is wanted.
func await(t *testing.T, c *actors.Company, id, after string, wanted func(*messages.JobEvent) bool) (seen []actors.Seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := c.JobEvents(ctx, id, after, func(s actors.Seen) error {
		seen = append(seen, s)
		if wanted(s.Event) {
			cancel()
		}
		return nil
	})
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	return seen
}

func ended(e *messages.JobEvent) bool { return e.GetEnded() != nil }

// A server that dies leaves its jobs in the store, and the next one goes on with
// them unasked: those that ran, those that waited, and none that was to stop.
// Who follows a job sees its events go on without a gap.
func TestTheNextServerGoesOn(t *testing.T) {
	url := "file://" + t.TempDir()
	c := serve(t, url, 1)
	running, _, err := c.SubmitJob(t.Context(), "", digits(60))
	require.NoError(t, err)
	waiting, _, err := c.SubmitJob(t.Context(), "", digits(2))
	require.NoError(t, err)
	seen := await(t, c, running, "", func(e *messages.JobEvent) bool { return e.GetEpochFinished().GetRecord().GetEpoch() == 3 })
	require.NoError(t, c.Close())

	c = serve(t, url, 1)
	seen = append(seen, await(t, c, running, seen[len(seen)-1].Cursor, ended)...)
	var epochs []uint32
	for _, s := range seen {
		if r := s.Event.GetEpochFinished().GetRecord(); r != nil {
			require.EqualValues(t, 1437, r.GetSamples())
			epochs = append(epochs, r.GetEpoch())
		}
	}
	slices.Sort(epochs) // what came after the last state that was stored was trained, and seen, again
	require.Len(t, slices.Compact(epochs), 60)
	result := seen[len(seen)-1].Event.GetEnded().GetResult()
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase())
	require.Len(t, result.GetEpochs(), 60)

	await(t, c, waiting, "", ended)
	require.NoError(t, c.Close())

	c = serve(t, url, 1) // has nothing to go on with
	defer func() { require.NoError(t, c.Close()) }()
	jobs, err := c.RunningJobs(t.Context())
	require.NoError(t, err)
	require.Empty(t, jobs)
	again := await(t, c, running, "", ended)
	epochs = nil
	for _, s := range again {
		if r := s.Event.GetEpochFinished().GetRecord(); r != nil {
			epochs = append(epochs, r.GetEpoch())
		}
	}
	require.Len(t, epochs, 60, "the store has each epoch's event once")
	require.True(t, slices.IsSorted(epochs))
	v, err := c.Job(t.Context(), waiting)
	require.NoError(t, err)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, v.GetPhase())
}

// A stop that was accepted is obeyed, of a job that waits too, and even by the
// next server; and what was stopped can be resumed.
func TestAnAcceptedStopIsObeyed(t *testing.T) {
	url := "file://" + t.TempDir()
	c := serve(t, url, 1)
	running, _, err := c.SubmitJob(t.Context(), "", digits(10_000))
	require.NoError(t, err)
	waiting, _, err := c.SubmitJob(t.Context(), "", digits(2))
	require.NoError(t, err)
	await(t, c, running, "", func(e *messages.JobEvent) bool { return e.GetRoundMerged() != nil })
	require.NoError(t, c.StopStoredJob(t.Context(), waiting, "no need"))
	require.NoError(t, c.StopStoredJob(t.Context(), running, "enough"))
	require.NoError(t, c.Close()) // before the job has ended

	c = serve(t, url, 1)
	defer func() { require.NoError(t, c.Close()) }()
	for id, why := range map[string]string{running: "enough", waiting: "no need"} {
		seen := await(t, c, id, "", ended)
		result := seen[len(seen)-1].Event.GetEnded().GetResult()
		require.Equal(t, messages.Phase_PHASE_STOPPED, result.GetPhase())
		require.Equal(t, why, result.GetFailure().GetText())
		require.Equal(t, fault.Conflict, fault.KindOf(c.StopStoredJob(t.Context(), id, "again")))
	}
	require.NoError(t, c.ResumeStoredJob(t.Context(), waiting, 0))
	seen := await(t, c, waiting, "", ended)
	require.Equal(t, messages.Phase_PHASE_SUCCEEDED, seen[len(seen)-1].Event.GetEnded().GetResult().GetPhase())
	require.Equal(t, fault.Conflict, fault.KindOf(c.ResumeStoredJob(t.Context(), waiting, 0)), "it has SUCCEEDED")
}

// Who follows a job that was stopped and goes on, all in one server, sees it go
// on, and not its old end; also from a place before that.
func TestAResumedJobIsFollowedToItsNewEnd(t *testing.T) {
	c := serve(t, "file://"+t.TempDir(), 1)
	defer func() { require.NoError(t, c.Close()) }()
	id, _, err := c.SubmitJob(t.Context(), "", digits(30))
	require.NoError(t, err)
	seen := await(t, c, id, "", func(e *messages.JobEvent) bool { return e.GetEpochFinished() != nil })
	early := seen[len(seen)-1].Cursor
	for range 2 {
		require.NoError(t, c.StopStoredJob(t.Context(), id, "a pause"))
		await(t, c, id, "", ended)
		require.NoError(t, c.ResumeStoredJob(t.Context(), id, 0))
	}
	for _, after := range []string{"", early} {
		var epochs []uint32
		seen = await(t, c, id, after, ended)
		for _, s := range seen {
			if r := s.Event.GetEpochFinished().GetRecord(); r != nil {
				epochs = append(epochs, r.GetEpoch())
			}
		}
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, seen[len(seen)-1].Event.GetEnded().GetResult().GetPhase())
		require.EqualValues(t, 30, epochs[len(epochs)-1])
		require.Len(t, epochs, 30-min(1, len(after)), "each once")
	}
}

// The same key gives the same job; a path is none that a server takes.
func TestASubmissionMayBeRepeated(t *testing.T) {
	c := serve(t, "file://"+t.TempDir(), 1)
	defer func() { require.NoError(t, c.Close()) }()
	first, _, err := c.SubmitJob(t.Context(), "k", digits(1))
	require.NoError(t, err)
	again, _, err := c.SubmitJob(t.Context(), "k", digits(1))
	require.NoError(t, err)
	require.Equal(t, first, again)
	_, _, err = c.SubmitJob(t.Context(), "k", digits(2))
	require.Equal(t, fault.Conflict, fault.KindOf(err), "another task")
	other, _, err := c.SubmitJob(t.Context(), "l", digits(1))
	require.NoError(t, err)
	require.NotEqual(t, first, other)
	for _, bad := range []string{"./train.py", "../x", "/etc/passwd"} {
		task := digits(1)
		task.FunctionName = bad
		_, _, err = c.SubmitJob(t.Context(), "", task)
		require.Equal(t, fault.Invalid, fault.KindOf(err), bad)
		require.Contains(t, err.Error(), bad)
	}
	all, err := c.AllJobs(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	await(t, c, first, "", ended)
	require.NoError(t, c.DeleteJob(t.Context(), first))
	_, err = c.Job(t.Context(), first)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// Who follows all jobs goes on where it was, and is told where it cannot.
func TestAllEventsGoOn(t *testing.T) {
	c := serve(t, "mem://", 2)
	defer func() { require.NoError(t, c.Close()) }()
	id, _, err := c.SubmitJob(t.Context(), "", digits(2))
	require.NoError(t, err)
	cursors := await(t, c, id, "", ended)
	follow := func(after string, n int) (seen []actors.Seen) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_ = c.AllEvents(ctx, after, func(s actors.Seen) error {
			if seen = append(seen, s); len(seen) == n {
				cancel()
			}
			return nil
		})
		return seen
	}
	rest := len(cursors) - 3
	got := follow(cursors[2].Cursor, rest)
	require.Equal(t, cursors[3].Cursor, got[0].Cursor)
	require.True(t, strings.HasPrefix(got[0].Cursor, id+":1:"))
	require.Nil(t, follow("nobody:1:7", 1)[0].Event, "it is told that some are gone")
}

// Who has seen what never was is told, and gets everything, of a job that runs
// and of one that has ended.
func TestACursorThatNeverWasGetsAReset(t *testing.T) {
	c := serve(t, "mem://", 1)
	defer func() { require.NoError(t, c.Close()) }()
	running, _, err := c.SubmitJob(t.Context(), "", digits(10_000))
	require.NoError(t, err)
	merged := func(e *messages.JobEvent) bool { return e.GetRoundMerged() != nil }
	first := await(t, c, running, "", merged)
	for _, cursor := range []string{running + ":9:1", running + ":1:1000000"} {
		seen := await(t, c, running, cursor, merged)
		require.Nil(t, seen[0].Event, cursor)
		require.Equal(t, first[0].Cursor, seen[1].Cursor)
	}
	seen := await(t, c, running, first[len(first)-1].Cursor, merged)
	require.NotNil(t, seen[0].Event, "that one was")
	require.NoError(t, c.StopStoredJob(t.Context(), running, "enough"))
	all := await(t, c, running, "", ended)
	for _, cursor := range []string{running + ":9:1", running + ":1:1000000"} {
		seen := await(t, c, running, cursor, ended)
		require.Nil(t, seen[0].Event, cursor)
		require.Equal(t, len(all), len(seen)-1)
	}
	require.Empty(t, await(t, c, running, all[len(all)-1].Cursor, ended), "nothing comes after the end")
}

// A store has one server; what run does beside it is left alone.
func TestAStoreHasOneServer(t *testing.T) {
	url := "file://" + t.TempDir()
	c := serve(t, url, 1)
	node := config.DefaultNode()
	node.Store, node.Slots = url, 1
	_, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node, Server: true})
	require.Equal(t, fault.Conflict, fault.KindOf(err))
	require.Contains(t, err.Error(), "pid")

	beside, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
	require.NoError(t, err)
	own, err := beside.StartJob(t.Context(), digits(10_000))
	require.NoError(t, err)
	await(t, beside, own.ID, "", func(e *messages.JobEvent) bool { return e.GetRoundMerged() != nil })
	require.NoError(t, c.Close())
	c = serve(t, url, 1)
	defer func() { require.NoError(t, c.Close()) }()
	jobs, err := c.RunningJobs(t.Context())
	require.NoError(t, err)
	require.Empty(t, jobs)
	require.NoError(t, beside.Close())
}

// What was told of a job while it waited is not told in other words by the next
// server: an event that has an id keeps its bytes.
func TestEventsKeepTheirBytes(t *testing.T) {
	dir := t.TempDir()
	c := serve(t, "file://"+dir, 1)
	running, _, err := c.SubmitJob(t.Context(), "", digits(10_000))
	require.NoError(t, err)
	waiting, _, err := c.SubmitJob(t.Context(), "", digits(2))
	require.NoError(t, err)
	await(t, c, running, "", func(e *messages.JobEvent) bool { return e.GetRoundMerged() != nil })
	v, err := c.Job(t.Context(), waiting)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	told := map[string][]byte{}
	for _, id := range []string{running, waiting} {
		files, err := filepath.Glob(filepath.Join(dir, "jobs", id, "incarnations", "0", "events-*.jsonl"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		told[files[0]], err = os.ReadFile(files[0])
		require.NoError(t, err)
	}

	c = serve(t, "file://"+dir, 1)
	require.NoError(t, c.StopStoredJob(t.Context(), running, "enough"))
	seen := await(t, c, waiting, "", ended)
	require.NotNil(t, seen[0].Event.GetQueued())
	require.Equal(t, v.GetSubmittedMs(), seen[0].Event.GetTimeMs())
	require.NoError(t, c.Close())
	for file, before := range told {
		after, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	}
}
