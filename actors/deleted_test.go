package actors_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/messages"
	data "github.com/troupe-ml/troupe/store/dataset"
)

// A data set may be deleted just when a job that is to use it is being submitted:
// whoever deletes has looked for such jobs before. The job then fails for what is
// not there, which it names, and nothing hangs.
func TestAJobWhoseDataIsDeletedMeanwhileFails(t *testing.T) {
	c := serve(t, "file://"+t.TempDir(), 1)
	defer func() { require.NoError(t, c.Close()) }()
	path := filepath.Join(t.TempDir(), "t.csv")
	require.NoError(t, os.WriteFile(path, []byte("a,b,y\n1,2,0\n2,1,1\n3,3,0\n4,1,1\n"), 0o600))
	_, err := c.Datasets().Create(t.Context(), "gone", path, data.Options{})
	require.NoError(t, err)
	busy, _, err := c.SubmitJob(t.Context(), "", digits(1_000_000))
	require.NoError(t, err)
	await(t, c, busy, "", func(e *messages.JobEvent) bool { return e.GetRoundMerged() != nil })
	asked := digits(2)
	asked.Dataset = "gone"
	id, _, err := c.SubmitJob(t.Context(), "", asked)
	require.NoError(t, err)
	require.NoError(t, c.Datasets().Delete(t.Context(), "gone")) // by who has looked before
	require.NoError(t, c.StopStoredJob(t.Context(), busy, "make room"))
	seen := await(t, c, id, "", ended)
	result := seen[len(seen)-1].Event.GetEnded().GetResult()
	require.Equal(t, messages.Phase_PHASE_FAILED, result.GetPhase())
	require.Equal(t, messages.FailureKind_FAILURE_KIND_NOT_FOUND, result.GetFailure().GetKind())
	require.Contains(t, result.GetFailure().GetText(), `no data set "gone"`)
}
