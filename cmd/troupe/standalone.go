package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/actors/train"
	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/store/job"
)

const (
	serverGone = 10 * time.Second // after which a server is gone that does not answer
	serverLook = 2 * time.Second  // how often it is asked, and how long it has to answer
)

// newJobCommand returns the verb that makes a process of one job.
func newJobCommand(s *session) *cobra.Command {
	node, server := newNodeFlags(s.Getenv), &remoteFlags{}
	var id string
	var port int
	var at reach
	cmd := &cobra.Command{
		Use:   "job --id ID",
		Short: "Wait for one job, and train it in this process",
		Long: `Serve the HTTP interface of one job on a port of this machine, print its URL,
and end when the job has ended: POST /start gives it its task, POST /update
another size, DELETE /stop ends it, GET /health, /history and /events look on
(docs/api.md).

The job is kept in the store under its id: a process that is started with the
same --id, and told to start the same task, goes on where the last one was.`,
		Example: `  troupe job --id night-7 --port 9090
  curl -d '{"function_name": "mlp", "dataset": "digits"}' http://127.0.0.1:9090/start`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitConflict, exitUnavailable, exitCorrupt, exitFailed, exitStopped, exitKilled),
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if id == "" {
				return fault.New("job.flags", fault.Invalid, "the job has no id: give it one with --id, or that of a job which is to go on")
			}
			if err := job.CheckID(id); err != nil {
				return err
			}
			if at.url != "" {
				if err := config.CheckURL(at.url); err != nil {
					return fault.New("job.flags", fault.Invalid, "--job-url: %w", err)
				}
			}
			return s.standalone(id, port, at, node, server)
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&id, "id", "", "id of the job: 1 to 64 letters, digits, _ and -")
	set.Var(whole(&port, 0, 65535), "port", "port to listen on; 0: any that is free")
	server.set = set
	set.StringVar(&server.server, "server", "", "URL of the server that the job belongs to: its process ends when that has been gone for 10 s")
	set.StringVar(&server.tokenFile, "token-file", "", "file with the token for that server; else $TROUPE_TOKEN")
	set.StringVar(&at.url, "job-url", "", "where the endpoints of remote functions reach the job (default: its URL, on this machine)")
	set.StringVar(&at.authority, "job-authority", "", "SHA-256, in hexadecimal, of the authority that has signed the certificate at --job-url, which endpoints then check")
	node.registerAll(set)
	return cmd
}

// reach is where endpoints of remote functions reach a job; empty: at its own URL.
type reach struct{ url, authority string }

// standalone serves a job until it has ended, or its server is gone.
func (s *session) standalone(id string, port int, at reach, flags *nodeFlags, server *remoteFlags) (err error) {
	local, err := flags.node(&messages.TrainTask{Options: &messages.TrainOptions{}})
	if err != nil {
		return err
	}
	var owner *client.Client
	if server.set.Changed("server") { // and not what the environment says for other verbs
		local.Policy = "static" // what the server decides comes by POST /update
		if owner, err = s.dial(server); err != nil {
			return err
		}
		defer owner.Close()
	}
	l, err := train.Listen(port)
	if err != nil {
		return err
	}
	ctx, release := s.untilSignal()
	defer release()
	log := newLog(s.screen, flags.verbose)
	c, err := actors.Start(actors.Config{Log: log, Node: local, Served: owner != nil, ServesJobs: true})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	url := cmp.Or(strings.TrimRight(at.url, "/"), "http://"+l.Addr().String())
	c.ServeJobs(actors.JobsAt{URL: func(string) string { return url }, Fingerprint: at.authority}) // there is one job
	defer func() { err = errors.Join(err, c.Close()) }()
	j := train.NewBasicJob(log, id)
	j.Use(c)
	show := &onlooker{session: s, company: c, id: id, verbosity: flags.verbose}
	j.Watch(show.show)
	where := s.Out
	if flags.output == "json" {
		where = s.screen
	}
	fmt.Fprintf(where, "http://%s\n", l.Addr())
	lost := s.belongTo(owner, c)
	err = j.ServeOn(ctx, l)
	show.close()
	if gone := lost(); gone != nil && j.Result() == nil {
		return fault.New("job.serve", fault.Unavailable, "job %s: its server %s is gone: %w; the job goes on from the store", id, owner.Server(), gone)
	}
	if ctx.Err() != nil && j.Result() == nil {
		return &endedError{phase: messages.Phase_PHASE_STOPPED}
	}
	if err != nil {
		return err
	}
	v, err := c.Job(context.Background(), id)
	if err != nil {
		return err
	}
	if err := s.printResult(id, v.GetTask(), j.Result(), c.Logs(id), flags.output); err != nil {
		return err
	}
	return endOf(id, j.Result())
}

// belongTo closes the company once the server is gone. What it returns ends that,
// and says why the server counts as gone, nil: it does not.
func (s *session) belongTo(server *client.Client, c *actors.Company) (end func() error) {
	if server == nil {
		return func() error { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	var why error
	var looking sync.WaitGroup
	looking.Go(func() {
		if why = awaitGone(ctx, server); why != nil {
			_ = c.Close() // which standalone does too, and tells
		}
	})
	return func() error {
		cancel()
		looking.Wait()
		return why
	}
}

// awaitGone returns how a server failed to answer once it is gone, nil when ctx
// has ended.
func awaitGone(ctx context.Context, server *client.Client) error {
	ticker := time.NewTicker(serverLook)
	defer ticker.Stop()
	answered := time.Now()
	for {
		asked, cancel := context.WithTimeout(ctx, serverLook)
		_, err := server.Version(asked)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case fault.KindOf(err) != fault.Unavailable: // whatever it says, it is there
			answered = time.Now()
		case time.Since(answered) >= serverGone:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// onlooker shows the job as it goes, from when it has a task.
type onlooker struct {
	session   *session
	company   *actors.Company
	id        string
	verbosity int
	viewer    *viewer
}

func (o *onlooker) show(e *messages.JobEvent) {
	if o.viewer == nil {
		v, err := o.company.Job(context.Background(), o.id)
		if err != nil {
			return
		}
		fmt.Fprintf(o.session.screen, "job %s: %s on %s\n", o.id, v.GetTask().GetFunctionName(), v.GetTask().GetDataset())
		o.viewer = o.session.newViewer(o.id, v.GetTask(), warnings{}, o.verbosity)
	}
	o.viewer.show(e)
}

func (o *onlooker) close() {
	if o.viewer != nil {
		o.viewer.close()
	}
}
