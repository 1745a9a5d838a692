//go:build netns

package e2e_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// owner is the node that has claimed a job first.
func (m *machines) owner(t *testing.T, id string) (node string) {
	t.Helper()
	var claim struct{ Node string }
	await(t, patience, "a claim", func() bool {
		b, err := os.ReadFile(filepath.Join(m.server.store, "jobs", id, "incarnations", "1", "claim"))
		return err == nil && json.Unmarshal(b, &claim) == nil
	})
	return claim.Node
}

// A job goes on when two of three machines do not reach each other, or one way
// only, or one is off the network: every epoch has every sample once, and no
// assignment is given up. Once they reach each other again, all are at work. The
// job is at home on a machine that has joined, since it runs on no other.
func TestNetAJobGoesOnWhenMachinesDoNotReachEachOther(t *testing.T) {
	const leader, home, other = "leader", "home", "other"
	cuts := map[string][][2]string{
		"the job's home and another machine": {{home, other}, {other, home}},
		"the job's home and the leader":      {{home, leader}, {leader, home}},
		"the job's home and all others":      {{home, leader}, {leader, home}, {home, other}, {other, home}},
		"from the leader to another machine": {{leader, other}},
	}
	if lengthy() {
		maps.Copy(cuts, map[string][][2]string{
			"another machine and all others":      {{leader, other}, {other, leader}, {home, other}, {other, home}},
			"the leader and another machine":      {{leader, other}, {other, leader}},
			"from the job's home to another":      {{home, other}},
			"from the leader to the job's home":   {{leader, home}},
			"from the job's home to the leader":   {{home, leader}},
			"from another machine to all others":  {{other, home}, {other, leader}},
			"from the job's home to all machines": {{home, other}, {home, leader}},
		})
	}
	for name, severed := range cuts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachines(t, 2, 2, "1")
			f := m.server.follow(t, "train", "-f", "mlp", "-d", "digits", "-e", "50", "-p", "4", "--static", "--require-label", "joined=yes", "--chaos", "slow=1,seed=3", "--follow")
			id := strings.TrimSuffix(strings.Fields(f.until(t, "job "))[1], ":")
			f.until(t, "epoch 2/50")
			role := map[string]int{leader: 0, home: 1, other: 2}
			if at := m.owner(t, id); at == m.nodes[1].name {
				role[home], role[other] = 2, 1
			} else {
				require.Equal(t, m.nodes[0].name, at)
			}
			for _, pair := range severed {
				m.Sever(role[pair[0]], role[pair[1]])
			}
			cut := time.Now()
			f.until(t, "epoch 4/50")
			t.Logf("two epochs %v after the cut", time.Since(cut))
			<-time.After(max(0, 20*time.Second-time.Since(cut))) // longer than any lease
			for _, pair := range severed {
				m.Mend(role[pair[0]], role[pair[1]])
			}
			mended := time.Now()
			m.server.awaitNodes(t, 3)
			await(t, patience, "all at work, or the end", func() bool {
				busy := m.server.busy(t)
				return busy[m.nodes[0].name] > 0 && busy[m.nodes[1].name] > 0 || m.server.show(t, id).Phase == "SUCCEEDED"
			})
			t.Logf("all at work %v after the cut was mended", time.Since(mended))
			code := f.wait(t)
			require.Zero(t, code, "%s%s", &f.said, succeed(t, m.server.ask(t, "events", "--id", id)).out)
			shown := m.server.show(t, id)
			require.Len(t, shown.Epochs, 50)
			for i, epoch := range shown.Epochs {
				require.Equal(t, []int{i + 1, 1437}, []int{epoch.Epoch, epoch.Samples})
			}
		})
	}
}
