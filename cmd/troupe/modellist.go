package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api"
)

// newModelListCommand returns the verb that lists all models.
func newModelListCommand(s *session) *cobra.Command {
	flags, output := newPlaceFlags(s.Getenv), "table"
	cmd := &cobra.Command{
		Use:         "list",
		Short:       "List all models, the oldest first",
		Example:     "  troupe model list\n  troupe model list -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.at(flags, func(ctx context.Context, b backend) error {
				models, err := b.Models(ctx)
				if err != nil {
					return err
				}
				return printList(s, output, models, "no models in "+b.Place(), modelTable)
			})
		},
	}
	registerTable(cmd.Flags(), &output)
	flags.register(cmd.Flags())
	return cmd
}

func modelTable(models []api.Model) *table {
	t := newTable("ID", "FUNCTION", "DATASET", "EPOCHS", "ACCURACY", "VAL-LOSS", "BYTES", "CREATED")
	for _, m := range models {
		t.row(m.ID, m.Function, m.Dataset, m.Epochs, orDash("%.1f %%", m.Accuracy), orDash("%.3f", m.ValidationLoss), m.Bytes, m.Created)
	}
	return t
}
