package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/cluster"
	"github.com/troupe-ml/troupe/cluster/trust"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/loopback"
	"github.com/troupe-ml/troupe/internal/pki"
)

const (
	// joinPatience is how long a node waits for the one that it joins to answer.
	joinPatience = time.Minute
	// mostJoined is how many nodes of one machine can join the same cluster.
	mostJoined = 256
)

// The roles of a node.
const (
	leaderRole = "leader"
	hostRole   = "host"
)

// clusterFlags say which cluster a node is of, and how others reach it.
type clusterFlags struct {
	config.Cluster
	token     string
	tokenFile string
	labels    []string
	set       *pflag.FlagSet // they are part of
}

func (f *clusterFlags) register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.Join, "join", "", "join the cluster of a node: host:port of its --listen")
	set.StringVar(&f.token, "token", "", "token to join with; it is needed once (better: --token-file)")
	set.StringVar(&f.tokenFile, "token-file", "", "file with the token to join with")
	set.StringVar(&f.Listen, "node-listen", "", "address for other nodes, host:port; a port other than 0 takes the next one too (default: the host of --listen, and free ports)")
	set.StringVar(&f.Advertise, "advertise", "", "name or address by which other nodes reach this one (default: found out)")
	set.StringArrayVar(&f.labels, "node-label", nil, "name=value, to choose nodes by; once for each")
}

// check completes and checks what was typed.
func (f *clusterFlags) check() (err error) {
	const op = "up.flags"
	if f.Labels, err = config.ParseLabels(f.labels); err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return err
	}
	for _, name := range []string{"token", "token-file"} {
		if f.Join == "" && f.set.Changed(name) {
			return fault.New(op, fault.Invalid, "--%s is for joining: say with --join what", name)
		}
	}
	for _, name := range []string{"listen", "policy", "jobs", "job-url"} {
		if f.Join != "" && f.set.Changed(name) {
			return fault.New(op, fault.Invalid, "--%s is for the node that leads: leave it out where a node joins", name)
		}
	}
	if f.token != "" && f.set.Changed("token-file") {
		return fault.New(op, fault.Invalid, "--token and --token-file say the same thing: give one")
	}
	return nil
}

// secret is the token to join with, "" where none was given.
func (f *clusterFlags) secret() (string, error) {
	if !f.set.Changed("token-file") { // what the configuration says is of the API
		return strings.TrimSpace(f.token), nil
	}
	from := remoteFlags{tokenFile: f.tokenFile, set: f.set}
	return from.token(func(string) string { return "" })
}

// membership is the part of a node that leads in its cluster. Without one, as
// there is no folder for certificates, it is empty, and nobody joins.
type membership struct {
	id    *trust.Identity
	c     *cluster.Cluster
	peers *peers
}

// newMembership returns that of a node whose API is at an address.
func newMembership(web config.API, address string) (*membership, error) {
	a, err := trust.OpenAuthority(web.TLSDir)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fault.New("up.identity", fault.Invalid, "address %q: %w", address, err)
	}
	id, err := a.Lead("node-"+port, machine())
	return &membership{id: id}, err
}

// start opens the listener for other nodes.
func (m *membership) start(ctx context.Context, local config.Node, web config.API, f *clusterFlags, tell func(string), log *zap.Logger) (err error) {
	if m.id == nil {
		return nil
	}
	m.peers = &peers{leads: true}
	m.c, err = cluster.Start(ctx, cluster.Config{
		Log: log, Identity: m.id, Handler: m.peers, Listen: nodeListen(f, web.Listen), Advertise: f.Advertise,
		Roles: []string{leaderRole, hostRole}, Slots: uint32(local.Slots), Labels: f.Labels, Version: thisBuild().Version,
		News: func(n cluster.News) { say(tell, leaderNews(n)) },
	})
	m.peers.cluster = m.c
	return err
}

// nodes is what the company gets of the cluster; nil: there is none.
func (m *membership) nodes(f *clusterFlags) *actors.Nodes {
	if m.c == nil {
		return nil
	}
	return m.peers.nodes(f.Labels)
}

func (m *membership) announce() {
	if m.c != nil {
		m.c.Announce()
	}
}

