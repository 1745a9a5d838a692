package actors_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// open starts a company, as run does, on a store.
func open(t *testing.T, dir string) *actors.Company {
	t.Helper()
	node := config.DefaultNode()
	node.Store, node.Slots = "file://"+dir, 1
	c, err := actors.Start(actors.Config{Log: zap.NewNop(), Node: node})
	require.NoError(t, err)
	return c
}

// begun leaves a job in a store that was stopped after its third epoch.
func begun(t *testing.T, dir string) (id string) {
	t.Helper()
	c := open(t, dir)
	sub, err := c.StartJob(t.Context(), digits(5))
	require.NoError(t, err)
	_, err = c.WatchJob(t.Context(), sub.ID, func(e *messages.JobEvent) {
		if e.GetEpochFinished().GetRecord().GetEpoch() == 3 {
			require.NoError(t, c.StopJob(t.Context(), sub.ID, "enough"))
		}
	})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return sub.ID
}

// What is damaged or gone of a job in the store is named as it goes on, with how
// far back that is; nothing is lost that is there.
func TestDamageIsTold(t *testing.T) {
	whole := t.TempDir()
	id := begun(t, whole)
	state, previous, claim := "state.json", "previous.json", "claim"
	for name, c := range map[string]struct {
		cut, gone []string
		says      string // the one warning; "": none
		epoch     uint32 // that it goes on in, at least
	}{
		"nothing":           {nil, nil, "", 3},
		"a state is cut":    {[]string{state}, nil, `^jobs/ID/incarnations/1/state.json is damaged: its .*; the job goes on from the state before that: epoch \d, after round \d+, stored at 2\d{3}-.* UTC$`, 1},
		"a state is gone":   {nil, []string{state}, `^jobs/ID/incarnations/1/state.json is missing; the job goes on from the state before that: epoch `, 1},
		"both states gone":  {nil, []string{state, previous}, `^file://.*/jobs/ID/incarnations/1 has tensors, and neither state.json nor previous.json, which would say how far they are trained: the job begins again$`, 0},
		"the claim is gone": {nil, []string{claim}, `^file://.*/jobs/ID/incarnations/1/claim is missing, so that nobody can say who owned the job; nothing shows that its owner lives, and it goes on here$`, 3},
		"the claim is cut":  {[]string{claim}, nil, `^file://.*/jobs/ID/incarnations/1/claim is damaged, so that nobody can say`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			at := func(name string) string { return filepath.Join(dir, "jobs", id, "incarnations", "1", name) }
			for _, name := range c.cut {
				info, err := os.Stat(at(name))
				require.NoError(t, err)
				require.NoError(t, os.Chmod(at(name), 0o600))
				require.NoError(t, os.Truncate(at(name), info.Size()/2))
			}
			for _, name := range c.gone {
				require.NoError(t, os.Remove(at(name)))
			}
			company := open(t, dir)
			defer func() { require.NoError(t, company.Close()) }()
			stored, err := actors.FindJob(t.Context(), "file://"+dir, id)
			require.NoError(t, err)
			_, err = company.ResumeJob(t.Context(), id, stored.Resumed(1, 1))
			require.NoError(t, err)
			var warnings []string
			result, err := company.WatchJob(t.Context(), id, func(e *messages.JobEvent) {
				if w := e.GetWarned(); w != nil {
					warnings = append(warnings, w.GetText())
				}
				if s := e.GetStarted(); s != nil {
					require.EqualValues(t, 2, e.GetJob().GetIncarnation())
					require.GreaterOrEqual(t, s.GetEpoch(), c.epoch)
					require.Equal(t, c.epoch == 0, s.GetEpoch() == 0)
				}
			})
			require.NoError(t, err)
			require.Equal(t, messages.Phase_PHASE_SUCCEEDED, result.GetPhase())
			require.Len(t, result.GetEpochs(), 5)
			if c.says == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1, "%q", warnings)
			require.Regexp(t, strings.ReplaceAll(c.says, "ID", id), warnings[0])
		})
	}
}

// A job that was begun, and of which the store has no state any more, says that
// all is done again.
func TestAJobWithoutAnyStateIsTold(t *testing.T) {
	whole := t.TempDir()
	id := begun(t, whole)
	for name, c := range map[string]struct {
		gone string // what is, of its incarnations
		says string
	}{
		"an incarnation":     {"1", "the store has no state of this job: it begins at epoch 1"},
		"all of them":        {".", "the store has no state of this job: it begins at epoch 1"},
		"all but who had it": {"1/[^cl]*", "the job was begun before, and the store has no state of it: it begins at epoch 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
			gone, err := filepath.Glob(filepath.Join(dir, "jobs", id, "incarnations", c.gone))
			require.NoError(t, err)
			require.NotEmpty(t, gone)
			for _, path := range gone {
				require.NoError(t, os.RemoveAll(path))
			}
			company := open(t, dir)
			defer func() { require.NoError(t, company.Close()) }()
			stored, err := actors.FindJob(t.Context(), "file://"+dir, "last")
			require.NoError(t, err)
			sub, err := company.ResumeJob(t.Context(), id, stored.Resumed(1, 1))
			require.NoError(t, err)
			warnings := sub.Warnings
			result, err := company.WatchJob(t.Context(), id, func(e *messages.JobEvent) {
				if w := e.GetWarned(); w != nil {
					warnings = append(warnings, w.GetText())
				}
			})
			require.NoError(t, err)
			require.Len(t, result.GetEpochs(), 5)
			require.Equal(t, []string{c.says}, warnings)
		})
	}
}

// The last job that run began is found past those of which nobody can say who
// began them; its own damage is not passed over.
func TestTheLastJobIsFoundPastDamagedOnes(t *testing.T) {
	dir := t.TempDir()
	id := begun(t, dir)
	url := "file://" + dir
	write := func(job, name, text string) string {
		path := filepath.Join(dir, "jobs", job, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("7zzzz", "task.json", `{"origin":"run"`)
	write("7zzzy", "task.json", `{"origin":["no"]}`)
	write("7zzzx", "task.json", `{"origin":"server"}`)
	write("7zzzx", "incarnations/1/state.json", `{`) // a server's, which is none of ours
	stored, err := actors.FindJob(t.Context(), url, "last")
	require.NoError(t, err)
	require.Equal(t, id, stored.ID)
	require.Len(t, stored.Warnings, 2)
	require.Contains(t, stored.Warnings[0], "a newer job is passed over, as nothing says who began it: "+url+"/jobs/7zzzz/task.json is damaged")
	require.Contains(t, stored.Warnings[0], "--resume "+id+" goes on with")
	stored, err = actors.FindJob(t.Context(), url, id)
	require.NoError(t, err)
	require.Empty(t, stored.Warnings)

	write("7zzzw", "task.json", `{"origin":"run"}`)
	write("7zzzw", "incarnations/1/state.json", `{`)
	_, err = actors.FindJob(t.Context(), url, "last")
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.ErrorContains(t, err, "no state of job 7zzzw is whole: ")
	require.ErrorContains(t, err, "restore "+url+"/jobs/7zzzw from a backup, or start the job anew: as it was begun, without --resume")

	for _, job := range []string{id, "7zzzw"} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "jobs", job)))
	}
	_, err = actors.FindJob(t.Context(), url, "last")
	require.Equal(t, fault.Corrupt, fault.KindOf(err))
	require.ErrorContains(t, err, "no job is known to have been begun by run in "+url)
	require.ErrorContains(t, err, "7zzzz/task.json is damaged")
}
