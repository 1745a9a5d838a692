package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// newTaskCommand returns the verb for the jobs of a server.
func newTaskCommand(s *session) *cobra.Command {
	return newGroup("task", "List, show, stop and resume the jobs of a server", "  troupe task list\n  troupe task stop --id 01jcx5zq8w3f",
		newTaskListCommand(s), newTaskShowCommand(s), newTaskStopCommand(s), newTaskResumeCommand(s), newTaskPruneCommand(s))
}

// registerJob adds the flag that says which job is meant.
func registerJob(set *pflag.FlagSet, id *string) {
	set.StringVar(id, "id", "", "id of the job, as troupe train has printed it")
}

// checkJob refuses a command line without an id.
func checkJob(id string) error {
	if id == "" {
		return fault.New("troupe.flags", fault.Invalid, "no job given: say which with --id, as troupe task list and troupe history list show them")
	}
	return nil
}

// endPoll is how often a job whose end is waited for is asked for.
const endPoll = 100 * time.Millisecond

// newTaskStopCommand returns the verb that ends a job.
func newTaskStopCommand(s *session) *cobra.Command {
	server, id, wait := &remoteFlags{}, "", false
	cmd := &cobra.Command{
		Use:   "stop --id ID",
		Short: "Stop a job",
		Long: `Stop a job: it ends as STOPPED, with what it has learned kept in the store, and
can be resumed. Once this returns the stop is in the store, and is obeyed even
if the server dies before it has done so. With --wait it returns when the job
has ended.`,
		Example:     "  troupe task stop --id 01jcx5zq8w3f\n  troupe task stop --id 01jcx5zq8w3f --wait",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkJob(id); err != nil {
				return err
			}
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				if err := c.StopJob(ctx, id, "stopped by troupe task stop"); err != nil {
					return err
				}
				fmt.Fprintf(s.screen, "job %s: the stop is accepted\n", id)
				if !wait {
					return nil
				}
				return s.awaitEnd(ctx, c, id)
			})
		},
	}
	registerJob(cmd.Flags(), &id)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the job has ended")
	server.register(cmd.Flags())
	s.complete(cmd, "id", runningJobs, server)
	return cmd
}

// awaitEnd waits until a job has ended, and says how.
func (s *session) awaitEnd(ctx context.Context, c *client.Client, id string) error {
	tick := time.NewTicker(endPoll)
	defer tick.Stop()
	for {
		v, err := c.Job(ctx, id)
		if err != nil {
			return err
		}
		if v.GetResult() != nil {
			fmt.Fprintf(s.screen, "job %s %s\n", id, jobjson.StateName(v.GetPhase()))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// newTaskResumeCommand returns the verb that goes on with a job.
func newTaskResumeCommand(s *session) *cobra.Command {
	server, id, output := &remoteFlags{}, "", "text"
	var n uint32
	var follow bool
	cmd := &cobra.Command{
		Use:   "resume --id ID",
		Short: "Go on with a job that was stopped or has failed",
		Long: `Go on with a job that was stopped, has failed or lost its process, from where
the store has it: on as many functions as it had, or as -p says. All else stays
as it was submitted.`,
		Example:     "  troupe task resume --id 01jcx5zq8w3f --follow\n  troupe task resume --id 01jcx5zq8w3f -p 2",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitCorrupt, exitFailed, exitStopped, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkJob(id); err != nil {
				return err
			}
			return s.resumeRemote(server, id, n, follow, output)
		},
	}
	set := cmd.Flags()
	registerJob(set, &id)
	set.VarP(whole(&n, 1, task.MaxParallelism), "parallelism", "p", "functions N to go on with (default: as many as it had)")
	set.BoolVar(&follow, "follow", false, "show the job until it has ended")
	server.register(set)
	registerOutput(set, &output)
	s.complete(cmd, "id", endedJobs, server)
	return cmd
}

func (s *session) resumeRemote(flags *remoteFlags, id string, n uint32, follow bool, output string) error {
	c, err := s.client(flags)
	if err != nil {
		return err
	}
	defer c.Close()
	var view *messages.JobView
	err = s.brief(func(ctx context.Context) (err error) {
		if err := c.ResumeStoredJob(ctx, id, n); err != nil {
			return err
		}
		view, err = c.Job(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.screen, "job %s goes on: %s on %s\n", id, view.GetTask().GetFunctionName(), view.GetTask().GetDataset())
	if output == "json" {
		err = s.printJSON(jobID{id})
	}
	if err != nil || !follow {
		return err
	}
	return s.followToEnd(c, id, view.GetTask(), warnings{}, output)
}
