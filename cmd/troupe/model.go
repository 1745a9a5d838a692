package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/model"
)

// newModelCommand returns the verb for the models of a store.
func newModelCommand(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:         "model",
		Short:       "List, show, export and delete trained models",
		Example:     "  troupe model list\n  troupe model export -n 01jcx5zq8w3f -o lenet.safetensors",
		Annotations: exits(exitDone, exitBug, exitInvalid),
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return fault.New("model.verb", fault.Invalid, "there is no verb %q: see troupe model --help", args[0])
		},
	}
	cmd.AddCommand(newModelListCommand(s), newModelShowCommand(s), newModelExportCommand(s), newModelDeleteCommand(s))
	return cmd
}

// modelFlags are the flags that say which model is meant.
type modelFlags struct {
	store string
	id    string
}

func newModelFlags(getenv func(string) string) *modelFlags {
	return &modelFlags{store: config.DefaultStore(getenv)}
}

// register adds both flags.
func (f *modelFlags) register(set *pflag.FlagSet) {
	f.registerID(set)
	f.registerStore(set)
}

func (f *modelFlags) registerID(set *pflag.FlagSet) {
	set.StringVarP(&f.id, "id", "n", "", "id of the model: that of the job that trained it")
}

func (f *modelFlags) registerStore(set *pflag.FlagSet) {
	set.StringVar(&f.store, "store", f.store, "URL of the store, where models are kept; else $TROUPE_STORE")
}

// check refuses a command line without an id.
func (f *modelFlags) check() error {
	if f.id == "" {
		return fault.New("model.flags", fault.Invalid, "no model given: say which with -n ID, as troupe model list shows them")
	}
	return nil
}

// models calls use with the catalog of the store, and a context that ends with
// the first signal.
func (s *session) models(url string, use func(ctx context.Context, c *model.Catalog) error) (err error) {
	if url == "" {
		return fault.New("model.store", fault.Invalid, "there is no store: give --store file:///folder, or set TROUPE_STORE or HOME")
	}
	ctx, release := s.untilSignal()
	defer release()
	bucket, err := store.Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	return use(ctx, model.New(bucket))
}

// newModelDeleteCommand returns the verb that removes a model.
func newModelDeleteCommand(s *session) *cobra.Command {
	flags := newModelFlags(s.Getenv)
	cmd := &cobra.Command{
		Use:         "delete -n ID",
		Short:       "Remove a model for good",
		Example:     "  troupe model delete -n 01jcx5zq8w3f",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable),
		Args:        cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return s.models(flags.store, func(ctx context.Context, c *model.Catalog) error {
				if err := c.Delete(ctx, flags.id); err != nil {
					return err
				}
				fmt.Fprintf(s.screen, "model %s deleted\n", flags.id)
				return nil
			})
		},
	}
	flags.register(cmd.Flags())
	return cmd
}
