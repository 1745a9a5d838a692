package main

import (
	"context"

	"github.com/spf13/cobra"
)

// newListCommand returns the verb list of a group, for all things of a kind, in
// the plural, that a backend has.
func newListCommand[T any](s *session, group, kind, short string, rows func([]T) *table, list func(context.Context, backend) ([]T, error)) *cobra.Command {
	flags, output := newPlaceFlags(s.Getenv), "table"
	cmd := &cobra.Command{
		Use:         "list",
		Short:       short,
		Example:     "  troupe " + group + " list\n  troupe " + group + " list -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.at(flags, func(ctx context.Context, b backend) error {
				all, err := list(ctx, b)
				if err != nil {
					return err
				}
				return printList(s, output, all, "no "+kind+" at "+b.Place(), rows)
			})
		},
	}
	registerTable(cmd.Flags(), &output)
	flags.register(cmd.Flags())
	return cmd
}
