//go:build netns

package e2e_test

import (
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/netns"
)

// lengthy reports whether what takes minutes is tested, too: make cluster LONG=1.
func lengthy() bool { return os.Getenv("TROUPE_CLUSTER_LONG") != "" }

// machines are a server and nodes that have joined it, each on a machine of its
// own, with a home there.
type machines struct {
	*netns.Net
	server *server
	nodes  []*joined // on machine 1 and so on
	at     string    // host:port to join
	token  string
}

// newMachines makes a server of some slots and that many nodes of two, on a net that
// has room for more.
func newMachines(t *testing.T, nodes, room int, slots string) *machines {
	t.Helper()
	m := &machines{Net: netns.New(t, 1+room)}
	m.server = m.home(t, 0).up(t, "--listen", "0.0.0.0:8780", "--slots", slots)
	m.at = net.JoinHostPort(m.Address(0), "8780")
	m.token = strings.TrimSpace(succeed(t, m.server.ask(t, "cluster", "token", "create", "--name", "n", "--role", "join")).out)
	for range nodes {
		m.join(t)
	}
	m.server.awaitNodes(t, 1+nodes)
	return m
}

// home is a user's on a machine.
func (m *machines) home(t *testing.T, i int) home {
	t.Helper()
	h := newHome(t)
	h.namespace = m.Namespace(i)
	return h
}

// join has a node join on the next machine.
func (m *machines) join(t *testing.T, flags ...string) *joined {
	t.Helper()
	j := m.home(t, 1+len(m.nodes)).join(t, m.at, append([]string{"--token", m.token, "--slots", "2", "--node-label", "joined=yes"}, flags...)...)
	m.nodes = append(m.nodes, j)
	return j
}

// end ends them all as people do.
func (m *machines) end(t *testing.T) {
	t.Helper()
	for _, n := range m.nodes {
		require.Zero(t, n.end(t, syscall.SIGTERM))
	}
	require.Zero(t, m.server.end(t, syscall.SIGTERM), m.server.log.String())
}

// worked are the workers of nodes by the node's process.
type worked map[int][]int

// working waits until all nodes have a zygote and two workers, and returns those.
func (m *machines) working(t *testing.T) worked {
	t.Helper()
	w := worked{}
	await(t, patience, "all nodes at work", func() bool {
		w[m.server.cmd.Process.Pid] = workers(t, m.server.cmd.Process.Pid)
		for _, n := range m.nodes {
			w[n.cmd.Process.Pid] = workers(t, n.cmd.Process.Pid)
		}
		for _, pids := range w {
			if len(pids) < 3 {
				return false
			}
		}
		return true
	})
	return w
}

// same requires that they are the same processes still.
func (w worked) same(t *testing.T) {
	t.Helper()
	for node, pids := range w {
		require.Subset(t, workers(t, node), pids, "workers that were well are the same processes")
	}
}

// workers are the processes that a node has for functions.
func workers(t *testing.T, node int) (pids []int) {
	t.Helper()
	for _, pid := range children(t, node) {
		pids = append(append(pids, pid), workers(t, pid)...)
	}
	slices.Sort(pids)
	return pids
}

// again starts a node again.
func (m *machines) again(t *testing.T, dead *joined) *joined {
	t.Helper()
	return dead.home.join(t, m.at, "--slots", "2", "--node-label", "joined=yes")
}

// someOf are the first images of Fashion-MNIST, that many for training and for
// tests.
func (h home) someOf(t *testing.T, folder string, train, test int) string {
	t.Helper()
	read := func(name string, head, size, count int) []byte {
		f, err := os.Open(filepath.Join(folder, name))
		require.NoError(t, err)
		defer f.Close()
		z, err := gzip.NewReader(f)
		require.NoError(t, err)
		b := make([]byte, head+size*count)
		_, err = io.ReadFull(z, b)
		require.NoError(t, err)
		return b[head:]
	}
	arrays := map[string][]byte{}
	for part, count := range map[string]int{"train": train, "test": test} {
		file := map[string]string{"train": "train", "test": "t10k"}[part]
		arrays["x_"+part] = append(npy("|u1", fmt.Sprintf("(%d, 28, 28)", count), 0), read(file+"-images-idx3-ubyte.gz", 16, 28*28, count)...)
		arrays["y_"+part] = append(npy("|u1", fmt.Sprintf("(%d,)", count), 0), read(file+"-labels-idx1-ubyte.gz", 8, 1, count)...)
	}
	return h.save(t, "fashion.npz", npz(t, arrays))
}

