package cluster_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/netns"
	"github.com/troupe-ml/troupe/internal/pki"
	"github.com/troupe-ml/troupe/messages"
)

// childVariable makes this test binary a node: its value is a childConfig.
const childVariable = "TROUPE_CLUSTER_TEST_NODE"

// childConfig is what a node that is a process is told.
type childConfig struct {
	Dir, Token, API string // no API: it leads
	Host            string // on which it listens
	Namespace       string // of the network that it is in; "": this process's
}

// told is a line that such a node prints.
type told struct {
	API, Self, Address string           // once, after its start
	Members            []cluster.Member `json:",omitempty"`
	Reply, Failure     string           // to a command
	Terminated         string           // the node whose echo has ended
	Out                string           // why it begins again
}

func TestMain(m *testing.M) {
	if config := os.Getenv(childVariable); config != "" {
		if err := runChild(config); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runChild is a node with one actor, which answers; it does what comes in by line:
// "call NODE", "watch NODE". It ends with its input.
func runChild(text string) error {
	var config childConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	say := func(t told) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(t)
	}
	id, err := childIdentity(config)
	if err != nil {
		return err
	}
	api, err := net.Listen("tcp", net.JoinHostPort(config.Host, "0"))
	if err != nil {
		return err
	}
	if config.Namespace != "" && config.API == "" {
		ca, err := pki.LoadAuthority(config.Dir)
		if err != nil {
			return err
		}
		cert, key, err := ca.IssueServer(nil, time.Now())
		if err != nil {
			return err
		}
		api = tls.NewListener(api, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw, ca.Certificate().Raw}, PrivateKey: key}}})
	}
	var point trust.Point
	go func() {
		_ = http.Serve(api, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(point) }))
	}()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(os.Stdin); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	for {
		again, err := liveOnce(id, config.Host, lines, say, func(address string) told {
			point = trust.Point{Address: address, Protocol: cluster.Protocol, Version: "test"}
			return told{API: api.Addr().String(), Self: id.Node(), Address: address}
		})
		if err != nil || !again {
			return err
		}
	}
}

func childIdentity(config childConfig) (*trust.Identity, error) {
	if config.API == "" {
		a, err := trust.OpenAuthority(config.Dir)
		if err != nil {
			return nil, err
		}
		return a.Lead("node-1", "head")
	}
	id, err := trust.Open(config.Dir)
	if fault.KindOf(err) == fault.NotFound {
		return trust.Join(context.Background(), trust.Newcomer{
			Dir: config.Dir, Machine: filepath.Base(config.Dir), Token: config.Token, API: config.API, Protocol: cluster.Protocol, Version: "test",
		})
	}
	return id, err
}

// liveOnce is one life of a node: until its input ends, or it is put out.
func liveOnce(id *trust.Identity, host string, lines <-chan string, say func(told), started func(string) told) (again bool, err error) {
	log := zap.NewNop()
	if os.Getenv("TROUPE_CLUSTER_TEST_LOG") != "" {
		log, _ = zap.NewDevelopment()
	}
	c, err := cluster.Start(context.Background(), cluster.Config{Log: log, Identity: id, Listen: net.JoinHostPort(host, "0"), Slots: 2, Version: "test"})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.NewTextHandler(io.Discard, nil))
	}))
	if err := c.Remote(system); err != nil {
		return false, err
	}
	watcher := system.Root.Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *messages.NodeFacts: // a node's echo, to be watched
			ctx.Watch(actor.NewPID(m.GetRemoting(), "echo"))
		case *actor.Terminated:
			say(told{Terminated: m.GetWho().GetAddress()})
		}
	}))
	if _, err := system.Root.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) {
		if m, ok := ctx.Message().(*messages.Beat); ok {
			ctx.Respond(&messages.BeatReply{Boot: m.GetBoot() + " " + c.Self()})
		}
	}), "echo"); err != nil {
		return false, err
	}
	c.Announce()
	say(started(c.Address()))
	defer c.Watch(func(members []cluster.Member) { say(told{Members: members}) })()
	for {
		select {
		case <-c.Done():
			say(told{Out: c.Err().Error()})
			return true, nil
		case line, ok := <-lines:
			if !ok {
				return false, nil
			}
			verb, node, _ := strings.Cut(line, " ")
			if verb == "list" {
				say(told{Reply: "list", Members: c.Members()})
				continue
			}
			pid := c.PID(node, "echo")
			switch {
			case pid == nil:
				say(told{Failure: "not listed"})
			case verb == "watch":
				system.Root.Send(watcher, &messages.NodeFacts{Remoting: pid.GetAddress()})
			default:
				reply, err := system.Root.RequestFuture(pid, &messages.Beat{Boot: "hi"}, 2*time.Second).Result()
				if err != nil {
					say(told{Failure: err.Error()})
					continue
				}
				say(told{Reply: reply.(*messages.BeatReply).GetBoot()})
			}
		}
	}
}

