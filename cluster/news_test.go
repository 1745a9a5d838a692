package cluster_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster"
)

// What becomes of a node is told once each time.
func TestWhatBecomesOfNodesIsToldOnce(t *testing.T) {
	l, b := cluster.NewTable("head", true), cluster.NewTable("beta", false)
	told := func(table cluster.Table) (out []string) {
		for _, n := range table.News() {
			out = append(out, n.Change.String()+" "+n.Boot)
		}
		slices.Sort(out)
		return out
	}
	at := 0
	step := func(ofHead, ofBeta []string, nodes ...[2]string) {
		t.Helper()
		for range 2 {
			for table, want := range map[cluster.Table][]string{l: ofHead, b: ofBeta} {
				table.Update(after(time.Duration(at)*time.Second), nodes...)
				require.Equal(t, want, told(table), "at %d", at)
			}
			ofHead, ofBeta = nil, nil // again it is none
		}
	}
	step([]string{"node joined a1", "node joined b1"}, []string{"node joined a1", "node joined h1"}, head, alpha, beta)
	at = 4
	step([]string{"node lost a1"}, []string{"node silent a1"}, head, beta)
	b.Told(l.Evictions(), after(4*time.Second))
	step(nil, []string{"node lost a1"}, head, beta)
	step([]string{"node joined a2"}, []string{"node joined a2"}, head, beta, [2]string{"alpha", "a2"})
	step([]string{"node restarted a3"}, []string{"node restarted a3"}, head, beta, [2]string{"alpha", "a3"})
	l.Left("alpha", "a3", after(4*time.Second))
	b.Left("alpha", "a3", after(4*time.Second))
	step([]string{"node left a3"}, []string{"node left a3"}, head, beta)
	at = 8
	b.Update(after(8*time.Second), beta)
	require.Equal(t, []string{"node silent h1"}, told(b))
	b.Update(after(8*time.Second), head, beta)
	require.Equal(t, []string{"node answers again h1"}, told(b))
}
