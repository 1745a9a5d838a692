package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/task"
)

// newLogsCommand returns the verb that shows what functions have printed.
func newLogsCommand(s *session) *cobra.Command {
	server, id, follow := &remoteFlags{}, "", false
	function := -1
	cmd := &cobra.Command{
		Use:   "logs --id ID",
		Short: "Show what the functions of a job have printed",
		Long: `Show what the functions of a job have printed, each line behind the number of
its function; with -f also what they print from now on, until the job has
ended. Ctrl-C ends that and not the job.`,
		Example:     "  troupe logs --id 01jcx5zq8w3f\n  troupe logs --id 01jcx5zq8w3f -f --function 0",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkJob(id); err != nil {
				return err
			}
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				return c.Log(ctx, id, function, follow, s.Out)
			})
		},
	}
	registerJob(cmd.Flags(), &id)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job has ended")
	cmd.Flags().Var(whole(&function, 0, task.MaxParallelism-1), "function", "of this function only (default: all)")
	server.register(cmd.Flags())
	s.complete(cmd, "id", allJobs, server)
	return cmd
}
