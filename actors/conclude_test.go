package actors_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// serveProcesses is serve with jobs in processes of their own, which command runs;
// none: they are in this one. Launching is called before each.
func serveProcesses(t *testing.T, url string, launching func(), command ...string) *actors.Company {
	t.Helper()
	if len(command) == 0 {
		return serve(t, url, 1)
	}
	node := config.DefaultNode()
	node.Store, node.Slots, node.Jobs = url, 1, config.JobsInProcesses
	c, err := actors.Start(actors.Config{
		Log: zap.NewNop(), Node: node, Server: true,
		JobCommand: func(context.Context, string) ([]string, error) { launching(); return command, nil },
	})
	require.NoError(t, err)
	return c
}

// An end that no TrainJob was there to store is one for the next server, too: what
// has died too often is not begun again, and what was stopped stays so. It can be
// resumed.
func TestAnEndThatNoTrainJobStoresStays(t *testing.T) {
	crashes := digits(5)
	crashes.Options.Chaos = &messages.ChaosPlan{CrashJob: 1, Seed: 1}
	for name, c := range map[string]struct {
		task    *messages.TrainTask
		command []string
		stop    bool
		phase   messages.Phase
		text    string
	}{
		"it died four times":              {task: crashes, phase: messages.Phase_PHASE_FAILED, text: "the job died 4 times"},
		"its process died four times":     {task: digits(5), command: []string{"/bin/sh", "-c", "exit 3"}, phase: messages.Phase_PHASE_FAILED, text: "the job died 4 times"},
		"there is no program":             {task: digits(5), command: []string{"/no/such/program"}, phase: messages.Phase_PHASE_FAILED, text: "the job cannot go on"},
		"it stops while it is launched":   {task: digits(5), command: []string{"/bin/sh", "-c", "exec sleep 60"}, stop: true, phase: messages.Phase_PHASE_STOPPED, text: "enough"},
		"it stops between two of its own": {task: crashes, stop: true, phase: messages.Phase_PHASE_STOPPED, text: "enough"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "file://" + t.TempDir()
			var launched atomic.Bool
			first := serveProcesses(t, url, func() { launched.Store(true) }, c.command...)
			id, _, err := first.SubmitJob(t.Context(), "", c.task)
			require.NoError(t, err)
			if c.stop {
				require.Eventually(t, func() bool {
					v, err := first.Job(t.Context(), id)
					return err == nil && (launched.Load() || v.GetPhase() > messages.Phase_PHASE_QUEUED)
				}, time.Minute, time.Millisecond)
				require.NoError(t, first.StopStoredJob(t.Context(), id, "enough"))
			}
			told := await(t, first, id, "", ended)
			result := told[len(told)-1].Event.GetEnded().GetResult()
			require.Equal(t, c.phase, result.GetPhase())
			require.Contains(t, result.GetFailure().GetText(), c.text)
			kept, err := actors.FindJob(t.Context(), url, id)
			require.NoError(t, err)
			require.Equal(t, c.phase, kept.State.GetResult().GetPhase(), "before it is told")
			require.Equal(t, told[len(told)-1].Event.GetJob().GetIncarnation(), kept.State.GetJob().GetIncarnation())
			require.NoError(t, first.Close())

			next := serveProcesses(t, url, func() {}, c.command...)
			defer func() { require.NoError(t, next.Close()) }()
			v, err := next.Job(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, c.phase, v.GetPhase())
			require.Empty(t, await(t, next, id, told[len(told)-1].Cursor, ended), "it has ended once")
			require.NoError(t, next.ResumeStoredJob(t.Context(), id, 0))
			if err := next.StopStoredJob(t.Context(), id, "again"); err != nil {
				require.Equal(t, fault.Conflict, fault.KindOf(err), "it has ended already")
			}
			again := await(t, next, id, "", ended)
			require.Greater(t, again[len(again)-1].Event.GetJob().GetIncarnation(), kept.State.GetJob().GetIncarnation())
		})
	}
}

// What an end keeps: the state that the job can be taken up from, with a number of
// its own; an end that the store has of this life counts instead.
func TestWhatAnEndKeeps(t *testing.T) {
	bucket, err := store.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	defer bucket.Close()
	catalog := job.New(bucket)
	jobs := actors.NewJobs(catalog, job.Owner{Node: "here", Boot: "a", PID: 1}, "server", func() int64 { return 5000 })
	start := &messages.StartJob{JobId: "j", Task: &messages.TrainTask{Options: &messages.TrainOptions{Merge: "average"}}, QueuedMs: 1500}
	failed := &messages.JobResult{Phase: messages.Phase_PHASE_FAILED, Failure: &messages.Failure{Text: "it died"}, WallS: 7}
	_, _, err = jobs.End(t.Context(), "j", start, failed, 0, job.Sighting{})
	require.Equal(t, fault.NotFound, fault.KindOf(err), "the store has no such job")

	owned, _, err := jobs.Own(t.Context(), "j", start.GetTask(), job.Sighting{})
	require.NoError(t, err)
	_, seen, err := jobs.End(t.Context(), "j", start, failed, 1, job.Sighting{})
	require.Equal(t, fault.Conflict, fault.KindOf(err), "somebody has it")
	require.EqualValues(t, 1, seen.Incarnation)
	owned.Release()
	end, _, err := jobs.End(t.Context(), "j", start, failed, 3, job.Sighting{})
	require.NoError(t, err)
	require.EqualValues(t, 4, end.Incarnation)
	require.InDelta(t, 7, end.Result.GetWallS(), 0)
	require.InDelta(t, 1.5, end.Result.GetQueuedS(), 0)

	stopped := &messages.JobResult{Phase: messages.Phase_PHASE_STOPPED, Failure: &messages.Failure{Text: "enough"}}
	end, _, err = jobs.End(t.Context(), "j", start, stopped, 4, job.Sighting{})
	require.NoError(t, err)
	require.Equal(t, messages.Phase_PHASE_FAILED, end.Result.GetPhase(), "the store knows better")
	start.AfterIncarnation = 5 // a resume
	end, _, err = jobs.End(t.Context(), "j", start, stopped, 5, job.Sighting{})
	require.NoError(t, err)
	require.Equal(t, messages.Phase_PHASE_STOPPED, end.Result.GetPhase())
	stored, err := actors.LoadJob(t.Context(), catalog, "j")
	require.NoError(t, err)
	require.Equal(t, end.Incarnation, stored.State.GetJob().GetIncarnation())
	require.Equal(t, "enough", stored.State.GetResult().GetFailure().GetText())
}

// What is asked of a job that a server has is for the server to keep: a process of
// the job leaves its requests, and so the count of its lives, alone.
func TestAJobsProcessKeepsNoRequests(t *testing.T) {
	n := node(t)
	server := serve(t, n.Store, 1)
	id, _, err := server.SubmitJob(t.Context(), "", digits(100_000))
	require.NoError(t, err)
	require.NoError(t, server.Close())
	stored, err := actors.FindJob(t.Context(), n.Store, id)
	require.NoError(t, err)

	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: n, Served: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	_, err = c.StartJobAs(t.Context(), id, stored.Task, 1)
	require.NoError(t, err)
	require.NoError(t, c.OfferSlots(t.Context(), 1))
	require.NoError(t, c.StopStoredJob(t.Context(), id, "enough"))
	await(t, c, id, "", ended)
	bucket, err := store.Open(t.Context(), n.Store)
	require.NoError(t, err)
	defer bucket.Close()
	requests, err := job.New(bucket).Requests(t.Context(), id)
	require.NoError(t, err)
	require.Empty(t, requests)
}
