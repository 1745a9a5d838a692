package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/api/client"
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
	node, place, id, file := newNodeFlags(s.Getenv), newPlaceFlags(s.Getenv), "", ""
	cmd := &cobra.Command{
		Use:   "infer -n ID --datafile FILE",
		Short: "Ask a trained model",
		Long: `Run the function that trained a model on new samples: on the server, or without
one in this process, to which the flags about Python and threads belong. FILE
is JSON: an array of samples, or {"data": [...]}; - is standard input.

The answer is one line of JSON on standard output: {"predictions": [...]}.`,
		Example: `  troupe infer -n 01jcx5zq8w3f --datafile data.json
  echo '[[0.1, 0.2], [0.3, 0.4]]' | troupe infer -n 01jcx5zq8w3f --datafile -`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitCorrupt, exitFailed, exitKilled),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
			c, err := s.inferServer(cmd.Flags(), place)
			if err != nil {
				return err
			}
			if c == nil {
				node.store = place.store
				return s.infer(node, id, data)
			}
			defer c.Close()
			return s.brief(func(ctx context.Context) error {
				answer, err := c.Infer(ctx, id, data)
				if err != nil {
					return err
				}
				return s.printJSON(predictions{answer})
			})
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVarP(&id, "id", "n", "", "id of the model: that of the job that trained it")
	set.StringVar(&file, "datafile", "", "JSON file of samples; -: standard input")
	node.registerPython(set)
	set.Var(whole(&node.threads, 1, config.MaxThreads), "threads", "threads of the function (default: all cores)")
	place.register(set)
	set.CountVarP(&node.verbose, "verbose", "v", "log what happens; -vv: in detail")
	s.completePlace(cmd, "id", modelNames, place)
	return cmd
}

// inferServer returns the server to ask, nil for none. Flags about this process
// mean this process.
func (s *session) inferServer(set *pflag.FlagSet, place *placeFlags) (*client.Client, error) {
	local := ""
	own := pflag.NewFlagSet("infer", pflag.ContinueOnError)
	node := newNodeFlags(s.Getenv)
	node.registerPython(own)
	own.IntVar(&node.threads, "threads", 0, "")
	own.CountVarP(&node.verbose, "verbose", "v", "")
	set.Visit(func(f *pflag.Flag) {
		if own.Lookup(f.Name) != nil {
			local = f.Name
		}
	})
	if local != "" && place.remoteFlags.server == "" {
		return nil, nil
	}
	c, err := s.server(place)
	if local != "" && c != nil {
		c.Close()
		return nil, fault.New("infer.flags", fault.Invalid, "--%s is about this process, and %s is to be asked: leave it out, or give --server none", local, c.Server())
	}
	return c, err
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
