package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions/remote/endpoint"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/pki"
	"github.com/troupe-ml/troupe/plane"
)

// serveFlags say what an endpoint runs, and where it listens.
type serveFlags struct {
	nodeFlags
	code, function string
	host           string
	port           int
	jobs           string
	grace          time.Duration
}

func (f *serveFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.code, "code", "", "program.py, or a folder with main.py")
	set.StringVar(&f.function, "function", "", "a built-in function, instead of a program")
	set.Var(whole(&f.port, 0, 65535), "port", "port to listen on; 0: a free one, which is then printed")
	set.StringVar(&f.host, "host", f.host, "address to listen on; 0.0.0.0: all of this machine, for a gateway in front that decides who may call")
	set.StringVar(&f.jobs, "job-url", "", "how the URLs of jobs begin that are worked for, such as https://troupe.example:8780 (default: any, without their --env)")
	set.DurationVar(&f.grace, "grace", f.grace, "how long what runs has to end after a signal")
	set.Var(whole(&f.slots, 1, config.MaxSlots), "slots", "calls that run at once; more are told to come again (default: cores)")
	f.registerWorkers(set)
	set.Var(whole(&f.threads, 1, config.MaxThreads), "threads", "threads of the function (default: as many as the job says)")
	set.CountVarP(&f.verbose, "verbose", "v", "log what happens; -vv: in detail")
}

func (f *serveFlags) check() error {
	const op = "serve.flags"
	switch {
	case f.code == "" && f.function == "":
		return fault.New(op, fault.Invalid, "no code given: say what to run with --code program.py, or --code FOLDER with main.py")
	case f.code != "" && f.function != "":
		return fault.New(op, fault.Invalid, "--code and --function say two things: give one of them")
	case f.grace < 0:
		return fault.New(op, fault.Invalid, "grace %v: give a duration from 0, such as 30s", f.grace)
	}
	return nil
}

// newServeCommand returns the verb that makes a function an HTTP endpoint.
func newServeCommand(s *session) *cobra.Command {
	flags := &serveFlags{nodeFlags: nodeFlags{store: "mem://"}, host: "127.0.0.1", port: -1, grace: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "serve --code FILE|FOLDER --port PORT",
		Short: "Run a function for others, over HTTP",
		Long: `Run a PyTorch program, a file or a folder with main.py, for jobs elsewhere that call
it over HTTP: each of its calls names the job's URL, from where rows and model are
fetched, and to where the trained model is put. troupe function create --url makes
the endpoint, or several, a function that jobs can name.

It listens on this machine alone, has no TLS and asks nobody for a token: for
others there is a gateway in front (Knative, OpenFaaS, Fission, a reverse proxy:
docs/deploy-functions.md). Who may call it can have it fetch from any URL, unless
--job-url says where jobs are.

A signal has it take no more calls and end when those that run have, or after
--grace. GET /health is 200 as long as it takes calls.`,
		Example: `  troupe serve --code lenet.py --port 8000
  troupe serve --code ./resnet --port 8000 --slots 4 --job-url http://10.0.0.5:8780
  troupe serve --function mlp --port 8000`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if flags.port < 0 {
				return fault.New("serve.flags", fault.Invalid, "no port given: say where to listen with --port 8000; 0: a free one")
			}
			return s.serve(flags)
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	flags.register(set)
	if err := cmd.MarkFlagFilename("code", "py"); err != nil { // there is no such flag
		panic(err)
	}
	return cmd
}

// serve answers calls until a signal comes.
func (s *session) serve(flags *serveFlags) (err error) {
	node, err := flags.node(nil)
	if err != nil {
		return err
	}
	node.Threads = flags.threads // 0: those of the job
	ctx, release := s.untilSignal()
	defer release()
	log := newLog(s.screen, flags.verbose)
	scratch, err := plane.OpenScratch(node.Scratch, node.Name, s.tell)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	served, err := s.served(ctx, flags, node, scratch.Folder())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, served.runtime.Close()) }()
	e, err := endpoint.New(endpoint.Config{
		Runtime: served.runtime, Function: served.key, Slots: node.Slots, Threads: node.Threads, Dir: scratch.Folder(), Log: log,
		Jobs: flags.jobs, TLS: pki.Pinned,
	})
	if err != nil {
		return err
	}
	defer e.Close()
	listener, err := listen(net.JoinHostPort(flags.host, strconv.Itoa(flags.port)))
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: e, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	fmt.Fprintf(s.screen, "troupe %s: %s at http://%s, %s\n", thisBuild().Version, served.name, listener.Addr(), count(node.Slots, "slot"))
	select {
	case <-ctx.Done():
		drain(server, flags.grace)
		<-ended
		return nil
	case err := <-ended:
		return fault.New("serve.run", fault.Unavailable, "no more calls are taken: %w", err)
	}
}

// drain takes no more calls, waits for those that run, and cuts off what is left.
func drain(server *http.Server, grace time.Duration) {
	patience, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if server.Shutdown(patience) != nil {
		_ = server.Close()
	}
}

// tell says something to whoever looks.
func (s *session) tell(text string) { fmt.Fprintf(s.screen, "troupe: %s\n", text) }

// listen listens at host:port. Conflict: another process does; Invalid.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault.New("serve.listen", fault.Conflict, "listen on %s: another process does: end it, or give another --port", address)
	}
	return nil, fault.New("serve.listen", fault.Invalid, "listen on %s: %w", address, errors.New(strings.TrimPrefix(err.Error(), "listen tcp ")))
}
