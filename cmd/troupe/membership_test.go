package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/config"
)

// --join 127.0.0.1 is what people type on the leader's machine, whoever else
// reaches that leader.
func TestANodeListensWhereTheOthersOfItsLeaderReachIt(t *testing.T) {
	for name, c := range map[string]struct{ join, listen, leader, want string }{
		"all on one machine":       {"127.0.0.1:8780", "", "127.0.0.1:4000", "127.0.0.1:0"},
		"on the leader's machine":  {"127.0.0.1:8780", "", "10.0.0.1:4000", ":0"},
		"on another machine":       {"10.0.0.1:8780", "", "10.0.0.1:4000", ":0"},
		"through a tunnel, one up": {"localhost:8780", "", "[::1]:4000", "127.0.0.1:0"},
		"as it was told":           {"127.0.0.1:8780", "127.0.0.1:8790", "10.0.0.1:4000", "127.0.0.1:8790"},
	} {
		f := &clusterFlags{Cluster: config.Cluster{Join: c.join, Listen: c.listen}}
		require.Equal(t, c.want, joinedListen(f, c.leader), name)
	}
}
