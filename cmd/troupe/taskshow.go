package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// epochsShown is of how many epochs, the last ones, a person is told.
const epochsShown = 10

// newTaskShowCommand returns the verb that says how a job is.
func newTaskShowCommand(s *session) *cobra.Command {
	server, id, output, follow := &remoteFlags{}, "", "text", false
	cmd := &cobra.Command{
		Use:   "show --id ID",
		Short: "Say how a job is, ended or not",
		Long: `Say how a job is, ended or not. With --follow it is shown until it has ended, as
troupe train --follow does, and the exit code says how; Ctrl-C ends that and
not the job.`,
		Example:     "  troupe task show --id 01jcx5zq8w3f\n  troupe task show --id 01jcx5zq8w3f --follow\n  troupe task show --id 01jcx5zq8w3f -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitFailed, exitStopped, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkJob(id); err != nil {
				return err
			}
			if follow {
				return s.followAgain(server, id, output)
			}
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				task, err := c.Task(ctx, id)
				switch {
				case err != nil:
					return err
				case output == "json":
					return s.printJSON(task)
				}
				return s.printTask(task)
			})
		},
	}
	registerJob(cmd.Flags(), &id)
	cmd.Flags().BoolVar(&follow, "follow", false, "show the job until it has ended")
	server.register(cmd.Flags())
	registerOutput(cmd.Flags(), &output)
	s.complete(cmd, "id", allJobs, server)
	return cmd
}

// followAgain follows a job that somebody submitted.
func (s *session) followAgain(flags *remoteFlags, id, output string) error {
	if output == "json" {
		return fault.New("task.flags", fault.Invalid, "--follow shows a job to people, and -o json is for programs: give one of them, or troupe events --id %s -f -o json", id)
	}
	c, err := s.client(flags)
	if err != nil {
		return err
	}
	defer c.Close()
	var view *messages.JobView
	if err := s.brief(func(ctx context.Context) (err error) { view, err = c.Job(ctx, id); return err }); err != nil {
		return err
	}
	fmt.Fprintf(s.screen, "job %s: %s on %s\n", id, view.GetTask().GetFunctionName(), view.GetTask().GetDataset())
	return s.followToEnd(c, id, view.GetTask(), warnings{}, output)
}

// printTask writes a job for a person to standard output in one write.
func (s *session) printTask(t jobjson.TaskDetails) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "job %s %s\n", t.Job.ID, t.Phase)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s  %s\n", name, fmt.Sprintf(format, args...))
	}
	line("function", "%s", t.Request.FunctionName)
	line("data set", "%s (%d samples to train on, %d to test)", t.Request.Dataset, t.TrainSamples, t.TestSamples)
	line("submitted", "%s, by %s", moment(t.SubmittedMs), t.Origin)
	if t.WaitingFor != nil {
		line("waits for", "%s", *t.WaitingFor)
	}
	line("epoch", "%s, round %d, N=%d", epochOf(t.Task), t.Round, t.Job.State.Parallelism)
	if t.Loss != nil || t.Accuracy != nil {
		line("so far", "loss %s, accuracy %s", orDash("%.3f", t.Loss), orDash("%.1f %%", t.Accuracy))
	}
	line("times", "queued %s, starting %s, running %s, ETA %s", eta(t.QueuedS), eta(t.StartingS), eta(t.RunningS), eta(t.ETAS))
	if t.Node != "" {
		line("node", "%s", t.Node)
	}
	if t.Incarnation > 1 {
		line("started", "%d times", t.Incarnation)
	}
	if trouble := troubles(t.Retries, t.LostFunctions, t.RejectedResults); trouble != "" {
		line("trouble", "%s", trouble)
	}
	for _, w := range t.Warnings {
		line("warning", "%s", w)
	}
	if t.Result != nil && t.Result.Model != nil {
		line("model", "%s", *t.Result.Model)
	}
	if t.Reason != nil {
		line("reason", "%s", strings.ReplaceAll(*t.Reason, "\n", "\n              "))
	}
	epochs := t.View().GetEpochs()
	if more := len(epochs) - epochsShown; more > 0 {
		line("earlier", "%s: troupe history get --id %s", count(more, "epoch"), t.Job.ID)
		epochs = epochs[more:]
	}
	for _, e := range epochs {
		fmt.Fprintf(&b, "  %s\n", epochLine(e, t.Request.Epochs))
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}
