package e2e_test

import (
	"os"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Three nodes share three jobs. One is killed, and then the server, which is started
// again: the job of the one goes on elsewhere, that of the other node goes on where it
// is, and each gives the bytes that it gives alone.
func TestE2EJobsOutliveNodesAndTheServer(t *testing.T) {
	t.Parallel()
	h, one := newHome(t), newHome(t)
	s, nodes := h.cluster(t, 2)
	flags := []string{"-e", "60", "-p", "2", "--static"}
	homes := map[string]string{} // of jobs, by node
	for range 3 {
		id := s.submit(t, append(flags, "--chaos", "slow=1,seed=3")...)
		await(t, patience, "the job at work", func() bool { return s.show(t, id).Epoch > 1 })
		homes[s.show(t, id).Node] = id
	}
	require.Len(t, homes, 3, "%v", homes)
	killed, stays := homes[nodes[0].name], homes[nodes[1].name]
	nodes[0].end(t, syscall.SIGKILL)
	await(t, patience, "the job elsewhere", func() bool { d := s.show(t, killed); return d.Incarnation > 1 && d.Node != nodes[0].name })
	s.end(t, syscall.SIGKILL)
	s = s.again(t)
	want, err := os.ReadFile(one.train(t, flags...).path(t))
	require.NoError(t, err)
	for _, id := range homes {
		await(t, patience, "the job's end", func() bool { return s.show(t, id).Phase == "SUCCEEDED" })
		d := s.show(t, id)
		require.Len(t, d.Epochs, 60)
		for i, epoch := range d.Epochs {
			require.Equal(t, i+1, epoch.Epoch)
			require.Equal(t, 1437, epoch.Samples)
		}
		path := regexp.MustCompile(`file://(\S+)`).FindStringSubmatch(d.Result.Model)
		require.NotEmpty(t, path, d.Result.Model)
		got, err := os.ReadFile(path[1])
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	d := s.show(t, stays)
	require.Equal(t, nodes[1].name, d.Node)
	require.Equal(t, 1, d.Incarnation, "nothing of it was done twice")
}
