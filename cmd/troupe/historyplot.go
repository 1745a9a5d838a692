package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/internal/chart"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// newHistoryPlotCommand returns the verb that draws what a job has done.
func newHistoryPlotCommand(s *session) *cobra.Command {
	flags, id, out, force := newPlaceFlags(s.Getenv), "", "", false
	cmd := &cobra.Command{
		Use:   "plot --id ID --out FILE.svg|FILE.png",
		Short: "Draw loss and accuracy of a job over its epochs",
		Long: `Draw the losses and the accuracy of a job over its epochs, into a file: an SVG or
a PNG, as its name ends. One that is there is not replaced unless --force is
given.`,
		Example:     "  troupe history plot --id 01jcx5zq8w3f --out loss.svg",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := checkJob(id); err != nil {
				return err
			}
			write, err := plotter(out)
			if err != nil {
				return err
			}
			return s.at(flags, func(ctx context.Context, b backend) error {
				v, err := b.Job(ctx, id)
				if err != nil {
					return err
				}
				if len(epochsOf(v)) == 0 {
					return fault.New("history.plot", fault.Conflict, "job %s has no complete epoch yet: there is nothing to draw", id)
				}
				if err := writeWhole(out, force, func(w io.Writer) error { return write(chartOf(v), w) }); err != nil {
					return err
				}
				fmt.Fprintf(s.screen, "job %s drawn to %s\n", id, out)
				return nil
			})
		},
	}
	registerJob(cmd.Flags(), &id)
	cmd.Flags().StringVar(&out, "out", "", "file to write, .svg or .png")
	cmd.Flags().BoolVar(&force, "force", false, "replace a file that is there")
	flags.register(cmd.Flags())
	s.completePlace(cmd, "id", allJobs, flags)
	return cmd
}

// plotter returns how a file of that name is drawn.
func plotter(file string) (func(chart.Chart, io.Writer) error, error) {
	switch name := strings.ToLower(file); {
	case strings.HasSuffix(name, ".svg"):
		return chart.Chart.SVG, nil
	case strings.HasSuffix(name, ".png"):
		return chart.Chart.PNG, nil
	case file == "":
		return nil, fault.New("history.flags", fault.Invalid, "no file given: say where to draw with --out loss.svg")
	}
	return nil, fault.New("history.flags", fault.Invalid, "--out %s: give a name that ends in .svg or .png", file)
}

// chartOf is what a job has done as curves.
func chartOf(v *messages.JobView) chart.Chart {
	train, validation := chart.Curve{Name: "training loss"}, chart.Curve{Name: "validation loss"}
	accuracy := chart.Curve{Name: "accuracy", Axis: chart.Right}
	add := func(c *chart.Curve, epoch uint32, y *float64) {
		if y = measured(y); y != nil {
			c.X, c.Y = append(c.X, float64(epoch)), append(c.Y, *y)
		}
	}
	for _, e := range epochsOf(v) {
		add(&train, e.GetEpoch(), &e.TrainLoss)
		add(&validation, e.GetEpoch(), e.ValidationLoss)
		add(&accuracy, e.GetEpoch(), e.Accuracy)
	}
	c := chart.Chart{
		Title: fmt.Sprintf("%s on %s, job %s", v.GetTask().GetFunctionName(), v.GetTask().GetDataset(), v.GetId()),
		XName: "epoch", Left: "loss", Right: "%",
	}
	for _, curve := range []chart.Curve{train, validation, accuracy} {
		if len(curve.X) > 0 {
			c.Curves = append(c.Curves, curve)
		}
	}
	return c
}
