package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
)

func TestANodeIsSeenFromItsAnnouncementOn(t *testing.T) {
	l := lead(t, t.TempDir(), nil)
	require.Empty(t, l.Members())
	l.Announce()
	a := l.join(t, "a", func(c *cluster.Config) {
		c.Labels = map[string]string{"zone": "b", "disk": "fast"}
		c.HTTP = "http://127.0.0.1:1"
	})
	b := l.join(t, "b", nil)
	b.Announce()
	require.Empty(t, find(b.awaitCount(t, 2), a.Self()))
	require.Empty(t, find(l.awaitCount(t, 2), a.Self()))
	a.Announce()
	for _, n := range []node{l.node, a, b} {
		members := n.awaitCount(t, 3)
		m := find(members, a.Self())
		require.Equal(t, map[string]string{"zone": "b", "disk": "fast"}, m.Labels)
		require.Equal(t, "http://127.0.0.1:1", m.HTTP)
		require.Equal(t, a.Address(), m.Address)
		require.Equal(t, []string{"host"}, m.Roles)
		require.EqualValues(t, 2, m.Slots)
		require.EqualValues(t, cluster.Protocol, m.Protocol)
		require.False(t, m.Leader)
		require.True(t, find(members, l.Self()).Leader)
		require.Equal(t, l.Self(), n.Leader())
	}
}

func TestNodesReachEachOthersHandlers(t *testing.T) {
	answer := func(c *cluster.Config) {
		c.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s asks for %s over %s", cluster.PeerOf(r), r.URL.Path, r.Proto)
		})
	}
	l := lead(t, t.TempDir(), answer)
	l.Announce()
	a := l.join(t, "a", answer)
	a.Announce()
	l.awaitCount(t, 2)
	for _, n := range []node{l.node, a} {
		n.awaitCount(t, 2)
		for _, other := range []node{l.node, a} {
			client, url, err := n.Client(other.Self())
			require.NoError(t, err)
			response, err := client.Get(url + "/plane/x")
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, n.Self()+" asks for /plane/x over HTTP/1.1", string(text))
		}
		_, _, err := n.Client("nobody")
		require.Equal(t, fault.NotFound, fault.KindOf(err))
	}
}

func TestANodeThatSaysGoodbyeIsGoneAtOnce(t *testing.T) {
	l := lead(t, t.TempDir(), nil)
	l.Announce()
	a, b := l.join(t, "a", nil), l.join(t, "b", nil)
	a.Announce()
	b.Announce()
	a.awaitCount(t, 3)
	begun := time.Now()
	b.end()
	l.awaitCount(t, 2)
	a.awaitCount(t, 2)
	require.Less(t, time.Since(begun), 5*time.Second)
	require.Nil(t, l.Err())
}

// The port is the same as before, so is the id; the boot is another one.
func TestARestartedNodeIsThereAgain(t *testing.T) {
	l := lead(t, t.TempDir(), nil)
	l.Announce()
	a := l.join(t, "a", nil)
	a.Announce()
	before := find(l.awaitCount(t, 2), a.Self())
	a.end()
	l.awaitCount(t, 1)
	id, err := trust.Open(l.dir + "/joined-a")
	require.NoError(t, err)
	begun := time.Now()
	again := start(t, id, nil)
	again.Announce()
	after := find(l.awaitCount(t, 2), a.Self())
	require.Less(t, time.Since(begun), 5*time.Second)
	require.Equal(t, before.Address, after.Address)
	require.NotEqual(t, before.Boot, after.Boot)
}

// A leader that comes back has forgotten its nodes; they find it.
func TestNodesFindALeaderThatWasRestarted(t *testing.T) {
	dir := t.TempDir()
	l := lead(t, dir, nil)
	l.Announce()
	a := l.join(t, "a", nil)
	a.Announce()
	a.awaitCount(t, 2)
	l.end()
	a.awaitCount(t, 1)
	again := lead(t, dir, nil)
	require.Equal(t, l.Address(), again.Address())
	again.Announce()
	again.awaitCount(t, 2)
	a.awaitCount(t, 2)
	require.NoError(t, a.Err())
}

// A node whose cluster has given way to another one at the same address is told so
// at once; one whose leader is away waits, and says why.
func TestANodeWhoseClusterIsNoMore(t *testing.T) {
	l := lead(t, t.TempDir(), nil)
	var at atomic.Value
	at.Store(l.Address())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(trust.Point{Address: at.Load().(string)})
	}))
	defer server.Close()
	n := l.newcomer(t, "a")
	n.API = strings.TrimPrefix(server.URL, "http://")
	id, err := trust.Join(t.Context(), n)
	require.NoError(t, err)
	defer id.Close()
	l.end()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := ""
	config := cluster.Config{Log: zap.NewNop(), Identity: id, Listen: "127.0.0.1:0", Version: "test", Waits: func(why error) {
		told += why.Error()
		cancel()
	}}
	_, err = cluster.Start(ctx, config)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)
	require.Contains(t, told, "connection refused")

	at.Store(lead(t, t.TempDir(), nil).Address())
	told = ""
	_, err = cluster.Start(t.Context(), config)
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "the cluster that this node was of is not there any more")
	require.Empty(t, told)
}

