package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/messages"
)

// jobID is what train prints of a job.
type jobID struct {
	ID string `json:"job_id"`
}

// newTrainCommand returns the verb that gives a server a job.
func newTrainCommand(s *session) *cobra.Command {
	train, server := newTrainFlags(), &remoteFlags{}
	function, follow, output := "", false, "text"
	cmd := &cobra.Command{
		Use:   "train -f FUNCTION -d DATASET",
		Short: "Give a server a job",
		Long: `Give a server a job, and print its id. FUNCTION and DATASET are names that the
server knows: built-in ones (softmax, mlp; digits), or those that troupe
function create and troupe dataset create have made. The job survives what
becomes of the server: the next one on the same store goes on with it.

With --follow the job is shown until it has ended, and the exit code says how.
Ctrl-C ends that and not the job; what is lost when the server is away is shown
when it is back.`,
		Example: `  troupe train -f mlp -d digits -e 20 --follow
  id=$(troupe train -f mlp -d digits)
  troupe train -f lenet -d mnist -e 10 -p 4 --goal-accuracy 99 -o json`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitFailed, exitStopped, exitKilled),
		Args:        noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if function == "" {
				return fault.New("train.flags", fault.Invalid, "no function given: say which with -f, as in troupe train -f mlp -d digits")
			}
			t, err := train.task(function, cmd.Flags())
			if err != nil {
				return err
			}
			if err := checkNames(t); err != nil {
				return err
			}
			if t, err = task.Resolve(t); err != nil {
				return err
			}
			return s.submitRemote(server, t, follow, output)
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVarP(&function, "function", "f", "", "function to train: a built-in (softmax, mlp), or the name of one that the server has")
	train.registerTask(set, "data set to train on: a built-in (digits), or the name of one that the server has")
	set.Var(pairs(train.options.RequireLabels), "require-label", "name=value: run functions only on nodes with that --node-label; repeat for more")
	set.Lookup("init").Usage = "start from a model that the server has: the id of its job"
	set.BoolVar(&follow, "follow", false, "show the job until it has ended")
	server.register(set)
	registerOutput(set, &output)
	s.complete(cmd, "init", modelNames, server)
	s.complete(cmd, "function", functionNames, server)
	s.complete(cmd, "dataset", datasetNames, server)
	return cmd
}

// submitRemote submits a job, under a key of its own: however often the request
// has to be sent, it is one job.
func (s *session) submitRemote(flags *remoteFlags, t *messages.TrainTask, follow bool, output string) error {
	c, err := s.client(flags)
	if err != nil {
		return err
	}
	defer c.Close()
	var id string
	var texts []string
	err = s.brief(func(ctx context.Context) (err error) {
		id, texts, err = c.SubmitJob(ctx, client.NewKey(), t)
		return err
	})
	if gone, ok := errors.AsType[*leftError](err); ok {
		gone.text += ": whether the server has the job, troupe task list says"
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(s.screen, "job %s: %s on %s\n", id, t.GetFunctionName(), t.GetDataset())
	warned := s.warnAll(texts)
	switch {
	case output == "json":
		err = s.printJSON(jobID{id})
	case !follow:
		_, err = fmt.Fprintln(s.Out, id)
	}
	if err != nil || !follow {
		return err
	}
	return s.followToEnd(c, id, t, warned, output)
}

// followToEnd follows a job, prints its result unless JSON was asked for, which
// has been printed, and returns how it ended.
func (s *session) followToEnd(c *client.Client, id string, t *messages.TrainTask, warned warnings, output string) error {
	result, err := s.followJob(c, id, t, warned)
	if err != nil {
		return err
	}
	if output == "text" {
		if err := s.printEnd(id, result); err != nil {
			return err
		}
	}
	return endOf(id, result)
}

// checkNames refuses what would be files of this machine, which a server does
// not see.
func checkNames(t *messages.TrainTask) error {
	const op = "train.flags"
	name, data, start := t.GetFunctionName(), t.GetDataset(), t.GetOptions().GetInit()
	switch {
	case isFile(name, ".py"):
		return fault.New(op, fault.Invalid, "-f %s is a file, and a server takes names: create the function first, with troupe function create --name %s --code %s", name, nameOf(name), name)
	case isFile(data, ".csv", ".csv.gz", ".npz"):
		return fault.New(op, fault.Invalid, "-d %s is a file, and a server takes names: create the data set first, with troupe dataset create --name %s --from %s", data, nameOf(data), data)
	case isFile(start, ".safetensors"):
		return fault.New(op, fault.Invalid, "--init %s is a file, and a server takes the ids of its models: see troupe model list", start)
	}
	return nil
}

// isFile reports whether a name is that of a file or folder rather than one in a
// store.
func isFile(name string, endings ...string) bool {
	for _, ending := range endings {
		if strings.HasSuffix(strings.ToLower(name), ending) {
			return true
		}
	}
	return strings.ContainsAny(name, `/\`)
}

// nameOf suggests a name for what a file holds.
func nameOf(path string) string {
	base, _, _ := strings.Cut(filepath.Base(path), ".")
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, base)
	if name = strings.Trim(name, "-_"); name == "" {
		return "NAME"
	}
	return name
}
