package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

// The process of a job gets all settings of its server's node, in words that the
// verb understands, and sees at an address whether the server lives.
func TestTheProcessOfAJobHasTheSettingsOfItsServer(t *testing.T) {
	node := config.DefaultNode()
	node.Jobs, node.Store, node.Slots, node.Threads, node.Python = config.JobsInProcesses, "file:///srv/troupe", 3, 2, "/usr/bin/python3"
	node.MemoryLimit, node.IdleTimeout, node.GPUs, node.Isolate = 1<<30, 30*time.Second, "none", true
	jobs, err := newJobProcesses(node, 2, zap.NewNop())
	require.NoError(t, err)
	jobs.servesAt(actors.JobsAt{URL: func(id string) string { return "https://h:8780/jobs/" + id }, Fingerprint: "abc"})
	words, err := jobs.command(t.Context(), "j")
	require.NoError(t, err)
	require.Equal(t, []string{"/proc/self/exe", "job"}, words[:2])

	set, flags := pflag.NewFlagSet("job", pflag.ContinueOnError), newNodeFlags(func(string) string { return "" })
	server := set.String("server", "", "")
	id, url, authority := set.String("id", "", ""), set.String("job-url", "", ""), set.String("job-authority", "", "")
	flags.registerAll(set)
	require.NoError(t, set.Parse(words[2:]))
	require.Equal(t, []string{"j", "https://h:8780/jobs/j", "abc"}, []string{*id, *url, *authority})
	got, err := flags.node(&messages.TrainTask{Options: &messages.TrainOptions{}})
	require.NoError(t, err)
	want := node
	want.Jobs, want.NoPin = config.JobsHere, true
	require.Equal(t, want, got)
	require.Equal(t, 2, flags.verbose)

	answer, err := http.Get(*server)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, jobs.Close())
	_, err = http.Get(*server)
	require.Error(t, err)
}
