package actors_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/messages"
)

// unfinish makes a store look as if the process of a job that has SUCCEEDED had
// been killed once that was stored: with the files of its last state, and without
// the last event.
func unfinish(t *testing.T, dir, id string) (files []string) {
	t.Helper()
	incarnation := filepath.Join(dir, "jobs", id, "incarnations", "1")
	segments, err := filepath.Glob(filepath.Join(incarnation, "events-*.jsonl"))
	require.NoError(t, err)
	require.NotEmpty(t, segments)
	last := segments[len(segments)-1]
	text, err := os.ReadFile(last)
	require.NoError(t, err)
	lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	require.Contains(t, string(lines[len(lines)-1]), `"ended"`)
	require.NoError(t, os.WriteFile(last, bytes.Join(lines[:len(lines)-1], nil), 0o600))
	for _, name := range []string{"model-9.safetensors", "optimizer-9-0.safetensors"} {
		path := filepath.Join(incarnation, name)
		require.NoError(t, os.WriteFile(path, []byte("weights"), 0o600))
		files = append(files, path)
	}
	return files
}

// finished reports whether nothing is left undone.
func finished(t *testing.T, dir, id string, files []string) bool {
	t.Helper()
	for _, path := range files {
		if _, err := os.Stat(path); err == nil {
			return false
		}
	}
	segments, err := filepath.Glob(filepath.Join(dir, "jobs", id, "incarnations", "1", "events-*.jsonl"))
	require.NoError(t, err)
	ends := 0
	for _, name := range segments {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		ends += strings.Count(string(text), `"ended"`)
	}
	require.LessOrEqual(t, ends, 1)
	return ends == 1
}

// Whoever comes next completes the end of a job whose process was killed then: a
// server, and a resume. Until then its end is shown all the same.
func TestTheNextOneCompletesAnEnd(t *testing.T) {
	dir := t.TempDir()
	url := "file://" + dir
	c := serve(t, url, 1)
	id, _, err := c.SubmitJob(t.Context(), "", digits(1))
	require.NoError(t, err)
	whole := await(t, c, id, "", ended)
	require.NoError(t, c.Close())

	files := unfinish(t, dir, id)
	c = serve(t, url, 1)
	seen := await(t, c, id, "", ended)
	require.Equal(t, whole[len(whole)-1].Cursor, seen[len(seen)-1].Cursor)
	require.Eventually(t, func() bool { return finished(t, dir, id, files) }, time.Minute, 10*time.Millisecond)
	require.Empty(t, await(t, c, id, seen[len(seen)-1].Cursor, ended), "it has ended once")
	require.NoError(t, c.Close())

	files = unfinish(t, dir, id)
	for range 2 {
		stored, err := actors.FindJob(t.Context(), url, id)
		require.NoError(t, err)
		require.Equal(t, messages.Phase_PHASE_SUCCEEDED, stored.State.GetResult().GetPhase())
		require.True(t, finished(t, dir, id, files))
	}
	claims, err := filepath.Glob(filepath.Join(dir, "jobs", id, "incarnations", "*", "claim"))
	require.NoError(t, err)
	require.Len(t, claims, 3, "one for each time that there was something to do")
}
