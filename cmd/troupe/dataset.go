package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
)

// newDatasetCommand returns the verb for the data sets that jobs can name.
func newDatasetCommand(s *session) *cobra.Command {
	return newGroup("dataset", "Create, list, show and delete data sets", "  troupe dataset create --name mnist --from /usr/share/datasets/fashion-mnist\n  troupe dataset list",
		newDatasetCreateCommand(s), newDatasetListCommand(s), newDatasetShowCommand(s), newDatasetDeleteCommand(s))
}

// newDatasetListCommand returns the verb that lists all data sets.
func newDatasetListCommand(s *session) *cobra.Command {
	return newListCommand(s, "dataset", "data sets", "List all data sets, the built-in one first", datasetTable, func(ctx context.Context, b backend) ([]api.Dataset, error) {
		return b.Datasets(ctx)
	})
}

func datasetTable(list []api.Dataset) *table {
	t := newTable("NAME", "TRAIN", "TEST", "DIGEST")
	for _, d := range list {
		t.row(d.Name, d.TrainSetSize, d.TestSetSize, d.Digest)
	}
	return t
}

// newDatasetShowCommand returns the verb that says what a data set is.
func newDatasetShowCommand(s *session) *cobra.Command {
	flags, name, output := newPlaceFlags(s.Getenv), "", "text"
	cmd := &cobra.Command{
		Use:         "show --name NAME",
		Short:       "Say what a data set is",
		Example:     "  troupe dataset show --name digits",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkDatasetName(name); err != nil {
				return err
			}
			return s.at(flags, func(ctx context.Context, b backend) error {
				d, err := b.Dataset(ctx, name)
				if err != nil {
					return err
				}
				return s.printDataset(d, output, "")
			})
		},
	}
	registerDatasetName(cmd, &name)
	flags.register(cmd.Flags())
	registerOutput(cmd.Flags(), &output)
	s.completePlace(cmd, "name", datasetNames, flags)
	return cmd
}

func registerDatasetName(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "name", "", "name of the data set")
}

func checkDatasetName(name string) error {
	if name == "" {
		return fault.New("dataset.flags", fault.Invalid, "no data set given: say which with --name")
	}
	return nil
}

// printDataset writes a data set to standard output, and says what became of
// it, unless that is nothing.
func (s *session) printDataset(d api.Dataset, output, became string) error {
	if became != "" {
		fmt.Fprintf(s.screen, "data set %s %s: %d samples to train on, %d to test\n", d.Name, became, d.TrainSetSize, d.TestSetSize)
	}
	if output == "json" {
		return s.printJSON(d)
	}
	if became != "" {
		return nil
	}
	return s.printTable(datasetTable([]api.Dataset{d}))
}

// newDatasetDeleteCommand returns the verb that removes a data set.
func newDatasetDeleteCommand(s *session) *cobra.Command {
	flags, name := newPlaceFlags(s.Getenv), ""
	cmd := &cobra.Command{
		Use:         "delete --name NAME",
		Short:       "Remove a data set, unless a job uses it",
		Example:     "  troupe dataset delete --name mnist",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkDatasetName(name); err != nil {
				return err
			}
			return s.at(flags, func(ctx context.Context, b backend) error {
				if err := b.DeleteDataset(ctx, name); err != nil {
					return err
				}
				fmt.Fprintf(s.screen, "data set %s deleted\n", name)
				return nil
			})
		},
	}
	registerDatasetName(cmd, &name)
	flags.register(cmd.Flags())
	s.completePlace(cmd, "name", datasetNames, flags)
	return cmd
}
