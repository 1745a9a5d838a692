package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/metrics"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/cache"
)

// closeFor is how long requests have to end when the server stops.
const closeFor = 5 * time.Second

// newUpCommand returns the verb that makes a node which many people use.
func newUpCommand(s *session) *cobra.Command {
	node, web := newNodeFlags(s.Getenv), config.DefaultAPI()
	serving, nodes := config.DefaultNode(), &clusterFlags{}
	serving.Cache, serving.CacheLimit = config.DefaultCache(s.Getenv), config.DefaultCacheLimit
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a server, or a node that joins one",
		Long: `Start a node that takes jobs over HTTP, for troupe train and every other verb
that has --server, until a signal ends it. With --join it is another node of
such a server: what is printed at the start of that says how. Where its --store is
the bucket of that server it works on it itself, else through the server.

Jobs are kept in the store: those that run, or wait, when the server ends or
dies go on when the next one starts on the same store. With --jobs process each
job has a process of its own: one that crashes, or is killed, goes on in a new one,
and no other job notices. On a loopback address
nobody needs a token. Any other address has TLS: its first start makes a
certificate and tokens in --tls-dir.`,
		Example: `  troupe up
  troupe up --slots 8 --store file:///srv/troupe
  troupe up --jobs process
  troupe up --listen 0.0.0.0:8780 --tls-dir /etc/troupe
  troupe up --join 10.0.0.1:8780 --token-file join.token
  troupe up --join 10.0.0.1:8780 --store file:///mnt/troupe`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitConflict, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE:        func(*cobra.Command, []string) error { return s.up(node, serving, web, nodes) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	registerServing(set, &web, &serving)
	nodes.register(set)
	node.registerAllSettings(set)
	return cmd
}

// registerServing adds the flags of a node that serves.
func registerServing(set *pflag.FlagSet, web *config.API, node *config.Node) {
	set.StringVar(&web.Listen, "listen", web.Listen, "address to listen on, host:port")
	set.StringVar(&web.TLSDir, "tls-dir", "", "folder of certificates and tokens (default: beside the configuration)")
	set.StringVar(&web.JobURL, "job-url", "", "where the endpoints of remote functions reach this server (default: its first address)")
	set.Var(oneOf(&node.Policy, config.Policies()), "policy", "how N changes between the epochs of a job")
	set.StringVar(&node.Cache, "cache", node.Cache, "folder for copies of data sets and models of a store that is not on this machine")
	set.Var(byteSize(&node.CacheLimit), "cache-limit", "bytes that these copies may take, such as 200GiB; those unused for longest go (default: 50GiB)")
	set.Var(oneOf(&node.Jobs, config.JobsModes()), "jobs", "where jobs run: in the server's process, or each in one of its own")
}

// up serves until a signal comes, or the company ends by itself.
func (s *session) up(flags *nodeFlags, serving config.Node, web config.API, nodes *clusterFlags) (err error) {
	if err := nodes.check(); err != nil {
		return err
	}
	if nodes.Join != "" && flags.store == "" {
		flags.store = "mem://" // it works through the leader, and needs none
	}
	local, err := flags.node(&messages.TrainTask{Options: &messages.TrainOptions{}})
	if err != nil {
		return err
	}
	local.Policy, local.Jobs, local.Cache, local.CacheLimit = serving.Policy, serving.Jobs, serving.Cache, serving.CacheLimit
	if err := local.Validate(); err != nil {
		return err
	}
	if local.Cache != "" {
		if err := cache.Usable(local.Cache); err != nil {
			return err
		}
	}
	if web.TLSDir == "" {
		web.TLSDir = config.DefaultTLSDir(s.Getenv)
	}
	if err := web.Validate(); err != nil {
		return err
	}
	log := newLog(s.screen, flags.verbose)
	if nodes.Join != "" {
		return s.upJoined(local, web.TLSDir, nodes, log)
	}
	ctx, release := s.untilSignal()
	defer release()
	address := web.Listen
	listener, taken := api.Listen(web.Listen) // first: the store is told the port
	switch {
	case taken == nil:
		defer listener.Close()
		address = api.Addresses(listener)[0]
	case fault.KindOf(taken) != fault.Conflict:
		return taken
	}
	m := &membership{}
	if taken == nil && web.TLSDir != "" {
		if m, err = newMembership(web, address); err != nil {
			return err
		}
		local.Name = m.id.Node()
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.start(ctx, local, web, nodes, s.tell, log); err != nil {
		return err
	}
	jobs, err := newJobProcesses(local, flags.verbose, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jobs.Close()) }()
	c, err := actors.Start(actors.Config{Log: log, Node: local, JobCommand: jobs.command, Server: true, Address: address, ServesJobs: true, Nodes: m.nodes(nodes), Warn: s.warnOf})
	if err != nil {
		return err // that of a store which another server has comes before that of its address
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if taken != nil {
		return taken
	}
	spool := filepath.Join(os.TempDir(), fmt.Sprintf("troupe-uploads-%d-%d", os.Getuid(), os.Getpid()))
	defer os.RemoveAll(spool)
	server, err := api.Start(web, api.Deps{
		Company: newNode(c, address, m.c), Joins: m.joins(), Log: log, Metrics: metrics.New(thisBuild().Version, sources(c)), Version: thisBuild().Version, Spool: spool,
		Listener: listener, Jobs: c.JobsHandler(),
	})
	if err != nil {
		return err
	}
	at := actors.JobsAt{URL: server.JobURL, Fingerprint: server.Fingerprint()}
	c.ServeJobs(at)
	jobs.servesAt(at)
	defer func() {
		patience, cancel := context.WithTimeout(context.Background(), closeFor)
		defer cancel()
		err = errors.Join(err, server.Close(patience))
	}()
	m.announce()
	if err := s.introduce(server, web, local, m); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-m.done():
		return fault.New("up.run", fault.Unavailable, "the server ends: %w", m.c.Err())
	case <-c.Done():
		return fault.New("up.run", fault.KindOf(c.Err()), "the server ends: %w", c.Err())
	}
}

// warnOf shows a warning of the node.
func (s *session) warnOf(text string) { s.warn(warnings{}, text) }

// introduce says where the server is, and what to do next.
func (s *session) introduce(server *api.Server, web config.API, local config.Node, m *membership) error {
	fmt.Fprintf(s.screen, "troupe %s: %s, %s, store %s\n", thisBuild().Version, server.URL(), count(local.Slots, "slot"), local.Store)
	if server.FirstStart() {
		fmt.Fprintf(s.screen, "  certificates and tokens are made: %s\n", web.TLSDir)
	}
	flag := ""
	if server.URL() != "http://"+config.DefaultAPI().Listen {
		flag = " --server " + server.URL()
	}
	if !strings.HasPrefix(server.URL(), "http:") {
		flag += " --token-file " + filepath.Join(web.TLSDir, "submit.token")
	}
	fmt.Fprintf(s.screen, "  train     troupe train -f mlp -d digits --follow%s\n", flag)
	urls := server.URLs()
	if len(urls) > 1 {
		fmt.Fprintf(s.screen, "  others    %s\n", strings.Join(urls[:len(urls)-1], ", "))
	}
	if strings.HasPrefix(server.URL(), "http:") {
		fmt.Fprintln(s.screen, "  others    this address is for this machine alone; for others: troupe up --listen 0.0.0.0:8780")
	}
	if m.c == nil {
		return nil
	}
	_, at, _ := strings.Cut(urls[0], "://")
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		return err // it is being listened on
	}
	token, err := m.id.Authority().AddToken("start-" + port) // that of an earlier start may be on its way to somebody
	if err != nil {
		return err
	}
	fmt.Fprintf(s.screen, "  join      troupe up --join %s --token %s\n", at, token)
	return nil
}
