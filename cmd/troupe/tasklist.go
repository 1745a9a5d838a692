package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
)

// newTaskListCommand returns the verb that lists the jobs that run or wait.
func newTaskListCommand(s *session) *cobra.Command {
	server, output, short := &remoteFlags{}, "table", false
	cmd := &cobra.Command{
		Use:         "list",
		Short:       "List the jobs that run or wait, the oldest first",
		Long:        "List the jobs that run or wait, the oldest first. Those that have ended are in\ntroupe history list.",
		Example:     "  troupe task list\n  troupe task list --short | xargs -n 1 troupe task stop --id\n  troupe task list -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if short && output == "json" {
				return fault.New("task.flags", fault.Invalid, "--short prints ids alone, and -o json all there is: give one of them")
			}
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				tasks, err := c.Tasks(ctx)
				if err != nil {
					return err
				}
				if short {
					return s.printIDs(tasks)
				}
				return printList(s, output, tasks, "no jobs run or wait at "+c.Server(), taskTable)
			})
		},
	}
	cmd.Flags().BoolVar(&short, "short", false, "print the ids alone")
	server.register(cmd.Flags())
	registerTable(cmd.Flags(), &output)
	return cmd
}

func (s *session) printIDs(tasks []jobjson.Task) error {
	var ids strings.Builder
	for _, t := range tasks {
		ids.WriteString(t.Job.ID + "\n")
	}
	_, err := s.Out.Write([]byte(ids.String()))
	return err
}

func taskTable(tasks []jobjson.Task) *table {
	t := newTable("ID", "FUNCTION", "DATASET", "PHASE", "EPOCH", "N", "LOSS", "ACCURACY", "RUNNING", "ETA", "WAITS FOR")
	for _, task := range tasks {
		t.row(task.Job.ID, task.Request.FunctionName, task.Request.Dataset, task.Phase, epochOf(task), count0(task.Job.State.Parallelism),
			orDash("%.3f", task.Loss), orDash("%.1f %%", task.Accuracy), spell(task.RunningS), eta(task.ETAS), orNone(task.WaitingFor))
	}
	return t
}

// epochOf is the epoch that a job is at, of how many.
func epochOf(t jobjson.Task) string { return fmt.Sprintf("%d/%d", t.Epoch, t.Request.Epochs) }

// count0 is a number, of which 0 is none.
func count0(n uint32) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// spell is a time in seconds, of which 0 is none.
func spell(s *float64) string {
	if s == nil || *s <= 0 {
		return "-"
	}
	return seconds(*s)
}

func eta(s *float64) string {
	if s == nil {
		return "-"
	}
	return seconds(*s)
}

func orNone(s *string) string {
	if s == nil {
		return "-"
	}
	return strings.SplitN(*s, "\n", 2)[0]
}
