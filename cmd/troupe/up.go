package main

import (
	"context"
	"errors"
	"fmt"
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
)

// closeFor is how long requests have to end when the server stops.
const closeFor = 5 * time.Second

// newUpCommand returns the verb that makes a node which many people use.
func newUpCommand(s *session) *cobra.Command {
	node, web := newNodeFlags(s.Getenv), config.DefaultAPI()
	serving := config.DefaultNode()
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a server",
		Long: `Start a node that takes jobs over HTTP, for troupe train and every other verb
that has --server, until a signal ends it.

Jobs are kept in the store: those that run, or wait, when the server ends or
dies go on when the next one starts on the same store. With --jobs process each
job has a process of its own: one that crashes, or is killed, goes on in a new one,
and no other job notices. On a loopback address
nobody needs a token. Any other address has TLS: its first start makes a
certificate and tokens in --tls-dir.`,
		Example: `  troupe up
  troupe up --slots 8 --store file:///srv/troupe
  troupe up --jobs process
  troupe up --listen 0.0.0.0:8780 --tls-dir /etc/troupe`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitConflict, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE:        func(*cobra.Command, []string) error { return s.up(node, serving, web) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	registerServing(set, &web, &serving)
	node.registerAllSettings(set)
	return cmd
}

// registerServing adds the flags of a node that serves.
func registerServing(set *pflag.FlagSet, web *config.API, node *config.Node) {
	set.StringVar(&web.Listen, "listen", web.Listen, "address to listen on, host:port")
	set.StringVar(&web.TLSDir, "tls-dir", "", "folder of certificates and tokens, for an address that is not loopback (default: beside the configuration)")
	set.StringVar(&web.JobURL, "job-url", "", "where the endpoints of remote functions reach this server (default: its first address)")
	set.Var(oneOf(&node.Policy, config.Policies()), "policy", "how N changes between the epochs of a job")
	set.Var(oneOf(&node.Jobs, config.JobsModes()), "jobs", "where jobs run: in the server's process, or each in one of its own")
}

// up serves until a signal comes, or the company ends by itself.
func (s *session) up(flags *nodeFlags, serving config.Node, web config.API) (err error) {
	local, err := flags.node(&messages.TrainTask{Options: &messages.TrainOptions{}})
	if err != nil {
		return err
	}
	local.Policy, local.Jobs = serving.Policy, serving.Jobs
	if web.TLSDir == "" {
		web.TLSDir = config.DefaultTLSDir(s.Getenv)
	}
	if err := web.Validate(); err != nil {
		return err
	}
	ctx, release := s.untilSignal()
	defer release()
	log := newLog(s.screen, flags.verbose)
	address := web.Listen
	listener, taken := api.Listen(web.Listen) // first: the store is told the port
	switch {
	case taken == nil:
		defer listener.Close()
		address = api.Addresses(listener)[0]
	case fault.KindOf(taken) != fault.Conflict:
		return taken
	}
	jobs, err := newJobProcesses(local, flags.verbose, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, jobs.Close()) }()
	c, err := actors.Start(actors.Config{Log: log, Node: local, JobCommand: jobs.command, Server: true, Address: address, ServesJobs: true, Warn: s.warnOf})
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
		Company: newNode(c, address), Log: log, Metrics: metrics.New(thisBuild().Version, sources(c)), Version: thisBuild().Version, Spool: spool,
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
	s.introduce(server, web, local)
	select {
	case <-ctx.Done():
		return nil
	case <-c.Done():
		return fault.New("up.run", fault.KindOf(c.Err()), "the server ends: %w", c.Err())
	}
}

// warnOf shows a warning of the node.
func (s *session) warnOf(text string) { s.warn(warnings{}, text) }

// introduce says where the server is, and what to do next.
func (s *session) introduce(server *api.Server, web config.API, local config.Node) {
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
	if urls := server.URLs(); len(urls) > 1 {
		fmt.Fprintf(s.screen, "  others    %s\n", strings.Join(urls[:len(urls)-1], ", "))
	}
	if strings.HasPrefix(server.URL(), "http:") {
		fmt.Fprintln(s.screen, "  others    this address is for this machine alone; for others: troupe up --listen 0.0.0.0:8780")
	}
}
