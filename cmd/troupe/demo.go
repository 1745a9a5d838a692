package main

import (
	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/messages"
)

// newDemoCommand returns the verb that shows the company at work.
func newDemoCommand(s *session) *cobra.Command {
	node := newNodeFlags(s.Getenv)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Train a small network on handwritten digits",
		Long: `Train the built-in mlp on the built-in digits (1,437 handwritten digits to
train on, 360 to test on) with two functions, and say how well it reads them
and where the model is.`,
		Example: "  troupe demo\n  troupe demo -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitConflict, exitUnavailable, exitCorrupt,
			exitFailed, exitStopped, exitKilled),
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.train(demoTask(), node)
		},
	}
	cmd.Flags().SortFlags = false
	node.register(cmd.Flags())
	return cmd
}

// demoTask is what demo trains.
func demoTask() *messages.TrainTask {
	return &messages.TrainTask{
		FunctionName: "mlp", Dataset: "digits", Epochs: 10, BatchSize: 16, Lr: 0.1,
		Options: &messages.TrainOptions{DefaultParallelism: 2, StaticParallelism: true},
	}
}