// child is a node that is a process.
type child struct {
	config childConfig
	cmd    *exec.Cmd
	in     io.WriteCloser
	told   chan told
	first  told
}

// startChild starts a node in a process, and returns once it is up.
func startChild(t *testing.T, config childConfig) *child {
	t.Helper()
	if config.Host == "" {
		config.Host = "127.0.0.1"
	}
	text, err := json.Marshal(config)
	require.NoError(t, err)
	c := &child{config: config, told: make(chan told, 1024)}
	c.cmd = netns.Command(context.Background(), config.Namespace, os.Args[0], "-test.run=^$")
	c.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		decoder := json.NewDecoder(out)
		for {
			var line told
			if decoder.Decode(&line) != nil {
				break
			}
			c.told <- line
		}
		_ = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-ended
	})
	c.first = c.await(t, "its start", func(line told) bool { return line.Self != "" })
	return c
}

// await reads lines until one is as wanted.
func (c *child) await(t *testing.T, what string, is func(told) bool) told {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line := <-c.told:
			if is(line) {
				return line
			}
		case <-timeout:
			t.Fatalf("%s: no word of %s", c.first.Self, what)
		}
	}
}

// awaitMembers waits for that many, all alive.
func (c *child) awaitMembers(t *testing.T, count int) []cluster.Member {
	t.Helper()
	line := c.await(t, fmt.Sprintf("%d members", count), func(line told) bool {
		for _, m := range line.Members {
			if !m.Alive {
				return false
			}
		}
		return len(line.Members) == count
	})
	return line.Members
}

// call asks the echo of a node until it answers, and returns what it says.
func (c *child) call(t *testing.T, node string) string {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if reply, _ := c.try(t, node); reply != "" {
			return reply
		}
	}
	t.Fatal("no answer")
	return ""
}

// try asks the echo of a node once: it answers, or there is a failure.
func (c *child) try(t *testing.T, node string) (reply, failure string) {
	t.Helper()
	_, err := fmt.Fprintln(c.in, "call "+node)
	require.NoError(t, err)
	line := c.await(t, "an answer", func(line told) bool { return line.Reply != "" || line.Failure != "" })
	return line.Reply, line.Failure
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(s))
}

// company starts a leader and that many nodes, and waits until all know all.
func company(t *testing.T, count int) (*child, []*child) {
	t.Helper()
	if testing.Short() {
		t.Skip("nodes that are processes, in which the actor library has races of its own")
	}
	dir := t.TempDir()
	l := startChild(t, childConfig{Dir: dir})
	a, err := trust.OpenAuthority(dir)
	require.NoError(t, err)
	token, err := a.CreateToken("all")
	require.NoError(t, err)
	var nodes []*child
	for i := range count {
		nodes = append(nodes, startChild(t, childConfig{Dir: filepath.Join(dir, fmt.Sprint("worker", i)), Token: token, API: l.first.API}))
	}
	for _, c := range append(nodes, l) {
		if count > 0 {
			c.awaitMembers(t, 1+count)
		}
	}
	return l, nodes
}

// members returns a list that has that node.
func (c *child) members(t *testing.T, node string) []cluster.Member {
	t.Helper()
	_, err := fmt.Fprintln(c.in, "list "+node)
	require.NoError(t, err)
	return c.await(t, "a list", func(line told) bool { return line.Reply == "list" && find(line.Members, node).Node != "" }).Members
}
