package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
)

// newFunctionCommand returns the verb for the functions that jobs can name.
func newFunctionCommand(s *session) *cobra.Command {
	return newGroup("function", "Create, update, list, show and delete functions", "  troupe function create --name lenet --code lenet.py\n  troupe function list",
		newFunctionCreateCommand(s), newFunctionUpdateCommand(s), newFunctionListCommand(s), newFunctionShowCommand(s), newFunctionDeleteCommand(s))
}

// functionFlags say which function is meant, and where its code is.
type functionFlags struct {
	placeFlags
	name string
	from api.FunctionSource
}

func newFunctionFlags(getenv func(string) string) *functionFlags {
	return &functionFlags{placeFlags: *newPlaceFlags(getenv)}
}

func (f *functionFlags) registerName(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "name", "", "name of the function")
}

func (f *functionFlags) registerSource(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.from.Path, "code", "", "program.py, or a folder with main.py")
	cmd.Flags().StringArrayVar(&f.from.URLs, "url", nil, "URL of an endpoint that runs it, such as one of troupe serve; may be repeated")
	if err := cmd.MarkFlagFilename("code", "py"); err != nil { // there is no such flag
		panic(err)
	}
}

func (f *functionFlags) check() error {
	if f.name == "" {
		return fault.New("function.flags", fault.Invalid, "no function given: say which with --name")
	}
	return nil
}

func (f *functionFlags) checkSource() error {
	if err := f.check(); err != nil {
		return err
	}
	switch code, url := f.from.Path != "", len(f.from.URLs) > 0; {
	case code && url:
		return fault.New("function.flags", fault.Invalid, "--code and --url say two things: where the program is, or where it runs; give one of them")
	case !code && !url:
		return fault.New("function.flags", fault.Invalid, "no code given: say where the program is with --code program.py, or --code FOLDER with main.py, or where it runs with --url")
	}
	return nil
}

// newFunctionCreateCommand returns the verb that deploys a function.
func newFunctionCreateCommand(s *session) *cobra.Command {
	flags, output := newFunctionFlags(s.Getenv), "text"
	cmd := &cobra.Command{
		Use:   "create --name NAME {--code FILE|FOLDER | --url URL...}",
		Short: "Deploy a function under a name",
		Long: `Deploy a PyTorch program, a file or a folder with main.py, under a name by which
jobs can train it. A name that is taken is a conflict: see troupe function
update.

With --url the program runs elsewhere: behind HTTP endpoints, such as those of
troupe serve, that run the same code. Jobs spread their functions over them, and
go to another one where one has failed. Nobody is called before a job runs.`,
		Example: `  troupe function create --name lenet --code examples/lenet.py
  troupe function create --name resnet --code ./resnet
  troupe function create --name far --url http://gpu1:8000 --url http://gpu2:8000`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.deploy(flags, output, "created", func(ctx context.Context, b backend) (api.Function, error) {
				return b.CreateFunction(ctx, flags.name, flags.from, false)
			})
		},
	}
	flags.registerName(cmd)
	flags.registerSource(cmd)
	flags.register(cmd.Flags())
	registerOutput(cmd.Flags(), &output)
	return cmd
}

// newFunctionUpdateCommand returns the verb that replaces a function.
func newFunctionUpdateCommand(s *session) *cobra.Command {
	flags, output := newFunctionFlags(s.Getenv), "text"
	cmd := &cobra.Command{
		Use:   "update --name NAME {--code FILE|FOLDER | --url URL...}",
		Short: "Replace a function that is deployed",
		Long: `Replace a function that is deployed, for jobs that are submitted from now on.
Those that have been keep the version that they were submitted with.`,
		Example:     "  troupe function update --name lenet --code examples/lenet.py",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.deploy(flags, output, "updated", func(ctx context.Context, b backend) (api.Function, error) {
				return b.UpdateFunction(ctx, flags.name, flags.from)
			})
		},
	}
	flags.registerName(cmd)
	flags.registerSource(cmd)
	flags.register(cmd.Flags())
	registerOutput(cmd.Flags(), &output)
	s.completePlace(cmd, "name", functionNames, &flags.placeFlags)
	return cmd
}

// deploy puts a function where the flags say, and says what became of it.
func (s *session) deploy(flags *functionFlags, output, became string, put func(context.Context, backend) (api.Function, error)) error {
	if err := flags.checkSource(); err != nil {
		return err
	}
	return s.at(&flags.placeFlags, func(ctx context.Context, b backend) error {
		f, err := put(ctx, b)
		if err != nil {
			return err
		}
		return s.printFunction(f, output, became)
	})
}

// newFunctionListCommand returns the verb that lists all functions.
func newFunctionListCommand(s *session) *cobra.Command {
	return newListCommand(s, "function", "functions", "List all functions, built-in ones first", functionTable, func(ctx context.Context, b backend) ([]api.Function, error) {
		return b.Functions(ctx)
	})
}

func functionTable(list []api.Function) *table {
	t := newTable("NAME", "RUNTIME", "BYTES", "VERSION")
	for _, f := range list {
		bytes := "-"
		if f.Version != "" && len(f.URLs) == 0 {
			bytes = fmt.Sprint(f.Bytes)
		}
		t.row(f.Name, f.Runtime, bytes, f.Version)
	}
	return t
}

// newFunctionShowCommand returns the verb that says what a function is.
func newFunctionShowCommand(s *session) *cobra.Command {
	flags, output := newFunctionFlags(s.Getenv), "text"
	cmd := &cobra.Command{
		Use:         "show --name NAME",
		Short:       "Say what a function is",
		Example:     "  troupe function show --name mlp",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return s.at(&flags.placeFlags, func(ctx context.Context, b backend) error {
				f, err := b.Function(ctx, flags.name)
				if err != nil {
					return err
				}
				return s.printFunction(f, output, "")
			})
		},
	}
	flags.registerName(cmd)
	flags.register(cmd.Flags())
	registerOutput(cmd.Flags(), &output)
	s.completePlace(cmd, "name", functionNames, &flags.placeFlags)
	return cmd
}

// printFunction writes a function to standard output, and says what became of
// it, unless that is nothing.
func (s *session) printFunction(f api.Function, output, became string) error {
	if became != "" {
		fmt.Fprintf(s.screen, "function %s %s\n", f.Name, became)
	}
	if output == "json" {
		return s.printJSON(f)
	}
	if became != "" {
		return nil
	}
	if err := s.printTable(functionTable([]api.Function{f})); err != nil || len(f.URLs) == 0 {
		return err
	}
	fmt.Fprintln(s.Out)
	urls := newTable("URL")
	for _, u := range f.URLs {
		urls.row(u)
	}
	return s.printTable(urls)
}

// newFunctionDeleteCommand returns the verb that removes a function.
func newFunctionDeleteCommand(s *session) *cobra.Command {
	flags := newFunctionFlags(s.Getenv)
	cmd := &cobra.Command{
		Use:         "delete --name NAME",
		Short:       "Remove a function, unless a job uses it",
		Example:     "  troupe function delete --name lenet",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return s.at(&flags.placeFlags, func(ctx context.Context, b backend) error {
				if err := b.DeleteFunction(ctx, flags.name); err != nil {
					return err
				}
				fmt.Fprintf(s.screen, "function %s deleted\n", flags.name)
				return nil
			})
		},
	}
	flags.registerName(cmd)
	flags.register(cmd.Flags())
	s.completePlace(cmd, "name", functionNames, &flags.placeFlags)
	return cmd
}
