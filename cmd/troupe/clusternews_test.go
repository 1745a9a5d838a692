package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster"
)

func TestAServerSaysOnceWhatBecomesOfANode(t *testing.T) {
	a := cluster.Member{Node: "vm-a", Address: "10.0.0.2:4000", Slots: 1}
	for change, want := range map[cluster.Change]string{
		cluster.Joined: "node vm-a at 10.0.0.2:4000, 1 slot, has joined", cluster.Restarted: "node vm-a at 10.0.0.2:4000, 1 slot, has started again",
		cluster.Left: "node vm-a has left", cluster.Lost: "node vm-a is lost: it does not answer any more",
	} {
		require.Equal(t, want, leaderNews(cluster.News{Member: a, Change: change}))
	}
}

func TestANodeSaysThatItsLeaderIsAwayAndBack(t *testing.T) {
	leader, other := cluster.Member{Node: "vm-l", Leader: true}, cluster.Member{Node: "vm-b"}
	const away, back = "the leader, vm-l, is away: this node waits for it", "the leader, vm-l, is back"
	f := &following{}
	for i, c := range []struct {
		of     cluster.Member
		change cluster.Change
		want   string
	}{
		{leader, cluster.Joined, ""},
		{other, cluster.Joined, ""},
		{other, cluster.Lost, ""},
		{leader, cluster.Silent, away},
		{leader, cluster.Left, ""},
		{other, cluster.Answers, ""},
		{leader, cluster.Joined, back},
		{leader, cluster.Restarted, back},
		{leader, cluster.Left, away},
		{leader, cluster.Joined, back},
	} {
		require.Equal(t, c.want, f.news(cluster.News{Member: c.of, Change: c.change}), "%d", i)
	}
}

// What is waited for is counted down.
func TestTheWaitForAClusterSaysHowLongItStillIs(t *testing.T) {
	var out strings.Builder
	s := &session{screen: newScreen(&out)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	s.waits(ctx)(errors.New("nobody is there"))
	require.Contains(t, out.String(), "waiting up to 1h0m0s for the cluster: nobody is there\n")
	out.Reset()
	over, end := context.WithTimeout(t.Context(), -1)
	defer end()
	s.waits(over)(errors.New("nobody is there"))
	require.Contains(t, out.String(), "waiting up to 1s for")
}
