package cluster_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// node is a node of a test, which ends with it.
type node struct {
	*cluster.Cluster
	id   *trust.Identity
	logs *observer.ObservedLogs
	end  func() // once, before the test does
}

// leader is a node that others join.
type leader struct {
	node
	dir string
	api string // host:port of what says where to join
}

func start(t *testing.T, id *trust.Identity, change func(*cluster.Config)) node {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	config := cluster.Config{Log: zap.New(core), Identity: id, Listen: "127.0.0.1:0", Slots: 2, Roles: []string{"host"}, Version: "test"}
	if change != nil {
		change(&config)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := cluster.Start(ctx, config)
	require.NoError(t, err)
	n := node{Cluster: c, id: id, logs: logs}
	n.end = sync.OnceFunc(func() {
		require.NoError(t, c.Close())
		id.Close()
	})
	t.Cleanup(n.end)
	return n
}

// lead starts a leader in a folder.
func lead(t *testing.T, dir string, change func(*cluster.Config)) *leader {
	t.Helper()
	a, err := trust.OpenAuthority(dir)
	require.NoError(t, err)
	id, err := a.Lead("node-1", "head")
	require.NoError(t, err)
	l := &leader{dir: dir}
	point := &trust.Point{Protocol: cluster.Protocol, Version: "test"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != trust.PointPath {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(point)
	}))
	t.Cleanup(server.Close)
	l.api = strings.TrimPrefix(server.URL, "http://")
	l.node = start(t, id, change)
	point.Address = l.Address()
	return l
}

func (l *leader) token(t *testing.T, name string) string {
	t.Helper()
	token, err := l.id.Authority().CreateToken(name)
	require.NoError(t, err)
	return token
}

// newcomer is a node that wants to join a leader.
func (l *leader) newcomer(t *testing.T, name string) trust.Newcomer {
	t.Helper()
	return trust.Newcomer{
		Dir: filepath.Join(l.dir, "joined-"+name), Machine: name, Token: l.token(t, name), API: l.api,
		Protocol: cluster.Protocol, Version: "test",
	}
}

// join starts a node that has not been there before.
func (l *leader) join(t *testing.T, name string, change func(*cluster.Config)) node {
	t.Helper()
	id, err := trust.Join(t.Context(), l.newcomer(t, name))
	require.NoError(t, err)
	return start(t, id, change)
}

// await waits for a node's table to be as wanted.
func (n node) await(t *testing.T, what string, is func([]cluster.Member) bool) []cluster.Member {
	t.Helper()
	found := make(chan []cluster.Member, 1)
	stop := n.Watch(func(members []cluster.Member) {
		if is(members) {
			select {
			case found <- members:
			default:
			}
		}
	})
	defer stop()
	select {
	case members := <-found:
		return members
	case <-time.After(patience):
		t.Fatalf("node %s: not %s within %v: %+v", n.Self(), what, patience, n.Members())
		return nil
	}
}

// awaitCount waits for that many nodes that are alive, and no other.
func (n node) awaitCount(t *testing.T, count int) []cluster.Member {
	t.Helper()
	return n.await(t, "that many nodes", func(members []cluster.Member) bool {
		for _, m := range members {
			if !m.Alive {
				return false
			}
		}
		return len(members) == count
	})
}

// awaitLog waits for a line.
func (n node) awaitLog(t *testing.T, message, field string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, e := range n.logs.All() {
			if !strings.Contains(e.Message, message) {
				continue
			}
			for _, v := range e.ContextMap() {
				if text, ok := v.(string); ok && strings.Contains(text, field) {
					return true
				}
			}
		}
		return false
	}, patience, 10*time.Millisecond, "%s ... %s", message, field)
}

func find(members []cluster.Member, node string) cluster.Member {
	for _, m := range members {
		if m.Node == node {
			return m
		}
	}
	return cluster.Member{}
}

func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}