func TestEightNodesAtOnceAreOneCluster(t *testing.T) {
	for run := range runs(t) {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			l := lead(t, t.TempDir(), nil)
			nodes := make([]node, 7)
			var starting sync.WaitGroup
			for i := range nodes {
				newcomer := l.newcomer(t, fmt.Sprint("n", i))
				starting.Go(func() {
					id, err := trust.Join(t.Context(), newcomer)
					if err == nil {
						nodes[i] = start(t, id, nil)
						nodes[i].Announce()
					}
				})
			}
			l.Announce()
			starting.Wait()
			nodes = append(nodes, l.node)
			want := ""
			for _, n := range nodes {
				require.NotNil(t, n.Cluster)
				var ids []string
				for _, m := range n.awaitCount(t, 8) {
					ids = append(ids, m.Node+" "+m.Boot)
				}
				if want == "" {
					want = strings.Join(ids, ",")
				}
				require.Equal(t, want, strings.Join(ids, ","))
			}
			for _, n := range nodes {
				n.end()
			}
		})
	}
}

func TestFactsThatDoNotFitAreRefused(t *testing.T) {
	a, err := trust.OpenAuthority(t.TempDir())
	require.NoError(t, err)
	id, err := a.Lead("node-1", "head")
	require.NoError(t, err)
	defer id.Close()
	_, err = cluster.Start(t.Context(), cluster.Config{
		Log: zap.NewNop(), Identity: id, Listen: "127.0.0.1:0", Labels: map[string]string{"x": strings.Repeat("y", 500)},
	})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "--node-label")
}

// The leader calls back, so that it is found out at once.
func TestANodeThatCannotBeReachedIsTold(t *testing.T) {
	l := lead(t, t.TempDir(), nil)
	l.Announce()
	id, err := trust.Join(t.Context(), l.newcomer(t, "nat"))
	require.NoError(t, err)
	defer id.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = cluster.Start(ctx, cluster.Config{Log: zap.NewNop(), Identity: id, Listen: "127.0.0.1:0", Advertise: "127.0.0.7", Version: "test"})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "--advertise")
	l.awaitLog(t, "node refused", "is not reached at 127.0.0.7:")
}

// runs is how often a test is made whose outcome is one of luck: 3 times, or
// TROUPE_CLUSTER_RUNS times.
func runs(t *testing.T) int {
	t.Helper()
	text := os.Getenv("TROUPE_CLUSTER_RUNS")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// A process may be many nodes, one after the other.
func TestNothingIsLeftOfANodeThatHasEnded(t *testing.T) {
	ignored := goleak.IgnoreCurrent()
	func() {
		l := lead(t, t.TempDir(), nil)
		l.Announce()
		a := l.join(t, "a", nil)
		a.Announce()
		l.awaitCount(t, 2)
		a.end()
		require.NoError(t, a.Close(), "again is nothing")
		require.Empty(t, a.logs.FilterLevelExact(zap.ErrorLevel).All())
		l.end()
	}()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	goleak.VerifyNone(t, ignored, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
}

// A leader that the gossip would look for where it is not reached: who joins is
// told, else it would be a member that nobody gives work.
func TestALeaderThatCannotBeReachedWhereItSaysIsNotJoined(t *testing.T) {
	l := lead(t, t.TempDir(), func(c *cluster.Config) { c.Listen, c.Advertise = "127.0.0.1:0", "127.0.0.7" })
	l.Announce()
	id, err := trust.Join(t.Context(), l.newcomer(t, "other"))
	require.NoError(t, err)
	defer id.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = cluster.Start(ctx, cluster.Config{Log: zap.NewNop(), Identity: id, Listen: "127.0.0.1:0", Version: "test"})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "says that it is at 127.0.0.7:")
	require.ErrorContains(t, err, "--advertise")
}

// A folder that was copied: one node of it works, the other is told where that one
// is. One that has moved is no other.
func TestOfTwoNodesWithOneIdentityTheSecondIsRefused(t *testing.T) {
	l := lead(t, t.TempDir(), nil)
	l.Announce()
	a := l.join(t, "a", nil)
	a.Announce()
	l.awaitCount(t, 2)
	copied := t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(l.dir+"/joined-a")))
	files, err := os.ReadDir(copied)
	require.NoError(t, err)
	for _, f := range files {
		require.NoError(t, os.Chmod(filepath.Join(copied, f.Name()), 0o600))
	}
	id, err := trust.Open(copied)
	require.NoError(t, err)
	require.Equal(t, a.Self(), id.Node())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = cluster.Start(ctx, cluster.Config{Log: zap.NewNop(), Identity: id, Listen: "127.0.0.1:0", Version: "test"})
	require.Equal(t, fault.Conflict, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "node "+a.Self()+" runs at "+a.Address()+" already")
	require.ErrorContains(t, err, "--tls-dir")
	a.end()
	moved := start(t, id, nil)
	require.NotEqual(t, a.Address(), moved.Address())
	moved.Announce()
	require.Equal(t, moved.Address(), find(l.awaitCount(t, 2), a.Self()).Address)
}

// A node that was told another address of the leader remembers the one by which
// others reach it: by that it finds out where it is to be reached itself.
func TestANodeRemembersWhereItsLeaderSaysThatItIs(t *testing.T) {
	l := lead(t, t.TempDir(), func(c *cluster.Config) { c.Listen, c.Advertise = "0.0.0.0:0", "127.0.0.7" })
	l.Announce()
	id, err := trust.Join(t.Context(), l.newcomer(t, "a"))
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Address())
	require.NoError(t, err)
	require.NoError(t, id.SetLeader("127.0.0.1:"+port))
	start(t, id, nil)
	leader, _ := id.Leader()
	require.Equal(t, "127.0.0.7:"+port, leader)
}
