package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api/client"
)

// newStacksCommand returns the verb that says where functions are.
func newStacksCommand(s *session) *cobra.Command {
	server, id := &remoteFlags{}, ""
	cmd := &cobra.Command{
		Use:   "stacks --id ID",
		Short: "Say where each running function of a job is right now",
		Long: `Say where each running function of a job is right now, the most recent call
first. Of one in Python these are the threads that are in the user's code, the
main thread first, and of each at most the 100 most recent calls. In a cluster
each function has its node beside it, and a node that does not answer within 5 s is
named.`,
		Example:     "  troupe stacks --id 01jcx5zq8w3f",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkJob(id); err != nil {
				return err
			}
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				stacks, err := c.Stacks(ctx, id)
				if err != nil {
					return err
				}
				_, err = io.WriteString(s.Out, stacks)
				return err
			})
		},
	}
	registerJob(cmd.Flags(), &id)
	server.register(cmd.Flags())
	s.complete(cmd, "id", runningJobs, server)
	return cmd
}
