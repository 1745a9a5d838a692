package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/api"
)

// cluster starts a server of two slots, and nodes of two slots each that join it.
func (h home) cluster(t *testing.T, nodes int) (*server, []*joined) {
	t.Helper()
	s := h.up(t, "--listen", "127.0.0.1:0", "--slots", "2")
	e := s.ask(t, "cluster", "token", "create", "--name", "n", "--role", "join")
	require.Zero(t, e.code, e.err)
	var all []*joined
	for i := range nodes {
		all = append(all, h.join(t, strings.TrimPrefix(s.url, "http://"),
			"--token", strings.TrimSpace(e.out), "--slots", "2", "--node-label", fmt.Sprintf("place=n%d", i)))
	}
	s.awaitNodes(t, 1+nodes)
	return s, all
}

// busy is how many slots of each node are at work.
func (s *server) busy(t *testing.T) map[string]int {
	t.Helper()
	e := succeed(t, s.ask(t, "cluster", "members", "-o", "json"))
	var nodes []api.Node
	require.NoError(t, json.Unmarshal([]byte(e.out), &nodes))
	busy := map[string]int{}
	for _, n := range nodes {
		busy[n.Name] = int(n.Busy)
	}
	return busy
}

func succeed(t *testing.T, e ended) ended {
	t.Helper()
	require.Zero(t, e.code, e.err)
	return e
}

// A static job gives the same bytes on three nodes as on one, of a Go function, whose
// answers may be encoded, and of a program. (That all three were at work the next
// test shows.)
func TestE2EThreeNodesGiveTheModelOfOne(t *testing.T) {
	t.Parallel()
	h, one := newHome(t), newHome(t)
	s, nodes := h.cluster(t, 2)
	for _, e := range []ended{
		s.ask(t, "function", "create", "--name", "halves", "--code", program(t, "halves.py")),
		s.ask(t, "dataset", "create", "--name", "noise", "--from", h.samples(t, 300, 60, 4)),
	} {
		require.Zero(t, e.code, e.err)
	}
	train := func(args ...string) string {
		return regexp.MustCompile(`file://(\S+)`).FindStringSubmatch(succeed(t, s.ask(t, append([]string{"train", "--follow"}, args...)...)).out)[1]
	}
	flags := []string{"-e", "3", "-p", "6", "--static"}
	for near, far := range map[string]string{
		one.train(t, flags...).path(t):                                                                               train(append(flags, "-f", "mlp", "-d", "digits")...),
		one.train(t, append(flags, "--compress", "int8")...).path(t):                                                 train(append(flags, "-f", "mlp", "-d", "digits", "--compress", "int8")...),
		one.run(t, append([]string{program(t, "halves.py"), "-d", one.samples(t, 300, 60, 4)}, flags...)...).path(t): train(append(flags, "-f", "halves", "-d", "noise")...),
	} {
		want, err := os.ReadFile(near)
		require.NoError(t, err)
		got, err := os.ReadFile(far)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, n := range nodes {
		require.Zero(t, n.end(t, syscall.SIGTERM))
	}
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
}

// A node is killed in mid-round: what it had runs elsewhere, nothing else is tried
// again, and no sample is lost. It is started again, and used again.
func TestE2EANodeIsKilledInMidRound(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s, nodes := h.cluster(t, 2)
	f := s.follow(t, "train", "-f", "mlp", "-d", "digits", "-e", "40", "-p", "6", "--static", "--chaos", "slow=1,seed=3", "--follow")
	f.until(t, "epoch 3/40")
	await(t, patience, "all slots at work", func() bool {
		busy := s.busy(t)
		return busy[nodes[0].name] == 2 && busy[nodes[1].name] == 2
	})
	nodes[0].end(t, syscall.SIGKILL)
	f.until(t, "epoch 8/40")
	again := h.join(t, strings.TrimPrefix(s.url, "http://"), "--slots", "2")
	require.Equal(t, nodes[0].name, again.name)
	await(t, patience, "the node at work again", func() bool { return s.busy(t)[again.name] == 2 })
	require.Zero(t, f.wait(t), f.said.String())
	require.Contains(t, f.out.String(), "SUCCEEDED after 40 epochs")
	require.Equal(t, 40, strings.Count(f.said.String(), "  N=6  samples 1437  "), f.said.String())
	require.Regexp(t, `trouble +retries [12]\n`, f.out.String(), "the two of the node, unless one had just ended")
}

// A job gets no slots but those of nodes with its labels, and waits visibly for one.
func TestE2ELabels(t *testing.T) {
	t.Parallel()
	s, nodes := newHome(t).cluster(t, 1)
	e := s.ask(t, "train", "-f", "mlp", "-d", "digits", "-e", "1000", "-p", "2", "--static", "--require-label", "place=n0")
	require.Zero(t, e.code, e.err)
	await(t, patience, "the node with the label at work", func() bool { return s.busy(t)[nodes[0].name] > 0 })
	for name, busy := range s.busy(t) {
		require.True(t, busy == 0 || name == nodes[0].name, name)
	}
	id := s.submit(t, "--require-label", "gpu=a100")
	shown := s.ask(t, "task", "show", "--id", id)
	require.Contains(t, shown.out, "a free slot on a node with gpu=a100")
	require.Contains(t, s.ask(t, "events", "--id", id).out, "no node has what the job requires, gpu=a100: it waits for one that is started with --node-label gpu=a100")
}

// What lies on another node is added up there, and the model is that of one node.
func TestE2EAnswersAreAddedUpWhereTheyLie(t *testing.T) {
	t.Parallel()
	h, one := newHome(t), newHome(t)
	s := h.up(t, "--listen", "127.0.0.1:0", "--slots", "4", "-vv")
	h.join(t, strings.TrimPrefix(s.url, "http://"),
		"--token", strings.TrimSpace(succeed(t, s.ask(t, "cluster", "token", "create", "--name", "n", "--role", "join")).out), "--slots", "4")
	s.awaitNodes(t, 2)
	flags := []string{"-e", "2", "-p", "8", "--static", "--merge", "nesterov", "--clip", "0.5"}
	want, err := os.ReadFile(one.train(t, flags...).path(t))
	require.NoError(t, err)
	await(t, patience, "a sum", func() bool { // once the slots of the node count
		out := succeed(t, s.ask(t, append([]string{"train", "--follow", "-f", "mlp", "-d", "digits"}, flags...)...)).out
		got, err := os.ReadFile(regexp.MustCompile(`file://(\S+)`).FindStringSubmatch(out)[1])
		require.NoError(t, err)
		require.Equal(t, want, got)
		return strings.Contains(s.log.String(), "*messages.MergePlan") // whichever of the two has the job
	})
	require.NotContains(t, s.log.String(), "sums cannot be merged")
	require.NotContains(t, s.log.String(), "answers not added up")
}
