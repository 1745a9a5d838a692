package actors

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/functions/python"
	"github.com/troupe-ml/troupe/store"
)

// logOf is all that is stored of a log.
func logOf(t *testing.T, s store.Store, job, function string) string {
	t.Helper()
	var all strings.Builder
	for k := 0; ; k++ {
		r, err := s.Get(t.Context(), fmt.Sprintf("jobs/%s/logs/%s-%d.txt", job, function, k), 0, -1)
		if err != nil {
			return all.String()
		}
		_, err = io.Copy(&all, r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
	}
}

// However much a function prints, the log has how it ends.
func TestALogKeepsTheFirstAndTheLast(t *testing.T) {
	for name, length := range map[string]int{"long lines": 60_000, "short lines": 9, "empty lines": 0} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMem()
			defer s.Close()
			logs := newJobLogs(s, nil)
			say := func(text string) { logs.add(python.Line{JobID: "j", Index: 1, Text: text}) }
			noise := strings.Repeat("x", length)
			count := 3 * (logLimit + logTail) / (length + 1)
			say("begin")
			for range count {
				say(noise)
			}
			say("Traceback")
			logs.add(python.Line{JobID: "j", Index: -1, Text: "import"})
			require.NoError(t, logs.flush("j"))

			all := logOf(t, s, "j", "1")
			require.True(t, strings.HasPrefix(all, "begin\n"))
			require.True(t, strings.HasSuffix(all, "\nTraceback\n"))
			require.Less(t, len(all), logLimit+logTail+1000)
			require.Greater(t, len(all), logLimit+logTail-2*(length+1))
			var dropped int
			_, err := fmt.Sscanf(all[strings.Index(all, "("):], "(%d lines are left out: of a function's log the first 4 MiB and the last 256 KiB are kept)", &dropped)
			require.NoError(t, err)
			require.Equal(t, count+2, strings.Count(all, "\n")-1+dropped, "each line is there or counted")
			require.Equal(t, "import\n", logOf(t, s, "j", "program"))

			say("late")
			require.NoError(t, logs.flush(""))
			require.Equal(t, all+"late\n", logOf(t, s, "j", "1"))
		})
	}
}
