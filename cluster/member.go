package cluster

import (
	"time"
)

// Protocol is the version of what nodes say to each other. Nodes of different
// versions do not work together: a newcomer of another one is refused.
const Protocol = 1

// Member is what is known of a node.
type Member struct {
	Node        string            // its id, the same over restarts
	Boot        string            // of this life of it: another after each restart
	Life        uint64            // its number, from 1: the higher one is the later
	Address     string            // host:port of its node listener
	Remoting    string            // host:port of its actors
	HTTP        string            // URL of its API, "" where it has none
	Roles       []string          // what it does
	Slots       uint32            // functions that it runs at once
	Labels      map[string]string // of --node-label
	Version     string            // of troupe
	Protocol    uint32            // see Protocol
	Leader      bool              // it was started without --join
	SharesStore bool              // it works on the leader's bucket itself
	LastSeen    time.Time         // when it last answered; now for this node
	Alive       bool              // false: it is silent, and nobody has said that it is gone
}
