package main

import (
	"fmt"

	"github.com/troupe-ml/troupe/cluster"
)

// leaderNews is what a server says when something becomes of another node, "" for
// nothing.
func leaderNews(n cluster.News) string {
	switch n.Change {
	case cluster.Joined:
		return fmt.Sprintf("node %s at %s, %s, has joined", n.Node, n.Address, count(int(n.Slots), "slot"))
	case cluster.Restarted:
		return fmt.Sprintf("node %s at %s, %s, has started again", n.Node, n.Address, count(int(n.Slots), "slot"))
	case cluster.Left:
		return fmt.Sprintf("node %s has left", n.Node)
	case cluster.Lost:
		return fmt.Sprintf("node %s is lost: it does not answer any more", n.Node)
	}
	return ""
}

// following is what a node that has joined has said of its leader.
type following struct{ away bool }

// news is what such a node says when something becomes of another one, "" for
// nothing: others are the leader's affair.
func (f *following) news(n cluster.News) string {
	was := f.away
	switch {
	case !n.Leader:
		return ""
	case n.Change == cluster.Left || n.Change == cluster.Lost || n.Change == cluster.Silent:
		f.away = true
		if was {
			return ""
		}
		return fmt.Sprintf("the leader, %s, is away: this node waits for it", n.Node)
	}
	f.away = false
	if was || n.Change == cluster.Restarted {
		return fmt.Sprintf("the leader, %s, is back", n.Node)
	}
	return ""
}

// say tells what there is to be told.
func say(tell func(string), text string) {
	if text != "" {
		tell(text)
	}
}
