package cluster_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster"
)

func TestActorsOfAllNodesReachEachOther(t *testing.T) {
	l, nodes := company(t, 2)
	all := append(nodes, l)
	for _, from := range all {
		for _, to := range all {
			require.Equal(t, "hi "+to.first.Self, from.call(t, to.first.Self))
		}
	}
}

func TestAKilledNodeIsGoneAndUsedAgainSoon(t *testing.T) {
	l, nodes := company(t, 2)
	victim := nodes[0]
	before := find(l.members(t, victim.first.Self), victim.first.Self)
	_, err := l.in.Write([]byte("watch " + victim.first.Self + "\n"))
	require.NoError(t, err)
	l.call(t, victim.first.Self)
	killed := time.Now()
	victim.signal(t, syscall.SIGKILL)
	l.await(t, "the end of its actor", func(line told) bool { return line.Terminated == before.Remoting })
	l.awaitMembers(t, 2)
	nodes[1].awaitMembers(t, 2)
	t.Logf("gone for all %v after its death", time.Since(killed))

	started := time.Now()
	again := startChild(t, victim.config)
	require.Equal(t, victim.first.Self, again.first.Self)
	require.Equal(t, victim.first.Address, again.first.Address, "the same port")
	l.awaitMembers(t, 3)
	require.Equal(t, "hi "+again.first.Self, l.call(t, again.first.Self))
	took := time.Since(started)
	t.Logf("used again %v after its start", took)
	require.Less(t, took, 5*time.Second)
	nodes[1].awaitMembers(t, 3)
}

// It is back before anybody has found out that it was gone.
func TestANodeThatIsRestartedAtOnceIsUsedAgain(t *testing.T) {
	l, nodes := company(t, 1)
	victim := nodes[0]
	l.call(t, victim.first.Self)
	before := find(l.members(t, victim.first.Self), victim.first.Self)
	victim.signal(t, syscall.SIGKILL)
	started := time.Now()
	again := startChild(t, victim.config)
	l.await(t, "another life", func(line told) bool {
		m := find(line.Members, again.first.Self)
		return m.Alive && m.Boot != before.Boot
	})
	require.Equal(t, "hi "+again.first.Self, l.call(t, again.first.Self))
	require.Less(t, time.Since(started), 5*time.Second)
}

// A leader that starts again before anybody has missed it knows nobody, and nobody
// has reason to greet it but that it answers as another life.
func TestALeaderThatIsRestartedAtOnceIsFollowed(t *testing.T) {
	l, nodes := company(t, 2)
	l.signal(t, syscall.SIGKILL)
	started := time.Now()
	again := startChild(t, l.config)
	again.awaitMembers(t, 3)
	for _, n := range nodes {
		require.Equal(t, "hi "+again.first.Self, n.call(t, again.first.Self))
		require.Equal(t, "hi "+n.first.Self, again.call(t, n.first.Self))
	}
	require.Less(t, time.Since(started), 10*time.Second)
}

// Whoever was frozen for long was given up: it hears so, ends what it does, and
// comes back as another life of the same node.
func TestAFrozenNodeIsGivenUpAndComesBackAnew(t *testing.T) {
	l, nodes := company(t, 2)
	frozen := nodes[0]
	before := find(l.members(t, frozen.first.Self), frozen.first.Self)
	frozen.signal(t, syscall.SIGSTOP)
	l.awaitMembers(t, 2)
	nodes[1].awaitMembers(t, 2)
	woken := time.Now()
	frozen.signal(t, syscall.SIGCONT)
	out := frozen.await(t, "being put out", func(line told) bool { return line.Out != "" }).Out
	require.True(t, strings.Contains(out, "given this node up") || strings.Contains(out, "reaches fewer"), out)
	l.await(t, "another life", func(line told) bool {
		m := find(line.Members, frozen.first.Self)
		return m.Alive && m.Boot != before.Boot
	})
	require.Equal(t, "hi "+frozen.first.Self, l.call(t, frozen.first.Self))
	t.Logf("used again %v after it woke", time.Since(woken))
	for _, c := range []*child{frozen, nodes[1]} {
		c.awaitMembers(t, 3)
	}
}

// A leader goes on when it wakes: nobody else can lead.
func TestAFrozenLeaderGoesOn(t *testing.T) {
	l, nodes := company(t, 2)
	before := find(nodes[0].members(t, l.first.Self), l.first.Self)
	l.signal(t, syscall.SIGSTOP)
	<-time.After(cluster.LeaseTerm + 2*time.Second)
	l.signal(t, syscall.SIGCONT)
	for _, n := range nodes {
		require.Equal(t, "hi "+l.first.Self, n.call(t, l.first.Self))
		require.Equal(t, "hi "+n.first.Self, l.call(t, n.first.Self))
	}
	require.Equal(t, before.Boot, find(nodes[0].members(t, l.first.Self), l.first.Self).Boot)
}

func TestANodeThatWasFrozenShortlyStays(t *testing.T) {
	l, nodes := company(t, 1)
	before := find(l.members(t, nodes[0].first.Self), nodes[0].first.Self)
	nodes[0].signal(t, syscall.SIGSTOP)
	<-time.After(time.Second)
	nodes[0].signal(t, syscall.SIGCONT)
	require.Equal(t, "hi "+nodes[0].first.Self, l.call(t, nodes[0].first.Self))
	require.Equal(t, before.Boot, find(l.members(t, nodes[0].first.Self), nodes[0].first.Self).Boot)
}

// The nodes go on without a leader, and are found by the next life of it.
func TestALeaderThatIsKilledStopsNobody(t *testing.T) {
	l, nodes := company(t, 2)
	l.signal(t, syscall.SIGKILL)
	for _, n := range nodes {
		n.await(t, "the leader's silence", func(line told) bool {
			return len(line.Members) == 3 && !find(line.Members, l.first.Self).Alive
		})
	}
	require.Equal(t, "hi "+nodes[1].first.Self, nodes[0].call(t, nodes[1].first.Self))
	again := startChild(t, l.config)
	require.Equal(t, l.first.Address, again.first.Address)
	again.awaitMembers(t, 3)
	for _, n := range nodes {
		require.Equal(t, "hi "+again.first.Self, n.call(t, again.first.Self))
	}
}
