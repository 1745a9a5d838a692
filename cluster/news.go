package cluster

import "go.uber.org/zap"

// Change is what has become of a node.
type Change int

// What may become of a node.
const (
	Joined    Change = iota + 1 // it is there, and was not
	Restarted                   // it is there as another life
	Left                        // it has said goodbye
	Lost                        // the leader has given it up
	Silent                      // it does not answer; whether it is gone the leader says
	Answers                     // it was silent, and is not any more
)

var changes = map[Change]string{
	Joined: "node joined", Restarted: "node restarted", Left: "node left", Lost: "node lost", Silent: "node silent", Answers: "node answers again",
}

func (c Change) String() string { return changes[c] }

// News is what has become of another node.
type News struct {
	Member
	Change Change
}

// news is what is different of the members from those shown last. It is in no order.
func (t *table) news() (out []News) {
	tell := func(m Member, c Change) {
		if m.Node != t.self {
			out = append(out, News{m, c})
		}
	}
	for node, was := range t.shown {
		_, evicted := t.evicted[was.Boot]
		switch is, there := t.members[node]; {
		case !there && evicted:
			tell(was, Lost)
		case !there:
			tell(was, Left)
		case is.Boot != was.Boot:
			tell(is, Restarted)
		case was.Alive && !is.Alive:
			tell(is, Silent)
		case !was.Alive && is.Alive:
			tell(is, Answers)
		}
	}
	for node, is := range t.members {
		if _, was := t.shown[node]; !was {
			tell(is, Joined)
		}
	}
	return out
}

// announce logs news, and hands them on.
func (c *Cluster) announce(news []News) {
	for _, n := range news {
		c.log.Info(n.Change.String(), zap.String("peer", n.Node), zap.String("boot", n.Boot), zap.String("address", n.Address))
		if c.config.News != nil {
			c.config.News(n)
		}
	}
}
