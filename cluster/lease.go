package cluster

import (
	"maps"
	"time"
)

// leaseTerm is how long a node goes on that reaches too few of the others.
const leaseTerm = 10 * time.Second

// lease decides whether this node may go on: it may while it has reached, within
// leaseTerm, at least half of the nodes that it knows of, itself counted. Nodes
// that have left, and those at whose address nothing listens any more, are not
// counted: that those are dead is known, that a silent one is dead is not. So the
// smaller part of a cluster that falls apart stops, and a leader that dies stops
// nobody. It decides; it touches nothing.
type lease struct {
	heard map[string]time.Time // when a node last answered
	dead  map[string]bool      // of those: nothing listens at its address
}

func newLease() *lease { return &lease{heard: map[string]time.Time{}, dead: map[string]bool{}} }

// know adds a node that the table lists.
func (l *lease) know(node string, now time.Time) {
	if _, is := l.heard[node]; !is {
		l.heard[node] = now
	}
}

// reached takes an answer of a node, which has gone there and back.
func (l *lease) reached(node string, now time.Time) {
	if _, is := l.heard[node]; is {
		l.heard[node] = now
		delete(l.dead, node)
	}
}

// refused takes that nothing listens where a node was.
func (l *lease) refused(node string) {
	if _, is := l.heard[node]; is {
		l.dead[node] = true
	}
}

// left takes that a node has said goodbye.
func (l *lease) left(node string) {
	delete(l.heard, node)
	delete(l.dead, node)
}

// paused takes that this process did nothing for a while, and so asked nobody: no
// silence of the others counts that long.
func (l *lease) paused(d time.Duration) {
	for node, at := range l.heard {
		l.heard[node] = at.Add(d)
	}
}

// over reports whether this node must stop. While it need not, nodes that have
// been silent for long are forgotten: it has done without them.
func (l *lease) over(now time.Time) bool {
	known, reached := 1, 1
	for node, at := range l.heard {
		switch {
		case now.Sub(at) < leaseTerm:
			known, reached = known+1, reached+1
		case !l.dead[node]:
			known++
		}
	}
	if 2*reached < known {
		return true
	}
	maps.DeleteFunc(l.heard, func(node string, at time.Time) bool {
		old := now.Sub(at) > 2*leaseTerm
		if old {
			delete(l.dead, node)
		}
		return old
	})
	return false
}
