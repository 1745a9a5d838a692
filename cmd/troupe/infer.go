package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// inferrer is what infer needs of the actors.
type inferrer interface {
	// Infer runs the function that trained a model on data, a JSON array of
	// samples, and returns what it makes of them, a JSON array. Errors:
	// NotFound (model or function), Invalid and UserCode (what the function
	// thinks of the data), Unavailable, Corrupt.
	Infer(ctx context.Context, id string, data json.RawMessage) (predictions json.RawMessage, err error)
}

// predictions is what infer prints.
type predictions struct {
	Predictions json.RawMessage `json:"predictions"`
}

// newInferCommand returns the verb that asks a trained model.
func newInferCommand(s *session) *cobra.Command {
	node, id, file := newNodeFlags(s.Getenv), "", ""
	cmd := &cobra.Command{
		Use:   "infer -n ID --datafile FILE",
		Short: "Ask a trained model",
		Long: `Run the function that trained a model on new samples, in this process, without
a server. FILE is JSON: an array of samples, or {"data": [...]}; - is standard
input.

The answer is one line of JSON on standard output: {"predictions": [...]}.`,
		Example: `  troupe infer -n 01jcx5zq8w3f --datafile data.json
  echo '[[0.1, 0.2], [0.3, 0.4]]' | troupe infer -n 01jcx5zq8w3f --datafile -`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitCorrupt, exitFailed),
		Args:        cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case id == "":
				return fault.New("infer.flags", fault.Invalid, "no model given: say which with -n ID, as troupe model list shows them")
			case file == "":
				return fault.New("infer.flags", fault.Invalid, "no data given: say what to ask with --datafile FILE, or - for standard input")
			}
			data, err := s.readSamples(file)
			if err != nil {
				return err
			}
			return s.infer(node, id, data)
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVarP(&id, "id", "n", "", "id of the model: that of the job that trained it")
	set.StringVar(&file, "datafile", "", "JSON file of samples; -: standard input")
	node.registerPython(set)
	set.Var(whole(&node.threads, 1, config.MaxThreads), "threads", "threads of the function (default: all cores)")
	set.StringVar(&node.store, "store", node.store, "URL of the store, where models are kept; else $TROUPE_STORE")
	set.CountVarP(&node.verbose, "verbose", "v", "log what happens; -vv: in detail")
	return cmd
}

// infer asks a node of its own, which has one slot.
func (s *session) infer(flags *nodeFlags, id string, data json.RawMessage) (err error) {
	flags.slots = 1
	node, err := flags.node(nil)
	if err != nil {
		return err
	}
	ctx, release := s.untilSignal()
	defer release()
	c, err := s.start(newLog(s.screen, flags.verbose), node)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	answer, err := c.Infer(ctx, id, data)
	if ctx.Err() != nil && err != nil {
		return fault.New("infer.run", fault.Unavailable, "%w", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	return s.printJSON(predictions{answer})
}
