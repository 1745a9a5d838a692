package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/api"
)

// A node that reaches the server's bucket itself works in that; one that is told to
// work in another one is refused. When the server comes back with another store, the
// node does not go on in the old one.
func TestE2EANodeSharesTheStore(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	s := h.up(t, "--listen", "127.0.0.1:0", "--slots", "1")
	at := strings.TrimPrefix(s.url, "http://")
	e := s.ask(t, "cluster", "token", "create", "--name", "n", "--role", "join")
	require.Zero(t, e.code, e.err)
	token := strings.TrimSpace(e.out)
	far := h.join(t, at, "--token", token, "--cache", h.dir+"/far")
	shares := func(nodes []api.Node) map[string]bool {
		shares := map[string]bool{}
		for _, n := range nodes {
			shares[n.Name] = n.SharesStore
		}
		return shares
	}
	nodes := shares(s.awaitNodes(t, 2))
	require.False(t, nodes[far.name])
	delete(nodes, far.name)
	for leader := range nodes {
		require.Contains(t, s.ask(t, "cluster", "members").out, "\nstore: only on "+leader+"\n")
	}
	near := h.join(t, at, "--token", token, "--store", "file://"+h.store, "--cache", h.dir+"/near")
	require.True(t, shares(s.awaitNodes(t, 3))[near.name])
	require.Contains(t, s.ask(t, "cluster", "members").out, "\nstore: on ")
	require.Zero(t, s.ask(t, "dataset", "create", "--name", "noise", "--from", h.samples(t, 300, 60, 4)).code)
	e = s.ask(t, "train", "-f", "mlp", "-d", "noise", "-e", "100000", "-p", "3", "--static")
	require.Zero(t, e.code, e.err)
	await(t, patience, "all nodes at work", func() bool {
		busy := s.busy(t)
		return busy[near.name] == 1 && busy[far.name] == 1 && len(files(t, h.dir+"/far/datasets")) == 4
	})
	require.Empty(t, files(t, h.dir+"/near"), "there the data set is used in place")
	require.Zero(t, s.ask(t, "task", "stop", "--id", strings.TrimSpace(e.out), "--wait").code)

	other := newHome(t)
	other.train(t, "-e", "1") // which names its store
	require.Zero(t, other.troupe(t, "dataset", "create", "--name", "noise", "--from", h.samples(t, 300, 60, 4)).code)
	var ids [2]struct{ ID string }
	for i, path := range []string{h.store, other.store} {
		text, err := os.ReadFile(filepath.Join(path, "store.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &ids[i]))
	}
	e = other.troupe(t, "up", "--join", at, "--token", token, "--store", "file://"+other.store)
	require.Equal(t, 4, e.code, e.err)
	for _, id := range ids {
		require.NotEmpty(t, id.ID)
		require.Contains(t, e.err, id.ID)
	}

	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
	s = h.up(t, "--listen", at, "--store", "file://"+other.store, "--slots", "1")
	near.out.Wait()
	require.Equal(t, 4, exitCode(t, near.cmd.Wait()), "it was named, and is not the server's any more")
	require.False(t, shares(s.awaitNodes(t, 2))[far.name])
	succeed(t, s.ask(t, "train", "--follow", "-f", "mlp", "-d", "noise", "-e", "2", "-p", "2", "--static"))
	require.Zero(t, far.end(t, syscall.SIGTERM))
	require.Zero(t, s.end(t, syscall.SIGTERM), s.log.String())
}
