package main

import (
	"bytes"
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/store/model"
	"github.com/troupe-ml/troupe/tensor"
)

// modelDetail is a model and its tensors, as -o json prints it.
type modelDetail struct {
	api.Model
	Tensors []tensorRow `json:"tensors"` // in the order of the file
}

type tensorRow struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"` // as safetensors names it
	Shape []int64 `json:"shape"`
}

// newModelShowCommand returns the verb that says what a model is.
func newModelShowCommand(s *session) *cobra.Command {
	flags, output := newModelFlags(s.Getenv), "text"
	cmd := &cobra.Command{
		Use:         "show -n ID",
		Short:       "Say what a model is, how it came about, and which tensors it has",
		Example:     "  troupe model show -n 01jcx5zq8w3f\n  troupe model show -n 01jcx5zq8w3f -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitCorrupt),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return s.at(&flags.placeFlags, func(ctx context.Context, b backend) error {
				return withModel(ctx, b, flags.id, func(m api.Model, file model.File) error {
					layout, err := file.Layout(ctx)
					if err != nil {
						return err
					}
					if output == "text" {
						return s.printModel(m, layout)
					}
					detail := modelDetail{m, make([]tensorRow, len(layout.Entries))}
					for i, e := range layout.Entries {
						detail.Tensors[i] = tensorRow{e.Name, e.DType.String(), append([]int64{}, e.Shape...)}
					}
					return s.printJSON(detail)
				})
			})
		},
	}
	flags.registerID(s, cmd)
	registerOutput(cmd.Flags(), &output)
	flags.register(cmd.Flags())
	return cmd
}

// printModel writes a model for a person to standard output in one write.
func (s *session) printModel(m api.Model, layout *tensor.Layout) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "model %s\n", m.ID)
	for _, line := range [][2]string{
		{"function", m.Function},
		{"data set", fmt.Sprintf("%s (%.12s…)", m.Dataset, m.DatasetDigest)},
		{"epochs", fmt.Sprint(m.Epochs)},
		{"accuracy", orDash("%.1f %%", m.Accuracy)},
		{"val-loss", orDash("%.3f", m.ValidationLoss)},
		{"train-loss", orDash("%.3f", m.TrainLoss)},
		{"merge", fmt.Sprintf("%s, N=%d at the end, seed %d", m.Merge, m.Parallelism, m.Seed)},
		{"created", m.Created},
		{"file", fmt.Sprintf("%s (%d bytes)", m.Model, m.Bytes)},
		{"sha256", m.SHA256},
		{"tensors", fmt.Sprint(len(layout.Entries))},
	} {
		fmt.Fprintf(&b, "  %-10s  %s\n", line[0], line[1])
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, e := range layout.Entries {
		fmt.Fprintf(w, "    %s\t%s\t%v\n", e.Name, e.DType, e.Shape)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := s.Out.Write(b.Bytes())
	return err
}
