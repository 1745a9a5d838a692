package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/api"
)

// joined is a process of a node that has joined a server.
type joined struct {
	home
	cmd  *exec.Cmd
	name string
	at   string // host:port of its node listener
	out  sync.WaitGroup
}

// join starts a node, and returns once it has joined. It has another store than the
// server, unless flags say otherwise.
func (h home) join(t *testing.T, at string, flags ...string) *joined {
	t.Helper()
	j := &joined{home: h, cmd: h.command(t, append([]string{"up", "--join", at, "--slots", "1"}, flags...)...)}
	j.cmd.Env = append(j.cmd.Env, "TROUPE_STORE=file://"+h.dir+"/own")
	stderr, err := j.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, j.cmd.Start())
	t.Cleanup(func() { _ = j.cmd.Process.Kill() })
	lines := bufio.NewReader(stderr)
	for said := ""; j.name == ""; {
		line, err := lines.ReadString('\n')
		said += line
		require.NoError(t, err, said)
		if found := regexp.MustCompile(`^troupe .*: node (\S+) at (\S+), `).FindStringSubmatch(line); found != nil {
			j.name, j.at = found[1], found[2]
		}
	}
	j.out.Go(func() { _, _ = (&bytes.Buffer{}).ReadFrom(lines) })
	return j
}

func (j *joined) end(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	require.NoError(t, j.cmd.Process.Signal(signal))
	j.out.Wait()
	return exitCode(t, j.cmd.Wait())
}

// awaitNodes asks the server until it has that many.
func (s *server) awaitNodes(t *testing.T, count int) []api.Node {
	t.Helper()
	var nodes []api.Node
	require.Eventually(t, func() bool {
		nodes = nil
		e := s.ask(t, "cluster", "members", "-o", "json")
		return e.code == 0 && json.Unmarshal([]byte(e.out), &nodes) == nil && len(nodes) == count
	}, 30*time.Second, 100*time.Millisecond)
	return nodes
}

// A node joins with a token once, and is the same node without one after that.
func TestE2EANodeJoins(t *testing.T) {
	h := newHome(t)
	s := h.up(t, "--listen", "127.0.0.1:0", "--slots", "1")
	at := strings.TrimPrefix(s.url, "http://")
	require.Zero(t, s.end(t, syscall.SIGTERM))
	printed := regexp.MustCompile(`--token (\S+)`).FindStringSubmatch(s.log.String())[1]
	s = s.again(t)
	e := h.troupe(t, "up", "--join", at)
	require.Equal(t, 2, e.code, e.err)
	require.Contains(t, e.err, "there is no token: give --token-file or --token")
	e = s.ask(t, "cluster", "token", "create", "--name", "n", "--role", "join")
	require.Zero(t, e.code, e.err)
	token := strings.TrimSpace(e.out)
	j := h.join(t, at, "--token", token, "--node-label", "zone=b")
	nodes := s.awaitNodes(t, 2)
	for _, n := range nodes {
		require.True(t, n.Alive)
		require.Equal(t, n.Name != j.name, n.Leader)
		if !n.Leader {
			require.Equal(t, map[string]string{"zone": "b"}, n.Labels)
			require.EqualValues(t, 1, n.Slots)
		}
	}
	require.Zero(t, j.end(t, syscall.SIGTERM))
	s.awaitNodes(t, 1)
	require.Zero(t, s.ask(t, "cluster", "token", "revoke", "--name", "n").code)
	again := h.join(t, at)
	require.Equal(t, j.name, again.name)
	s.awaitNodes(t, 2)

	other := newHome(t)
	e = other.troupe(t, "up", "--join", at, "--token", token)
	require.Equal(t, 2, e.code, e.err)
	require.Contains(t, e.err, `the join token "n" was revoked`)
	require.NotContains(t, strings.Join(files(t, other.dir), " "), "joined-", "of who was refused nothing is left")
	third := other.join(t, at, "--token", printed) // before the server was started again
	require.Len(t, s.awaitNodes(t, 3), 3)
	require.Zero(t, third.end(t, syscall.SIGTERM))
	require.Zero(t, again.end(t, syscall.SIGTERM))
	require.Zero(t, s.end(t, syscall.SIGTERM))
}