// lenet stores the example and its data.
func (m *machines) lenet(t *testing.T, data string) {
	t.Helper()
	code, err := filepath.Abs("../../../examples/lenet.py")
	require.NoError(t, err)
	succeed(t, m.server.ask(t, "function", "create", "--name", "lenet", "--code", code))
	succeed(t, m.server.ask(t, "dataset", "create", "--name", "fashion", "--from", data))
}

// model is the digest of the model that a job has made, as is printed at its end.
func model(t *testing.T, out string) string {
	t.Helper()
	found := regexp.MustCompile(`file://(\S+)`).FindStringSubmatch(out)
	require.NotNil(t, found, out)
	b, err := os.ReadFile(found[1])
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// LeNet on three machines. A fourth joins in the middle of an epoch, and works
// from the next round on; no worker that was well is another process afterwards.
func TestNetAMachineJoinsInMidEpoch(t *testing.T) {
	t.Parallel()
	m := newMachines(t, 2, 3, "2")
	m.lenet(t, fashionMNIST(t))
	f := m.server.follow(t, "train", "-f", "lenet", "-d", "fashion", "-e", "1", "-b", "128", "-K", "4", "-p", "8", "--no-backup", "--follow")
	id := strings.TrimSuffix(strings.Fields(f.until(t, "job "))[1], ":")
	well := m.working(t)
	fourth := m.join(t)
	await(t, patience, "the fourth machine at work", func() bool { return m.server.busy(t)[fourth.name] == 2 })
	require.Equal(t, 1, m.server.show(t, id).Epoch, "in the middle of an epoch")
	require.Zero(t, f.wait(t), f.said.String())
	require.Contains(t, f.out.String(), "SUCCEEDED after 1 epoch ")
	require.Equal(t, 1, strings.Count(f.said.String(), "  samples 60000  "), f.said.String())
	well.same(t)
	m.end(t)
}

// A static job of six functions gives the same bytes on one, two and three
// machines: LeNet, and a model of float64 with the state of an optimizer.
func TestNetTheModelIsTheSameOnAnyNumberOfMachines(t *testing.T) {
	t.Parallel()
	m := newMachines(t, 0, 2, "2")
	m.lenet(t, m.server.someOf(t, fashionMNIST(t), 3000, 500))
	succeed(t, m.server.ask(t, "function", "create", "--name", "doubles", "--code", program(t, "doubles.py")))
	succeed(t, m.server.ask(t, "dataset", "create", "--name", "noise", "--from", m.server.samples(t, 300, 60, 4)))
	models := map[string]string{}
	for machines := 1; machines <= 3; machines++ {
		m.server.awaitNodes(t, machines)
		for _, job := range [][]string{
			{"-f", "lenet", "-d", "fashion", "-b", "32", "-K", "4"},
			{"-f", "doubles", "-d", "noise", "-b", "8", "-K", "2", "--merge", "nesterov"},
		} {
			e := succeed(t, m.server.ask(t, append([]string{"train"}, append(job, "-e", "2", "-p", "6", "--static", "--follow")...)...))
			require.Contains(t, e.out, "SUCCEEDED after 2 epochs")
			digest := model(t, e.out)
			if machines == 1 {
				models[job[1]] = digest
			}
			require.Equal(t, models[job[1]], digest, "%s on %d machines", job[1], machines)
		}
		if machines < 3 {
			m.join(t)
		}
	}
	require.NotEqual(t, models["lenet"], models["doubles"])
	for _, n := range m.nodes {
		require.GreaterOrEqual(t, len(workers(t, n.cmd.Process.Pid)), 3, "it was at work")
	}
	m.end(t)
}

// kill -9 of a node in the middle of a round: what it had runs elsewhere, nothing
// else is tried again, and no other process begins anew. Started again it is used
// again, on the port that it had.
func TestNetAMachineIsKilledInMidRound(t *testing.T) {
	t.Parallel()
	m := newMachines(t, 2, 3, "2")
	succeed(t, m.server.ask(t, "function", "create", "--name", "doubles", "--code", program(t, "doubles.py")))
	succeed(t, m.server.ask(t, "dataset", "create", "--name", "noise", "--from", m.server.samples(t, 300, 60, 4)))
	f := m.server.follow(t, "train", "-f", "doubles", "-d", "noise", "-e", "6", "-b", "5", "-K", "5", "-p", "6", "--static", "--no-backup", "--env", "PAUSE=0.1", "--follow")
	id := strings.TrimSuffix(strings.Fields(f.until(t, "job "))[1], ":")
	f.until(t, "epoch 2/6")
	well := m.working(t)
	dead, at := m.nodes[0], 0
	if m.owner(t, id) == dead.name { // the job is to stay at home
		dead, at = m.nodes[1], 1
	}
	await(t, patience, "it is at work", func() bool { return m.server.busy(t)[dead.name] == 2 })
	dead.end(t, syscall.SIGKILL)
	delete(well, dead.cmd.Process.Pid)
	f.until(t, "epoch 3/6")
	m.nodes[at] = m.again(t, dead)
	require.Equal(t, dead.name, m.nodes[at].name)
	require.Equal(t, dead.at, m.nodes[at].at, "the same port")
	await(t, patience, "the node at work again", func() bool { return m.server.busy(t)[dead.name] == 2 })
	require.Zero(t, f.wait(t), f.said.String())
	require.Contains(t, f.out.String(), "SUCCEEDED after 6 epochs")
	require.Equal(t, 6, strings.Count(f.said.String(), "  N=6  samples 300  "), f.said.String())
	failures, stragglers := 0, 0 // those that a busy machine makes
	for _, line := range strings.Split(succeed(t, m.server.ask(t, "events", "--id", id)).out, "\n") {
		switch {
		case !strings.Contains(line, "function_failed"):
		case strings.Contains(line, "timed out after"):
			stragglers++
		default:
			failures++
			require.Contains(t, line, dead.name)
		}
	}
	require.InDelta(t, 1.5, failures, 0.5, "the two of the node, unless one had just ended")
	if stragglers == 0 { // a straggler that is cut takes its worker along
		well.same(t)
	}
	m.end(t)
}

// All of it over IPv6, where addresses stand in brackets.
func TestNetAJobOverIPv6(t *testing.T) {
	t.Parallel()
	n := netns.New(t, 2)
	h, other := newHome(t), newHome(t)
	h.namespace, other.namespace = n.Namespace(0), n.Namespace(1)
	at := net.JoinHostPort(n.Address6(0), "8780")
	s := h.up(t, "--listen", at, "--slots", "1")
	require.Equal(t, "https://"+at, s.url)
	token := strings.TrimSpace(succeed(t, s.ask(t, "cluster", "token", "create", "--name", "n", "--role", "join")).out)
	j := other.join(t, at, "--token", token, "--advertise", n.Address6(1))
	s.awaitNodes(t, 2)
	f := s.follow(t, "train", "-f", "mlp", "-d", "digits", "-e", "20", "-p", "2", "--static", "--follow", "--require-label", "zone=b")
	k := other.join(t, at, "--token", token, "--node-label", "zone=b", "--slots", "2")
	require.Zero(t, f.wait(t), f.said.String())
	require.Equal(t, 20, strings.Count(f.said.String(), "  N=2  samples 1437  "), f.said.String())
	require.Zero(t, k.end(t, syscall.SIGTERM))
	require.Zero(t, j.end(t, syscall.SIGTERM))
	require.Zero(t, s.end(t, syscall.SIGTERM))
}
