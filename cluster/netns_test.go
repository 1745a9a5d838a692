//go:build netns

package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster/trust"
)

// net of machines: each a network namespace with one link to a bridge, in a
// namespace of its own, that this machine does not see.
type machines struct {
	prefix string
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
}

// newMachines makes that many machines: 10.77.0.1 and so on.
func newMachines(t *testing.T, count int) machines {
	t.Helper()
	m := machines{prefix: fmt.Sprintf("troupe%d", os.Getpid())}
	t.Cleanup(func() {
		for i := range count {
			_ = exec.Command("ip", "netns", "del", m.name(i)).Run()
		}
		_ = exec.Command("ip", "netns", "del", m.bridge()).Run()
	})
	ip(t, "netns", "add", m.bridge())
	ip(t, "-n", m.bridge(), "link", "add", "br0", "type", "bridge")
	ip(t, "-n", m.bridge(), "link", "set", "br0", "up")
	for i := range count {
		ip(t, "netns", "add", m.name(i))
		ip(t, "link", "add", "eth0", "netns", m.name(i), "type", "veth", "peer", "name", m.port(i), "netns", m.bridge())
		ip(t, "-n", m.bridge(), "link", "set", m.port(i), "master", "br0", "up")
		ip(t, "-n", m.name(i), "addr", "add", m.address(i)+"/24", "dev", "eth0")
		ip(t, "-n", m.name(i), "link", "set", "eth0", "up")
		ip(t, "-n", m.name(i), "link", "set", "lo", "up")
	}
	return m
}

func (m machines) bridge() string       { return m.prefix + "br" }
func (m machines) name(i int) string    { return fmt.Sprintf("%sn%d", m.prefix, i) }
func (m machines) port(i int) string    { return fmt.Sprintf("p%d", i) }
func (m machines) address(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// cut takes a machine off the network; heal puts it back.
func (m machines) cut(t *testing.T, i int) { ip(t, "-n", m.bridge(), "link", "set", m.port(i), "down") }

func (m machines) heal(t *testing.T, i int) { ip(t, "-n", m.bridge(), "link", "set", m.port(i), "up") }

// company starts a leader on the first machine, and a node on each other one.
func (m machines) company(t *testing.T, count int) (*child, []*child) {
	t.Helper()
	dir := t.TempDir()
	config := childConfig{Dir: dir, Host: m.address(0), Namespace: m.name(0)}
	l := startChild(t, config)
	a, err := trust.OpenAuthority(dir)
	require.NoError(t, err)
	token, err := a.CreateToken("all")
	require.NoError(t, err)
	var nodes []*child
	for i := 1; i < count; i++ {
		nodes = append(nodes, startChild(t, childConfig{
			Dir: filepath.Join(dir, fmt.Sprint("worker", i)), Token: token, API: l.first.API, Host: m.address(i), Namespace: m.name(i),
		}))
	}
	for _, c := range append(nodes, l) {
		c.awaitMembers(t, count)
	}
	return l, nodes
}

// A machine that is cut off stops by itself, is given up by the others, and is
// back as another life once it is reached again.
func TestNetAMachineThatIsCutOffStopsAndComesBack(t *testing.T) {
	m := newMachines(t, 3)
	l, nodes := m.company(t, 3)
	lost := nodes[1]
	before := find(l.members(t, lost.first.Self), lost.first.Self)
	cut := time.Now()
	m.cut(t, 2)
	l.awaitMembers(t, 2)
	t.Logf("given up %v after the cut", time.Since(cut))
	nodes[0].awaitMembers(t, 2)
	out := lost.await(t, "being out", func(line told) bool { return line.Out != "" }).Out
	require.Contains(t, out, "fewer than half")
	t.Logf("fenced %v after the cut", time.Since(cut))
	require.Equal(t, "hi "+nodes[0].first.Self, l.call(t, nodes[0].first.Self), "the others go on")
	m.heal(t, 2)
	healed := time.Now()
	l.await(t, "another life", func(line told) bool {
		is := find(line.Members, lost.first.Self)
		return is.Alive && is.Boot != before.Boot
	})
	require.Equal(t, "hi "+lost.first.Self, l.call(t, lost.first.Self))
	t.Logf("used again %v after the heal", time.Since(healed))
	for _, c := range nodes {
		c.awaitMembers(t, 3)
	}
}

// A cut that is over before the lease: the leader has given the node up, and says
// so.
func TestNetAMachineThatIsCutOffShortlyIsToldWhatItMissed(t *testing.T) {
	m := newMachines(t, 3)
	l, nodes := m.company(t, 3)
	lost := nodes[1]
	m.cut(t, 2)
	l.awaitMembers(t, 2)
	m.heal(t, 2)
	healed := time.Now()
	out := lost.await(t, "being out", func(line told) bool { return line.Out != "" }).Out
	require.Contains(t, out, "given this node up")
	for _, c := range append(nodes, l) {
		c.awaitMembers(t, 3)
	}
	t.Logf("three again %v after the heal", time.Since(healed))
	require.Equal(t, "hi "+lost.first.Self, nodes[0].call(t, lost.first.Self))
	require.Equal(t, "hi "+l.first.Self, lost.call(t, l.first.Self))
}

// A leader that is cut off from all others stops; they go on, and are its nodes
// again when it is back.
func TestNetALeaderThatIsCutOffStops(t *testing.T) {
	m := newMachines(t, 3)
	l, nodes := m.company(t, 3)
	m.cut(t, 0)
	require.Contains(t, l.await(t, "being out", func(line told) bool { return line.Out != "" }).Out, "fewer than half")
	require.Equal(t, "hi "+nodes[1].first.Self, nodes[0].call(t, nodes[1].first.Self))
	m.heal(t, 0)
	for _, c := range append(nodes, l) {
		c.awaitMembers(t, 3)
	}
	for _, n := range nodes {
		require.Equal(t, "hi "+l.first.Self, n.call(t, l.first.Self))
	}
}
