//go:build netns

package cluster_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/netns"
)

// netCompany starts a leader on the first machine, and a node on each other one.
func netCompany(t *testing.T, m *netns.Net, count int) (*child, []*child) {
	t.Helper()
	return netCompanyAt(t, m, count, m.Address)
}

func netCompanyAt(t *testing.T, m *netns.Net, count int, address func(int) string) (*child, []*child) {
	t.Helper()
	dir := t.TempDir()
	config := childConfig{Dir: dir, Host: address(0), Namespace: m.Namespace(0)}
	l := startChild(t, config)
	a, err := trust.OpenAuthority(dir)
	require.NoError(t, err)
	token, err := a.CreateToken("all")
	require.NoError(t, err)
	var nodes []*child
	for i := 1; i < count; i++ {
		nodes = append(nodes, startChild(t, childConfig{
			Dir: filepath.Join(dir, fmt.Sprint("worker", i)), Token: token, API: l.first.API, Host: address(i), Namespace: m.Namespace(i),
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
	m := netns.New(t, 3)
	l, nodes := netCompany(t, m, 3)
	lost := nodes[1]
	before := find(l.members(t, lost.first.Self), lost.first.Self)
	cut := time.Now()
	m.Cut(2)
	l.awaitMembers(t, 2)
	t.Logf("given up %v after the cut", time.Since(cut))
	nodes[0].awaitMembers(t, 2)
	out := lost.await(t, "being out", func(line told) bool { return line.Out != "" }).Out
	require.Contains(t, out, "fewer than half")
	t.Logf("fenced %v after the cut", time.Since(cut))
	require.Equal(t, "hi "+nodes[0].first.Self, l.call(t, nodes[0].first.Self), "the others go on")
	m.Heal(2)
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
	m := netns.New(t, 3)
	l, nodes := netCompany(t, m, 3)
	lost := nodes[1]
	m.Cut(2)
	l.awaitMembers(t, 2)
	m.Heal(2)
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
	m := netns.New(t, 3)
	l, nodes := netCompany(t, m, 3)
	m.Cut(0)
	require.Contains(t, l.await(t, "being out", func(line told) bool { return line.Out != "" }).Out, "fewer than half")
	require.Equal(t, "hi "+nodes[1].first.Self, nodes[0].call(t, nodes[1].first.Self))
	m.Heal(0)
	for _, c := range append(nodes, l) {
		c.awaitMembers(t, 3)
	}
	for _, n := range nodes {
		require.Equal(t, "hi "+l.first.Self, n.call(t, l.first.Self))
	}
}

// Two nodes that do not reach each other go on, since they reach the leader. They
// reach each other again once they can.
func TestNetTwoThatDoNotReachEachOtherGoOn(t *testing.T) {
	for name, severed := range map[string][][2]int{
		"both ways": {{1, 2}, {2, 1}},
		"one way":   {{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := netns.New(t, 3)
			l, nodes := netCompany(t, m, 3)
			all := []*child{l, nodes[0], nodes[1]}
			boots := map[string]string{}
			for _, member := range l.members(t, nodes[1].first.Self) {
				boots[member.Node] = member.Boot
			}
			require.Equal(t, "hi "+nodes[1].first.Self, nodes[0].call(t, nodes[1].first.Self))
			for _, pair := range severed {
				m.Sever(pair[0], pair[1])
			}
			_, failed := nodes[0].try(t, nodes[1].first.Self)
			require.NotEmpty(t, failed, "nothing passes")
			<-time.After(15 * time.Second) // longer than a lease
			for _, pair := range severed {
				m.Mend(pair[0], pair[1])
			}
			for _, a := range all {
				for _, b := range all {
					require.Equal(t, "hi "+b.first.Self, a.call(t, b.first.Self))
				}
			}
			for _, c := range all {
				for _, member := range c.members(t, l.first.Self) {
					require.Equal(t, boots[member.Node], member.Boot, "nobody began again")
					require.True(t, member.Alive)
				}
			}
		})
	}
}

// A node that the leader does not reach, though a third one reaches both, is given
// up, hears so from the third one, and is back once the leader reaches it.
func TestNetANodeThatTheLeaderDoesNotReachIsGivenUp(t *testing.T) {
	for name, severed := range map[string][][2]int{
		"both ways":       {{0, 2}, {2, 0}},
		"from the leader": {{0, 2}},
		"to the leader":   {{2, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := netns.New(t, 3)
			l, nodes := netCompany(t, m, 3)
			for _, pair := range severed {
				m.Sever(pair[0], pair[1])
			}
			l.awaitMembers(t, 2)
			out := nodes[1].await(t, "being out", func(line told) bool { return line.Out != "" }).Out
			require.Contains(t, out, "given this node up")
			nodes[0].awaitMembers(t, 2)
			for _, pair := range severed {
				m.Mend(pair[0], pair[1])
			}
			for _, c := range append(nodes, l) {
				c.awaitMembers(t, 3)
			}
			require.Equal(t, "hi "+nodes[1].first.Self, l.call(t, nodes[1].first.Self))
		})
	}
}

// All of it over IPv6, where addresses stand in brackets.
func TestNetIPv6(t *testing.T) {
	m := netns.New(t, 3)
	l, nodes := netCompanyAt(t, m, 3, m.Address6)
	for _, a := range append(nodes, l) {
		for _, b := range append(nodes, l) {
			require.Equal(t, "hi "+b.first.Self, a.call(t, b.first.Self))
		}
	}
	m.Cut(2)
	l.awaitMembers(t, 2)
	m.Heal(2)
	l.awaitMembers(t, 3)
	require.Equal(t, "hi "+nodes[1].first.Self, l.call(t, nodes[1].first.Self))
}
