package main

import (
	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/internal/fault"
)

// newRunCommand returns the verb that trains one job in this process.
func newRunCommand(s *session) *cobra.Command {
	train, node := newTrainFlags(), newNodeFlags(s.Getenv)
	var resume string
	cmd := &cobra.Command{
		Use:   "run FUNCTION -d DATASET | run --resume ID|last",
		Short: "Train one job in this process",
		Long: `Train FUNCTION on a data set in this process, without a server, and end when
the job ends. FUNCTION is a built-in (softmax or mlp), a PyTorch program
(program.py, or a folder with main.py), or the name of one in the store.

A job's state is kept in the store while it trains. One that was stopped, has
failed or lost its process goes on where it was with --resume, on as many
functions as it had or as -p says; all else stays as it was submitted.

The job's id, its progress and warnings go to standard error, the result to
standard output: a summary, or with -o json one JSON object and nothing else.`,
		Example: `  troupe run mlp -d digits
  troupe run mlp -d digits -e 10 -b 16 -p 4 --static --lr 0.1 -o json
  troupe run examples/lenet.py -d /usr/share/datasets/fashion-mnist -e 3 -b 128 --lr 0.02
  troupe run softmax -d data.npz --validate-every -1 --arg momentum=0
  troupe run mlp -d digits -p 4 --retries 8 --chaos kill=0.2,nan=0.2,seed=3
  troupe run --resume last`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable,
			exitCorrupt, exitFailed, exitStopped, exitKilled),
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("resume") {
				return checkResume(args, cmd.Flags())
			}
			if len(args) != 1 {
				return fault.New("run.arguments", fault.Invalid,
					"run takes one FUNCTION and was given %d arguments %q: write it as in troupe run mlp -d digits", len(args), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("resume") {
				return s.resume(resume, train.options.GetDefaultParallelism(), node)
			}
			t, err := train.task(args[0], cmd.Flags())
			if err != nil {
				return err
			}
			return s.train(t, node)
		},
	}
	cmd.Flags().SortFlags = false
	train.register(cmd.Flags())
	cmd.Flags().StringVar(&resume, "resume", "", "go on with a job of the store: its id, or last for the newest that run began")
	node.registerAll(cmd.Flags())
	s.completeRun(cmd, node)
	return cmd
}
