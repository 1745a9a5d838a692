package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/cluster"
)

// shown is a table as text: node/boot, "?" behind those that are not alive.
func shown(members []cluster.Member) string {
	var out []string
	for _, m := range members {
		text := m.Node + "/" + m.Boot
		if !m.Alive {
			text += "?"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

var (
	head, alpha, beta = [2]string{"head", "h1"}, [2]string{"alpha", "a1"}, [2]string{"beta", "b1"}
	begin             = time.Unix(1000, 0)
)

func after(d time.Duration) time.Time { return begin.Add(d) }

func TestOnlyTheLeaderGivesANodeUp(t *testing.T) {
	l, b := cluster.NewTable("head", true), cluster.NewTable("beta", false)
	for _, table := range []cluster.Table{l, b} {
		_, changed := table.Update(begin, head, alpha, beta)
		require.True(t, changed)
		_, changed = table.Update(after(time.Second), head, beta)
		require.False(t, changed, "it has answered a second ago")
	}
	gone, changed := l.Update(after(3*time.Second), head, beta)
	require.Equal(t, "alpha/a1", shown(gone))
	require.True(t, changed)
	require.Equal(t, "beta/b1 head/h1", shown(l.List()))
	require.Equal(t, []string{"a1"}, l.Evictions())

	gone, changed = b.Update(after(3*time.Second), head, beta)
	require.Equal(t, "alpha/a1", shown(gone), "what was sent there is lost")
	require.True(t, changed)
	require.Equal(t, "alpha/a1? beta/b1 head/h1", shown(b.List()))
	require.Empty(t, b.Evictions())
	_, changed = b.Update(after(4*time.Second), head, alpha, beta)
	require.True(t, changed, "it is back")
	require.Equal(t, "alpha/a1 beta/b1 head/h1", shown(b.List()))

	b.Told(l.Evictions(), after(5*time.Second))
	gone, _ = b.Update(after(5*time.Second), head, alpha, beta)
	require.Equal(t, "alpha/a1", shown(gone))
	for _, table := range []cluster.Table{l, b} {
		table.Update(after(6*time.Second), head, alpha, beta)
		require.Equal(t, "beta/b1 head/h1", shown(table.List()), "that life of it is over")
		table.Update(after(7*time.Second), head, beta, [2]string{"alpha", "a2"})
		require.Equal(t, "alpha/a2 beta/b1 head/h1", shown(table.List()))
	}
}

func TestANodeThatAnswersIsNotGivenUp(t *testing.T) {
	l := cluster.NewTable("head", true)
	l.Update(begin, head, alpha)
	for i := range 10 { // the gossip has lost it, as it does on a busy machine
		now := after(time.Duration(i) * time.Second)
		l.Heard("alpha", "a1", now)
		l.Update(now, head)
		require.Equal(t, "alpha/a1 head/h1", shown(l.List()))
	}
	l.Heard("alpha", "a2", after(15*time.Second)) // another life of it answers, not this one
	l.Update(after(15*time.Second), head)
	require.Equal(t, "head/h1", shown(l.List()))
}

func TestAGoodbyeIsOfOneLife(t *testing.T) {
	l := cluster.NewTable("head", true)
	l.Update(begin, head, alpha, beta)
	l.Left("alpha", "a0", after(1))
	require.Equal(t, "alpha/a1 beta/b1 head/h1", shown(l.List()))
	l.Left("alpha", "a1", after(2))
	gone, changed := l.Update(after(3), head, alpha, beta) // the gossip is late
	require.True(t, changed)
	require.Equal(t, "alpha/a1", shown(gone))
	require.Equal(t, "beta/b1 head/h1", shown(l.List()))
	require.Empty(t, l.Evictions(), "it went by itself")
}

func TestANewLifeEndsTheOneBefore(t *testing.T) {
	l := cluster.NewTable("head", true)
	l.Update(begin, head, alpha)
	gone, changed := l.Update(after(1), head, [2]string{"alpha", "a2"})
	require.True(t, changed)
	require.Equal(t, "alpha/a1", shown(gone))
	l.Update(after(2), head, alpha) // what is late of the one before
	require.Equal(t, "alpha/a2 head/h1", shown(l.List()))
	require.Empty(t, l.Evictions())
}

// A leader that has just begun hears of a node that has just begun, and then, from
// those who were there before, of its life before.
func TestAnEarlierLifeEndsNone(t *testing.T) {
	l, b := cluster.NewTable("head", true), cluster.NewTable("beta", false)
	for _, table := range []cluster.Table{l, b} {
		table.Update(begin, head, [2]string{"alpha", "a2"})
		gone, changed := table.Update(after(1), head, alpha)
		require.Empty(t, gone)
		require.False(t, changed)
		table.Update(after(2), head, [2]string{"alpha", "a2"})
		require.Equal(t, "alpha/a2 head/h1", shown(table.List()))
		require.False(t, table.IsOver("a2"))
	}
	require.True(t, l.IsOver("a1"), "it hears so, should it live")
	require.False(t, b.IsOver("a1"), "that is the leader's to say")
}

func TestTheLeaderTellsOfTheLatestEvictions(t *testing.T) {
	l := cluster.NewTable("head", true)
	for i := range 100 {
		now := after(time.Duration(i) * 10 * time.Second)
		l.Update(now, head, [2]string{"alpha", fmt.Sprint("a", i)})
		l.Update(now.Add(cluster.Silence), head)
	}
	told := l.Evictions()
	require.Len(t, told, 64)
	require.Equal(t, "a99", told[0])
	l.Update(after(2*time.Hour), head)
	require.Empty(t, l.Evictions())
}

func TestWhoReachesTooFewStops(t *testing.T) {
	late := after(cluster.LeaseTerm)
	for name, c := range map[string]struct {
		others int
		then   func(l cluster.Lease)
		over   bool
	}{
		"alone from the beginning":       {0, func(cluster.Lease) {}, false},
		"cut off from one of two":        {1, func(cluster.Lease) {}, false},
		"cut off from two of three":      {2, func(cluster.Lease) {}, true},
		"the larger part of three":       {2, func(l cluster.Lease) { l.Reached("n0", late) }, false},
		"half of four":                   {3, func(l cluster.Lease) { l.Reached("n0", late) }, false},
		"the smaller part of five":       {4, func(l cluster.Lease) { l.Reached("n0", late) }, true},
		"two of three have left":         {2, func(l cluster.Lease) { l.Left("n0"); l.Left("n1") }, false},
		"two of three do not listen":     {2, func(l cluster.Lease) { l.Refused("n0"); l.Refused("n1") }, false},
		"one does not, but did again":    {2, func(l cluster.Lease) { l.Refused("n0"); l.Reached("n0", begin) }, true},
		"one left and one silent":        {2, func(l cluster.Lease) { l.Left("n0") }, false},
		"somebody who is not of us":      {2, func(l cluster.Lease) { l.Reached("x", late); l.Reached("y", late) }, true},
		"a leader is a node like others": {2, func(l cluster.Lease) { l.Reached("n1", late) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := cluster.NewLease()
			for i := range c.others {
				l.Know(fmt.Sprint("n", i), begin)
			}
			require.False(t, l.Over(after(cluster.LeaseTerm-1)))
			c.then(l)
			require.Equal(t, c.over, l.Over(late))
		})
	}
}

// What was frozen has asked nobody.
func TestAPauseIsNoSilence(t *testing.T) {
	l := cluster.NewLease()
	l.Know("n1", begin)
	l.Know("n2", begin)
	l.Paused(time.Minute)
	require.False(t, l.Over(after(time.Minute+cluster.LeaseTerm-1)))
	require.True(t, l.Over(after(time.Minute+cluster.LeaseTerm)))
}

// Nodes that end one after the other, without a word, do not add up.
func TestWhatIsLongGoneIsNotMissed(t *testing.T) {
	l := cluster.NewLease()
	now := begin
	for i := range 10 {
		l.Know(fmt.Sprint("n", i), now)
	}
	for left := 9; left > 0; left -= 2 {
		for range 30 {
			now = now.Add(time.Second)
			for i := range left {
				l.Reached(fmt.Sprint("n", i), now)
			}
			require.False(t, l.Over(now))
		}
	}
}

// Others may hear a node that the leader does not: it is of no use, and is given up
// after a while. What the leader has said of it they pass on, since it may not get
// there itself.
func TestTheLeaderGivesUpWhomItDoesNotReach(t *testing.T) {
	l, b := cluster.NewTable("head", true), cluster.NewTable("beta", false)
	l.Update(begin, head, alpha, beta)
	b.Update(begin, head, alpha, beta)
	gone, _ := l.Update(after(time.Hour), head, alpha, beta)
	require.Empty(t, gone, "it was frozen, and has asked nobody")
	for range 20 {
		gone, _ := l.Update(after(time.Hour), head, alpha, beta)
		require.Empty(t, gone)
		l.Ask()
		l.Heard("beta", "b1", after(time.Hour))
	}
	gone, _ = l.Update(after(time.Hour), head, alpha, beta)
	require.Equal(t, "alpha/a1", shown(gone))
	gone, _ = b.Update(after(20*time.Second), head, alpha, beta)
	require.Empty(t, gone, "that is the leader's to say")
	b.Told(l.Evictions(), after(21*time.Second))
	gone, _ = b.Update(after(21*time.Second), head, alpha, beta)
	require.Equal(t, "alpha/a1", shown(gone))
	require.Equal(t, []string{"a1"}, b.Evictions(), "which it hears from us")
}
