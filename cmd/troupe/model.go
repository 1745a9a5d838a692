package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/model"
)

// newModelCommand returns the verb for trained models.
func newModelCommand(s *session) *cobra.Command {
	return newGroup("model", "List, show, export and delete trained models", "  troupe model list\n  troupe model export -n 01jcx5zq8w3f -o lenet.safetensors", newModelListCommand(s), newModelShowCommand(s), newModelExportCommand(s), newModelDeleteCommand(s))
}

// modelFlags are the flags that say which model is meant.
type modelFlags struct {
	placeFlags
	id string
}

func newModelFlags(getenv func(string) string) *modelFlags {
	return &modelFlags{placeFlags: *newPlaceFlags(getenv)}
}

func (f *modelFlags) registerID(s *session, cmd *cobra.Command) {
	registerModel(cmd.Flags(), &f.id)
	s.completePlace(cmd, "id", modelNames, &f.placeFlags)
}

func registerModel(set *pflag.FlagSet, id *string) {
	set.StringVarP(id, "id", "n", "", "id of the model: that of the job that trained it")
}

// check refuses a command line without an id.
func (f *modelFlags) check() error {
	if f.id == "" {
		return fault.New("model.flags", fault.Invalid, "no model given: say which with -n ID, as troupe model list shows them")
	}
	return nil
}

// withModel opens the file of a model from its start, and calls use with that.
func withModel(ctx context.Context, b backend, id string, use func(api.Model, model.File) error) error {
	m, err := b.Model(ctx, id)
	if err != nil {
		return err
	}
	from, _, err := b.OpenModel(ctx, id)
	if err != nil {
		return err
	}
	defer from.Close()
	return use(m, model.File{Card: model.Card{ID: m.ID, Bytes: m.Bytes, SHA256: m.SHA256}, Name: m.Model, From: from})
}

// newModelListCommand returns the verb that lists all models.
func newModelListCommand(s *session) *cobra.Command {
	return newListCommand(s, "model", "models", "List all models, the oldest first", modelTable, func(ctx context.Context, b backend) ([]api.Model, error) {
		return b.Models(ctx)
	})
}

func modelTable(models []api.Model) *table {
	t := newTable("ID", "FUNCTION", "DATASET", "EPOCHS", "ACCURACY", "VAL-LOSS", "BYTES", "CREATED")
	for _, m := range models {
		t.row(m.ID, m.Function, m.Dataset, m.Epochs, orDash("%.1f %%", m.Accuracy), orDash("%.3f", m.ValidationLoss), m.Bytes, m.Created)
	}
	return t
}

// newModelDeleteCommand returns the verb that removes a model.
func newModelDeleteCommand(s *session) *cobra.Command {
	flags := newModelFlags(s.Getenv)
	cmd := &cobra.Command{
		Use:         "delete -n ID",
		Short:       "Remove a model for good",
		Example:     "  troupe model delete -n 01jcx5zq8w3f",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return s.at(&flags.placeFlags, func(ctx context.Context, b backend) error {
				if err := b.DeleteModel(ctx, flags.id); err != nil {
					return err
				}
				fmt.Fprintf(s.screen, "model %s deleted\n", flags.id)
				return nil
			})
		},
	}
	flags.registerID(s, cmd)
	flags.register(cmd.Flags())
	return cmd
}
