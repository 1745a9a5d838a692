package cluster

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-ml/troupe/messages"
)

const (
	// silence is how long a node may not have answered before the others stop
	// sending to it, if the gossip has lost it too.
	silence = 2 * time.Second
	// outOfReach is after how many beats without an answer the leader gives up a node
	// that others hear: with whom it cannot speak it cannot work. It is no time, as
	// a leader that was frozen has asked nobody.
	outOfReach = 20
	// memory is how long the word about a boot that is over is kept.
	memory = time.Hour
	// maxEvicted is how many evicted boots a beat tells of.
	maxEvicted = 64
)

// view is what the gossip says of a node.
type view struct {
	node, address string
	facts         *messages.NodeFacts
}

// digest is a number for what the gossip says of all nodes.
func digest(views []view) uint64 {
	h := fnv.New64a()
	for _, v := range slices.SortedFunc(slices.Values(views), func(a, b view) int { return strings.Compare(a.node, b.node) }) {
		fmt.Fprintf(h, "%s %s %s %t\n", v.node, v.address, v.facts.GetBoot(), v.facts.GetAnnounced())
	}
	return h.Sum64()
}

// table is who is a member, as this node knows it. It decides; it touches
// nothing. Invariants: no member has a boot that is over; this node is a member
// from its announcement on.
type table struct {
	self    string
	leads   bool
	members map[string]Member    // by node
	shown   map[string]Member    // members as of the last update
	over    map[string]time.Time // boots that have left or were evicted, and since when
	asked   map[string]int       // how often a member was asked since it has answered
	fresh   []News               // what the last update has brought
	evicted map[string]time.Time // those of them that the leader has evicted, as far as it has said
}

func newTable(self string, leads bool) *table {
	return &table{self: self, leads: leads, members: map[string]Member{}, shown: map[string]Member{}, over: map[string]time.Time{}, asked: map[string]int{}, evicted: map[string]time.Time{}}
}

// update takes what the gossip says now, of all nodes. It returns the members
// that are gone since the last one, of whom nothing more is to be waited for, and
// whether anything is different.
func (t *table) update(views []view, now time.Time) (gone []Member, changed bool) {
	seen := map[string]bool{}
	for _, v := range views {
		f := v.facts
		if f == nil || !f.GetAnnounced() || f.GetProtocol() != Protocol {
			continue
		}
		if _, is := t.over[f.GetBoot()]; is {
			continue
		}
		seen[v.node] = true
		m := newMember(v, now)
		switch known, is := t.members[v.node]; {
		case is && known.Boot == m.Boot:
			m.LastSeen = known.LastSeen
		case is && known.Life > m.Life: // the gossip may bring an earlier life up again
			t.over[m.Boot] = now
			continue
		case is:
			t.over[known.Boot] = now // it lives again
		}
		if t.members[v.node].Boot != m.Boot {
			delete(t.asked, v.node)
		}
		t.members[v.node] = m
	}
	for node, m := range t.members {
		switch {
		case node == t.self:
			m.LastSeen = now
		case t.leads && t.asked[node] >= outOfReach:
			t.evict(m, now)
			continue
		case seen[node] || now.Sub(m.LastSeen) < silence:
			m.Alive = true
		case t.leads:
			t.evict(m, now)
			continue
		default:
			m.Alive = false // whether it is gone the leader says
		}
		t.members[node] = m
	}
	t.forget(now)
	return t.difference()
}

// evict ends a boot: only the leader does.
func (t *table) evict(m Member, now time.Time) {
	delete(t.members, m.Node)
	t.over[m.Boot], t.evicted[m.Boot] = now, now
}

// left takes the word of a node that it ends.
func (t *table) left(node, boot string, now time.Time) {
	t.over[boot] = now
	if t.members[node].Boot == boot {
		delete(t.members, node)
	}
}

// isOver reports whether a boot that asks is to be told that it is over: the
// leader knows of all that are, others of those that the leader has evicted.
func (t *table) isOver(boot string) bool {
	_, over := t.over[boot]
	_, evicted := t.evicted[boot]
	return evicted || t.leads && over
}

// told takes the word of the leader about boots that it has evicted.
func (t *table) told(boots []string, now time.Time) {
	for _, boot := range boots {
		t.over[boot], t.evicted[boot] = now, now // which it hears from us, should the leader not reach it
		for node, m := range t.members {
			if m.Boot == boot && node != t.self {
				delete(t.members, node)
			}
		}
	}
}

// ask notes that all members are asked whether they are well.
func (t *table) ask() {
	maps.DeleteFunc(t.asked, func(node string, _ int) bool { return t.members[node].Boot == "" })
	for node := range t.members {
		t.asked[node]++
	}
}

// heard takes a sign of life.
func (t *table) heard(node, boot string, now time.Time) {
	if m, is := t.members[node]; is && m.Boot == boot {
		m.LastSeen = now
		t.members[node] = m
		delete(t.asked, node)
	}
}

// difference compares the members with those shown last, but for when they were
// last seen, and shows them.
func (t *table) difference() (gone []Member, changed bool) {
	t.fresh = t.news()
	for node, was := range t.shown {
		is, there := t.members[node]
		if !there || is.Boot != was.Boot || was.Alive && !is.Alive {
			gone = append(gone, was)
		}
		changed = changed || !there || !same(was, is)
	}
	changed = changed || len(t.shown) != len(t.members)
	t.shown = maps.Clone(t.members)
	return gone, changed
}

func (t *table) forget(now time.Time) {
	for _, old := range []map[string]time.Time{t.over, t.evicted} {
		maps.DeleteFunc(old, func(_ string, since time.Time) bool { return now.Sub(since) > memory })
	}
}

// evictions are the boots that the leader has evicted last.
func (t *table) evictions() []string {
	boots := slices.SortedFunc(maps.Keys(t.evicted), func(a, b string) int { return t.evicted[b].Compare(t.evicted[a]) })
	return boots[:min(len(boots), maxEvicted)]
}

// list returns copies of the members, by id.
func (t *table) list() []Member {
	out := slices.SortedFunc(maps.Values(t.members), func(a, b Member) int { return strings.Compare(a.Node, b.Node) })
	for i := range out {
		out[i].Roles, out[i].Labels = slices.Clone(out[i].Roles), maps.Clone(out[i].Labels)
	}
	return out
}

func newMember(v view, now time.Time) Member {
	f := v.facts
	return Member{
		Node: v.node, Boot: f.GetBoot(), Life: f.GetLife(), Address: v.address, Remoting: f.GetRemoting(), HTTP: f.GetHttp(),
		Roles: f.GetRoles(), Slots: f.GetSlots(), Labels: f.GetLabels(), Version: f.GetVersion(), Protocol: f.GetProtocol(),
		Leader: f.GetLeader(), SharesStore: f.GetSharesStore(), LastSeen: now, Alive: true,
	}
}

// same reports whether two are equal but for LastSeen.
func same(a, b Member) bool {
	return a.Node == b.Node && a.Boot == b.Boot && a.Address == b.Address && a.Remoting == b.Remoting && a.HTTP == b.HTTP &&
		slices.Equal(a.Roles, b.Roles) && a.Slots == b.Slots && maps.Equal(a.Labels, b.Labels) && a.Version == b.Version &&
		a.Protocol == b.Protocol && a.Leader == b.Leader && a.SharesStore == b.SharesStore && a.Alive == b.Alive
}