// done is closed when the node may not go on; nil: never.
func (m *membership) done() <-chan struct{} {
	if m.c == nil {
		return nil
	}
	return m.c.Done()
}

// joins is what lets nodes in, for the API.
func (m *membership) joins() api.Joins {
	if m.c == nil {
		return nil
	}
	return doors{m.id.Authority(), m.c.Address}
}

// Close leaves the cluster.
func (m *membership) Close() error {
	var err error
	if m.c != nil {
		err = m.c.Close()
	}
	if m.id != nil {
		m.id.Close()
	}
	return err
}

// joins returns the identity of a node that joins, which it may have done before:
// then it needs no token.
func (s *session) joins(ctx context.Context, tlsDir string, f *clusterFlags) (*trust.Identity, error) {
	const op = "up.join"
	token, err := f.secret()
	if err != nil {
		return nil, err
	}
	if tlsDir == "" {
		return nil, fault.New(op, fault.Invalid, "there is no folder for certificates: give --tls-dir")
	}
	for n := range mostJoined {
		folder := "joined-" + strings.NewReplacer(":", "-", "[", "", "]", "", "%", "-").Replace(f.Join) + "-" + strconv.Itoa(n)
		id, err := s.joinAs(ctx, filepath.Join(tlsDir, folder), f.Join, token)
		if !errors.Is(err, pki.ErrHeld) { // by another node of this machine
			return id, err
		}
	}
	return nil, fault.New(op, fault.Conflict, "%d nodes of this machine have joined %s: give this one another --tls-dir", mostJoined, f.Join)
}

// joinAs returns the identity in a folder, if it is of the cluster that the token
// is of; else the node joins that.
func (s *session) joinAs(ctx context.Context, dir, at, token string) (*trust.Identity, error) {
	id, err := trust.Open(dir)
	if err == nil {
		if fingerprint, _, none := pki.ParseToken(pki.ForJoin, token); token == "" || none == nil && fingerprint == id.Fingerprint() {
			return id, nil
		}
		id.Close()
	} else if kind := fault.KindOf(err); kind != fault.NotFound && kind != fault.Invalid {
		return nil, err
	}
	if token == "" {
		if fault.KindOf(err) == fault.Invalid {
			return nil, err
		}
		return nil, fault.New("up.join", fault.Invalid, "this node has not joined %s before, and there is no token: give --token-file or --token, from: troupe cluster token create --name NODE --role join", at)
	}
	return trust.Join(ctx, trust.Newcomer{
		Dir: dir, Machine: machine(), Token: token, API: at, Protocol: cluster.Protocol, Version: thisBuild().Version,
		Waits: s.waits(ctx),
	})
}

// waits returns what says why the cluster that is joined does not answer yet, and
// how long it still has, which is until ctx ends.
func (s *session) waits(ctx context.Context) func(why error) {
	return func(why error) {
		until, _ := ctx.Deadline()
		s.tell(fmt.Sprintf("waiting up to %v for the cluster: %v", max(time.Second, time.Until(until).Round(time.Second)), why))
	}
}

func machine() string {
	name, err := os.Hostname()
	if err != nil {
		return "node"
	}
	return name
}

// nodeListen is where the node that leads listens to others.
func nodeListen(f *clusterFlags, listen string) string {
	host, _, err := net.SplitHostPort(listen)
	switch {
	case f.Listen != "":
		return f.Listen
	case err != nil:
		host = ""
	}
	return net.JoinHostPort(host, "0")
}

// joinedListen is where a node that joins listens to others, the leader being at
// host:port. Where that is this machine alone all nodes are on it. What --join says
// does not tell: a leader that others reach too is reached over loopback from its
// own machine.
func joinedListen(f *clusterFlags, leader string) string {
	switch {
	case f.Listen != "":
		return f.Listen
	case loopback.Is(leader):
		return "127.0.0.1:0"
	}
	return ":0"
}

// doors lets nodes in, for the API.
type doors struct {
	*trust.Authority
	at func() string
}

// Point implements api.Joins.
func (d doors) Point() api.JoinPoint {
	return api.JoinPoint{Address: d.at(), Protocol: cluster.Protocol, Version: thisBuild().Version}
}
