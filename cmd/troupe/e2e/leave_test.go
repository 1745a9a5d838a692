package e2e_test

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// slowed has each function take a while longer, so that there is time to do
// something to it; the model stays what it is.
func slowed(epochs string) []string {
	return []string{"train", "-f", "mlp", "-d", "digits", "-e", epochs, "-p", "6", "--static", "--chaos", "slow=1,seed=3", "--follow"}
}

// Nodes that get SIGTERM in the middle of a job, its home among them or not, end
// soon and take nothing with them: no function starts anew, and the model is that
// of one process.
func TestE2ENodesLeaveInMidJob(t *testing.T) {
	t.Parallel()
	h, one := newHome(t), newHome(t)
	s, nodes := h.cluster(t, 2)
	f := s.follow(t, slowed("12")...)
	f.until(t, "epoch 2/12")
	for i, n := range nodes {
		await(t, patience, "the node at work", func() bool { return s.busy(t)[n.name] == 2 })
		require.Zero(t, n.end(t, syscall.SIGTERM))
		f.until(t, []string{"epoch 5/12", "epoch 8/12"}[i])
	}
	require.Zero(t, f.wait(t), f.said.String())
	require.Contains(t, f.out.String(), "SUCCEEDED after 12 epochs")
	require.Equal(t, 12, strings.Count(f.said.String(), "  N=6  samples 1437  "), f.said.String())
	id := regexp.MustCompile(`job (\w+)`).FindStringSubmatch(f.said.String())[1]
	history := succeed(t, s.ask(t, "history", "get", "--id", id, "-o", "json"))
	require.NotContains(t, history.out, "fresh_optimizers", "%s", history.out)
	want, err := os.ReadFile(one.train(t, "-e", "12", "-p", "6", "--static").path(t))
	require.NoError(t, err)
	got, err := os.ReadFile(regexp.MustCompile(`file://(\S+)`).FindStringSubmatch(f.out.String())[1])
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// A job that is stopped right after one of its nodes was killed ends soon, with a
// word about the node at most, and goes on at once when it is resumed.
func TestE2EAStopBesideALostNode(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s, nodes := h.cluster(t, 1)
	id := s.submit(t, "-e", "1000", "-p", "4", "--static", "--checkpoint-every", "1h", "-K", "1")
	await(t, patience, "the node at work", func() bool { return s.busy(t)[nodes[0].name] == 2 && s.show(t, id).Phase == "RUNNING" })
	require.NotEmpty(t, nodes[0].end(t, syscall.SIGKILL))
	succeed(t, s.ask(t, "task", "stop", "--id", id, "--wait"))
	succeed(t, s.ask(t, "task", "resume", "--id", id))
	await(t, patience, "the job at work again", func() bool { return s.show(t, id).Phase == "RUNNING" })
	require.NotContains(t, s.ask(t, "events", "--id", id).out, "store does not")
	succeed(t, s.ask(t, "task", "stop", "--id", id, "--wait"))
}
