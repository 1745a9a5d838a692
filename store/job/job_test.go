package job_test

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

const id = "01jobstore"

func source(name, content string) job.Source {
	return job.Source{Name: name, Bytes: int64(len(content)), Write: func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	}}
}

func requireKind(t *testing.T, want fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
}

func TestSmoke(t *testing.T) {
	c := job.New(store.NewMem())
	require.NoError(t, c.Create(t.Context(), id, json.RawMessage(`{}`)))
	claim, _, err := c.Claim(t.Context(), id, job.Owner{Node: "n", Boot: "b", PID: 1}, job.Sighting{})
	require.NoError(t, err)
	require.NoError(t, claim.Save(t.Context(), json.RawMessage(`{"v":1}`), []job.Source{source("model-1.safetensors", "one")}))
	require.NoError(t, claim.Save(t.Context(), json.RawMessage(`{"v":2}`), []job.Source{source("model-2.safetensors", "two")}))
	s, err := c.Load(t.Context(), id)
	require.NoError(t, err)
	require.JSONEq(t, `{"v":2}`, string(s.Doc))
	require.NoError(t, claim.Release())
}
