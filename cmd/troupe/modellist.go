package main

import (
	"bytes"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/store/model"
)

// modelRow is a model, as -o json prints it: its card, and where it is.
type modelRow struct {
	model.Card
	Model string `json:"model"` // URL
}

// newModelListCommand returns the verb that lists all models.
func newModelListCommand(s *session) *cobra.Command {
	flags, output := newModelFlags(s.Getenv), "table"
	cmd := &cobra.Command{
		Use:         "list",
		Short:       "List all models, the oldest first",
		Example:     "  troupe model list\n  troupe model list -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable, exitCorrupt),
		Args:        cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return s.models(flags.store, func(ctx context.Context, c *model.Catalog) error {
				models, err := c.List(ctx)
				if err != nil {
					return err
				}
				if output == "json" {
					rows := make([]modelRow, len(models)) // [], never null
					for i, m := range models {
						rows[i] = modelRow{m.Card, m.URL}
					}
					return s.printJSON(rows)
				}
				if len(models) == 0 {
					fmt.Fprintf(s.screen, "no models in %s\n", flags.store)
					return nil
				}
				return s.printModels(models)
			})
		},
	}
	cmd.Flags().VarP(oneOf(&output, []string{"table", "json"}), "output", "o", "how the list is printed")
	flags.registerStore(cmd.Flags())
	return cmd
}

// printModels writes a table to standard output in one write.
func (s *session) printModels(models []model.Model) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "ID\tFUNCTION\tDATASET\tEPOCHS\tACCURACY\tVAL-LOSS\tBYTES\tCREATED")
	for _, m := range models {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s\n", m.ID, m.Function, m.Dataset, m.Epochs,
			orDash("%.1f %%", m.Accuracy), orDash("%.3f", m.ValidationLoss), m.Bytes, m.Created.UTC().Format(time.RFC3339))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}
